"""`tune fake-board`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from devices.agent.identity import identify
from devices.agent.sysfs import SysFs
from devices.fake.faults import FAULTS
from tests.devices.fake.test_fuse import needs_fuse
from tuner.cli.main import main


def tune(*arguments: str) -> int | str | None:
    """The exit status of `tune fake-board`."""
    with pytest.raises(SystemExit) as left:
        main(["fake-board", *arguments])
    return left.value.code


def test_it_names_what_can_go_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(str(tmp_path), "--fault", "list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FAULTS)


def test_plain_files(tmp_path: Path) -> None:
    assert tune(str(tmp_path / "board"), "--plain", "--model", "jetson-tx2") == 0
    assert identify(SysFs(str(tmp_path / "board"))).module == "jetson-tx2"


@pytest.mark.parametrize(
    "options", [["--model", "abacus"], ["--fault", "tea"], ["--fault", "lost@0"], ["--speed", "0"]]
)
def test_what_is_to_be_typed_again(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(str(tmp_path / "board"), *options) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "board").exists()


@needs_fuse
def test_the_commands_status_is_its_own(tmp_path: Path) -> None:
    root = tmp_path / "board"
    script = "import sys; sys.exit(len(open(sys.argv[1] + '/etc/nv_tegra_release').read()) > 10 and 5)"
    assert tune(str(root), "--model", "jetson-nano", "--", sys.executable, "-c", script, str(root)) == 5
    assert list(root.iterdir()) == []
