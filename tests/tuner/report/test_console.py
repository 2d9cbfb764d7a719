"""How lines keep to the width of who reads them."""

from __future__ import annotations

import pytest
from rich.text import Text

from tuner.report.console import console

LONG = (
    "note: a sentence that goes on with --prior some-study-of-a-device until it is longer than a line of the terminal"
)


@pytest.mark.parametrize("columns", ["60", "80"])
def test_long_lines_hang(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = console()
    out.print(LONG)
    out.print(Text("  " + LONG, style="red"), style="bold")
    lines = capsys.readouterr().out.splitlines()
    second = lines.index(next(line for line in lines if line.startswith("  note")))
    assert max(map(len, lines)) <= int(columns)
    assert all(line[:3] == "  " + line[2:3].strip() for line in lines[1:second])
    assert all(line[:5] == "    " + line[4:5].strip() for line in lines[second + 1 :])
    assert " ".join(" ".join(lines[:second]).split()) == LONG


def test_what_is_to_be_copied_stays_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = "/home/" + "x" * 90
    monkeypatch.setenv("COLUMNS", "60")
    console().print(LONG, soft_wrap=True)
    console().print(f"frozen: {path}")
    assert {LONG, f"  {path}"} <= set(capsys.readouterr().out.splitlines())


def test_a_figure_and_its_unit_stay_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    console().print("a clock of the board at 1510.4 MHz, regret <= 2 % of it")
    assert capsys.readouterr().out.splitlines() == ["a clock of the board at", "  1510.4 MHz, regret <= 2 % of", "  it"]


@pytest.mark.parametrize("columns", [None, "", "0", "wide"])
def test_away_from_a_terminal_lines_are_whole(
    columns: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    console().print(LONG * 20)
    assert capsys.readouterr().out == LONG * 20 + "\n"
