"""`tune fake-board`."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from devices.agent.identity import identify
from devices.agent.sysfs import SysFs
from devices.fake.faults import FAULTS
from devices.fake.fuse import Served, mounted
from tests.devices.fake.test_fuse import needs_fuse
from tuner.cli.main import main


def tune(*arguments: str) -> int | str | None:
    """The exit status of `tune fake-board`."""
    with pytest.raises(SystemExit) as left:
        main(["fake-board", *arguments])
    return left.value.code


def test_it_names_what_can_go_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--fault", "list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FAULTS)


def test_plain_files(tmp_path: Path) -> None:
    assert tune(str(tmp_path / "board"), "--plain", "--model", "jetson-tx2") == 0
    assert identify(SysFs(str(tmp_path / "board"))).module == "jetson-tx2"


def test_planting_spares_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(str(tmp_path / "board"), "--plain") == 0
    before = sorted(tmp_path.rglob("*"))
    assert tune(str(tmp_path / "board"), "--plain") == 2
    assert "is not empty" in capsys.readouterr().err
    (tmp_path / "file").write_text("mine")
    for name in ("file", "file/board"):
        assert tune(str(tmp_path / name), "--plain") == 2
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "file"])
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "symlink_to", full)
    assert tune(str(tmp_path), "--plain") == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "abacus"],
        ["--model", "raspberry-pi-4", "--kernel", "4.9"],
        ["--fault", "tea"],
        ["--fault", "lost@0"],
        ["--fault", "swap@0+2"],
        ["--fault", "swap@1:nan"],
        ["--speed", "0"],
        ["--", "no-such-program"],
        ["--plain", "--speed", "3"],
        ["--plain", "--fault", "swap@2"],
        ["--plain", "--", "true"],
    ],
)
def test_what_is_to_be_typed_again(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(str(tmp_path / "board"), *options) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "board").exists()


@needs_fuse
def test_a_board_that_is_still_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "a board"
    with mounted(root, Served()):
        for options in ([], ["--plain"]):
            assert tune(str(root), *options) == 2
            assert f"fusermount3 -u -z '{root}'" in capsys.readouterr().err


@needs_fuse
def test_the_commands_status_is_its_own(tmp_path: Path) -> None:
    root = tmp_path / "board"
    script = "import sys; sys.exit(len(open(sys.argv[1] + '/etc/nv_tegra_release').read()) > 10 and 5)"
    assert tune(str(root), "--model", "jetson-nano", "--", sys.executable, "-c", script, str(root)) == 5
    assert list(root.iterdir()) == []
