"""TASTE's experiments on this machine: `python -m experiments.taste`, or `make taste` (QUICK=1: at most 3 minutes).

Bhatnagar, Peccia, Bringmann, arXiv 2609.07444: throughput has a ceiling along the batch size, and a micro-batch tuned
to it, accumulated to the batch that learning wants, costs no accuracy, in supervised and in online continual learning.
"""
