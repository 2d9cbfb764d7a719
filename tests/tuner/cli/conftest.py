"""The command line in this process: fast, and everything it prints is seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tuner.cli.main import main


@dataclass(frozen=True)
class Result:
    """What a command left: exit status, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document without NaN."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} in the document")

        return json.loads(self.out, parse_constant=refuse)


Tune = Callable[..., Result]


@pytest.fixture
def tune(capsys: pytest.CaptureFixture[str]) -> Tune:
    """Runs `tune` with arguments."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = exit_.value.code
        return Result(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A small recorded profile: throughput grows with the limit and has its best batch inside."""
    lines = ["# device: Bench GPU", "# workload: toy-net", "power_limit_w,batch_size,throughput,power_mean_w,status"]
    for limit in (100, 125, 150, 175, 200):
        for batch, factor in ((8, 0.6), (16, 0.9), (32, 1.0), (64, 0.95)):
            lines.append(f"{limit},{batch},{limit * factor:g},{limit * 0.9 + batch / 8:g},ok")
    path = tmp_path / "bench.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
