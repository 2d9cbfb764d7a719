"""The arena's figures, regenerated: `python -m experiments.arena`, or `make arena` (QUICK=1: at most 3 minutes)."""
