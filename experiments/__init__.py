"""Comparisons, reproductions and benchmarks; run by make, not part of the wheel."""
