"""Words for settings, figures and sources, the same in every table and message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.units import number, seconds, watts

_KNOB_WORDS: Mapping[str, str] = {
    "gpu_freq_mhz": "GPU {} MHz",
    "batch_size": "batch {}",
    "cpu_freq_mhz": "CPU {} MHz",
    "cpu_cores": "{} cores",
    "cpu_threads": "{} threads",
    "emc_freq_mhz": "EMC {} MHz",
    "power_limit_w": "limit {} W",
}


def setting_text(setting: Mapping[str, float]) -> str:
    """`GPU 408 MHz, batch 64`."""
    words = (_KNOB_WORDS.get(name, name + "={}").format(number(value)) for name, value in setting.items())
    return ", ".join(text[:-1] if text in ("1 threads", "1 cores") else text for text in words)


def fixed_text(held_fixed: Mapping[str, Any]) -> str:
    """`held fixed: preset=15W, cpu_cores=6`, or nothing where nothing is."""
    pairs = [f"{name}={number(value)}" for name, value in held_fixed.items()]
    return f"held fixed: {', '.join(pairs)}" if pairs else ""


def figure(value: float | None, digits: int = 4) -> str:
    """A number to `digits` significant digits, `-` where there is none."""
    if value is None:
        return "-"
    if abs(value) >= 10**digits - 0.5:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def change(value: float | None, than: float | None) -> str:
    """`+12.3 %`, or `-` where it cannot be said."""
    if value is None or not than:
        return "-"
    return f"{(value / than - 1) * 100:+.1f} %"


def count(number: int, what: str) -> str:
    """`1 burst`, `2 bursts`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def span(low_s: float, high_s: float) -> str:
    """`4.3 min to 7.7 min`."""
    low, high = seconds(low_s), seconds(high_s)
    return low if low == high else f"{low} to {high}"


def work_unit(throughput_unit: str) -> str:
    """The unit of work of `samples/s`: `sample`."""
    what = throughput_unit.rpartition("/")[0]
    return what.removesuffix("s") or "unit"


def source_text(source: str, model: str | None) -> str:
    """The first line of every output: where the figures come from."""
    words = {
        "measured": "measured here",
        "replayed": "answered from a recorded profile",
        "emulated": "a model of the board answers, nothing is measured",
    }
    return f"source: {source} - {model or 'an unnamed device'}: {words[source]}"


def cap_text(cap: Mapping[str, Any] | None) -> str:
    """`7 W (p95)`, or `no cap`."""
    return f"{watts(cap['watts'])} ({cap['statistic']})" if cap else "no cap"
