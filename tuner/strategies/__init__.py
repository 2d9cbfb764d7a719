"""Strategies by name. Each lives in a file of its own, imported when it is opened: Ax takes seconds to load."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from importlib import import_module

from devices.errors import InputError
from tuner.strategies.strategy import Strategy, Suggestion

__all__ = ["DEFAULT_STRATEGY", "STRATEGIES", "Strategy", "Suggestion", "open_strategy"]

STRATEGIES: Mapping[str, tuple[str, str]] = {
    "cap-aware": ("tuner.strategies.cap_aware", "CapAwareStrategy"),
    "ax": ("tuner.strategies.bayesian", "AxStrategy"),
    "sobol": ("tuner.strategies.sobol", "SobolStrategy"),
    "grid": ("tuner.strategies.grid", "GridStrategy"),
    "lut": ("tuner.strategies.lut", "LutStrategy"),
    "random": ("tuner.strategies.random_search", "RandomStrategy"),
    "optuna-tpe": ("tuner.strategies.optuna", "OptunaTPEStrategy"),
    "optuna-gp": ("tuner.strategies.optuna", "OptunaGPStrategy"),
    "taste": ("tuner.strategies.taste", "TasteStrategy"),
    "frequency-only": ("tuner.strategies.frequency_only", "FrequencyOnlyStrategy"),
    "mode-table": ("tuner.strategies.mode_table", "ModeTableStrategy"),
    "coordinate-descent": ("tuner.strategies.coordinate_descent", "CoordinateDescentStrategy"),
    "analytic": ("tuner.strategies.analytic", "AnalyticStrategy"),
}
DEFAULT_STRATEGY = "cap-aware"


def open_strategy(name: str) -> Strategy:
    """The strategy of that name, or a variant of it (`cap-aware:no-mask`).

    Raises:
        InputError: no such strategy or variant.
    """
    base, _, variant = name.partition(":")
    if base not in STRATEGIES:
        close = difflib.get_close_matches(base, STRATEGIES, n=1)
        nearest = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"unknown strategy '{name}'{nearest}", hint=f"--strategy {' | '.join(STRATEGIES)}")
    module, attribute = STRATEGIES[base]
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)  # Ax greets on being imported
    try:
        found: type[Strategy] = getattr(import_module(module), attribute)
    finally:
        logging.disable(disabled)
    if ":" not in name:
        return found()
    if variant not in found.variants:
        known = ", ".join(f"{base}:{suffix}" for suffix in found.variants) or "none"
        raise InputError(f"strategy {base} has no variant '{variant}'", hint=f"its variants: {known}")
    strategy = found(**found.variants[variant])
    strategy.name = name
    return strategy
