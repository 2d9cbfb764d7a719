"""The power meters of a Jetson's module, in the layout of the kernel's driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from devices.catalog import CONSUMERS, Board
from devices.fake.layout import Layout

if TYPE_CHECKING:
    from devices.fake.board import FakeBoard

TOTALS = ("VDD_IN", "POM_5V_IN")
"""Rails through which the whole module is fed."""

_VOLTS, _DROOP_OHM, _STEP_MV = 5.04, 0.004, 8
_SHUNT_MILLIOHM = 5
_LIMIT_MA = 4984


def fed_by(board: Board, layout: Layout) -> dict[str, tuple[str, ...]]:
    """The metered rails by label, each with the consumers it feeds."""
    if board.meter is None:
        return {}
    rails = board.meter.rails
    labels = [label for _, chip in layout.chips for label in chip if label != "NC"]
    return {label: CONSUMERS if label in TOTALS else rails.get(f"{label.lower()}_w", ()) for label in labels}


def build(board: FakeBoard) -> None:
    """Make the files of all chips."""
    totals = [label for label in board.fed if label in TOTALS] or list(board.fed)[:1]
    old = board.kernel == "4.9"
    driver = "ina3221x" if old else "ina3221"
    for number, (address, labels) in enumerate(board.layout.chips):
        base = f"{board.layout.devices(board.kernel)}/{board.layout.i2c}/{address}"
        board.files.add(f"{base}/name", driver)
        board.files.link(f"/sys/bus/i2c/drivers/{driver}/{address}", base)
        board.files.link(f"/sys/bus/i2c/devices/{address}", base)
        (_iio if old else _hwmon)(board, base, number, labels, totals)


def _iio(board: FakeBoard, base: str, number: int, labels: tuple[str, ...], totals: list[str]) -> None:
    folder, files = f"{base}/iio:device{number}", board.files
    files.add(f"{folder}/name", "ina3221x")
    for n, label in enumerate(labels):
        files.add(f"{folder}/rail_name_{n}", label)
        if label in totals:
            board.groups["label"].append(f"{folder}/rail_name_{n}")
            board.groups["power"].append(f"{folder}/in_power{n}_input")
        files.add(f"{folder}/in_power{n}_input", _shown(board, label, lambda mv, ma: mv * ma // 1000))
        files.add(f"{folder}/in_voltage{n}_input", _shown(board, label, lambda mv, ma: mv))
        files.add(f"{folder}/in_current{n}_input", _shown(board, label, lambda mv, ma: ma))
        files.add(f"{folder}/crit_current_limit_{n}", "32760 ma")


def _hwmon(board: FakeBoard, base: str, number: int, labels: tuple[str, ...], totals: list[str]) -> None:
    chip = f"hwmon{(1, 4, 5)[number]}"  # 3 counts over-currents
    folder, files = f"{base}/hwmon/{chip}", board.files
    files.add(f"{folder}/name", "ina3221")
    files.add(f"{folder}/samples", "512")
    for n, label in enumerate(labels, start=1):
        files.add(f"{folder}/in{n}_label", label)
        if label == "NC":
            continue
        if label in totals:
            board.groups["label"].append(f"{folder}/in{n}_label")
            board.groups["power"].append(f"{folder}/curr{n}_input")
        files.add(f"{folder}/in{n}_input", _shown(board, label, lambda mv, ma: mv))
        files.add(f"{folder}/curr{n}_input", _shown(board, label, lambda mv, ma: ma))
        files.add(f"{folder}/in{n + 3}_input", _shown(board, label, lambda mv, ma: ma * _SHUNT_MILLIOHM))
        files.add(f"{folder}/in{n}_enable", "1")
        for limit in ("max", "crit"):
            files.add(f"{folder}/curr{n}_{limit}", str(_LIMIT_MA))
            files.add(f"{folder}/curr{n}_{limit}_alarm", "0")
        files.add(f"{folder}/shunt{n}_resistor", str(_SHUNT_MILLIOHM * 1000))
    files.add(f"{folder}/in7_label", "sum of shunt voltages")
    files.link(f"/sys/class/hwmon/{chip}", folder)


def _shown(board: FakeBoard, label: str, figure: Callable[[int, int], int]) -> Callable[[], str]:
    """A figure from the millivolts and milliamperes of a rail. The meter's steps are those of its current."""
    meter = board.catalog.meter
    step_ma = max(round(meter.quantum_w / _VOLTS * 1000), 1) if meter is not None else 1

    def read() -> str:
        watts = board.show_w(label)
        millivolts = round((_VOLTS - _DROOP_OHM * watts) * 1000 / _STEP_MV) * _STEP_MV
        return str(figure(millivolts, round(watts * 1e6 / millivolts / step_ma) * step_ma))

    return read
