"""Fits the parameters of emulated boards to published figures: `python -m experiments.fit_boards BOARD`."""
