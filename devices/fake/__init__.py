"""A fake board: files that behave as those of a real one do, with the emulation's physics behind them.

`board.FakeBoard` is the board; `sysfs.FakeSysFs` shows it in this process, `fuse.serve` as a folder; `trainer` trains
on it in accelerated time; `faults.FAULTS` lists what can go wrong.
"""
