"""The trainer child: loads a workload and trains it, in bursts and in full. Standard library and torch, nothing else.

It is a process of its own, because what users train may hang, leak or die. `loop.train_window` makes every optimizer
step, a burst's as a full training's: what was profiled is what trains.
"""
