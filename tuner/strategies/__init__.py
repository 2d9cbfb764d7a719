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
    "ax": ("tuner.strategies.bayesian", "AxStrategy"),
    "sobol": ("tuner.strategies.sobol", "SobolStrategy"),
    "grid": ("tuner.strategies.grid", "GridStrategy"),
}
DEFAULT_STRATEGY = "ax"


def open_strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        InputError: no such strategy.
    """
    if name not in STRATEGIES:
        close = difflib.get_close_matches(name, STRATEGIES, n=1)
        nearest = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"unknown strategy '{name}'{nearest}", hint=f"--strategy {' | '.join(STRATEGIES)}")
    module, attribute = STRATEGIES[name]
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)  # Ax greets on being imported
    try:
        strategy: Strategy = getattr(import_module(module), attribute)()
    finally:
        logging.disable(disabled)
    return strategy
