"""The doctor's visit: put back what a killed run left, then look."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from devices.catalog import find_board
from devices.device import LOCAL_DEVICES, Access, board_here, unknown_device
from devices.doctor import examine, recover
from devices.errors import InputError


def consult(
    device: str | None = None, root: str = "/", *, restore: bool = False, python: str | None = None
) -> dict[str, Any]:
    """The report on the machine whose files are under `root`, as `tune doctor --json` prints it.

    Args:
        device: What it should be, or None.
        root: Of the board's files.
        restore: Put back first what a killed run left changed; the key `restored` names it.
        python: The Python that trains.

    Raises:
        InputError: an unknown device, a root that is no folder.
        DeviceError: no agent can be started, or something could not be put back.
    """
    check_root(root)
    board = None if device is None or device in LOCAL_DEVICES else find_board(device)
    listed = device in LOCAL_DEVICES or board is not None
    if device is not None and not listed and board_here(device, Access(root=root)) != device:  # nor known by its files
        raise unknown_device(device)
    restored = recover(root) if restore else []
    report = examine(root, device=device, python=python)
    if board is not None and report["module"] != board.name:
        _say_other_board(report, board.name, device or board.name, root)
    return {**report, "restored": restored}


def _say_other_board(report: dict[str, Any], wanted: str, device: str, root: str) -> None:
    """Another module of the family is what answers to the name; a board of another one, or none, is a fault."""
    model, module = report["model"] or "a machine that is no board of the catalog", report["module"]
    if report["family"] is not None and wanted.startswith(report["family"]):
        here = f"a {module}" if module else model
        report["notes"].insert(0, f"this is no {wanted} but {here}: that is what --device {device} tunes here")
        return
    mend = f"tune doctor --device {module or 'cpu'}" + ("" if root == "/" else f" --sysfs-root {shlex.quote(root)}")
    report["problems"].insert(0, {"what": f"{device} was expected, this is {model}", "mend": mend})


def check_root(root: str) -> None:
    """Check that a board's files may be under `root`.

    Raises:
        InputError: it is no folder.
    """
    if not Path(root).is_dir():
        raise InputError(f"--sysfs-root {root} is no folder", hint="the folder of a fake board, or a copy of a board's")
