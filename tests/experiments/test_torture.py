"""Small campaigns of `make torture`: boards that misbehave in random ways, agents that are killed at random moments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devices.errors import DeviceError
from devices.fake.faults import FAULTS, Fault
from devices.fake.fuse import check_fuse
from experiments.torture import faults, kills

NAMES = sorted(set(FAULTS) - set(faults.FOREVER))
FAULT = st.builds(Fault, st.sampled_from(NAMES), st.integers(1, 2), st.floats(0, faults.LATEST_S))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=st.sampled_from(sorted(faults.MODELS)), what=st.lists(FAULT, max_size=3), seed=st.integers(0, 1000))
def test_no_wrong_burst_is_ok_and_nothing_stays_changed(model: str, what: list[Fault], seed: int) -> None:
    run = faults.torture(model, what, seed)
    assert run.wrong == []
    assert run.left == []
    assert run.statuses


@pytest.mark.parametrize("name", faults.FOREVER)
def test_without_the_right_to_write_nothing_is_measured(name: str) -> None:
    run = faults.torture("jetson-orin-nano", [Fault(name, burst=0)], seed=0)
    assert [status.partition(":")[0] for status in run.statuses] == ["refused"]


def test_a_wrong_burst_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults.torture("jetson-orin-nano", [], seed=0).statuses == ["ok", "ok"]
    monkeypatch.setattr(faults, "NEAR", 1e-6)
    assert faults.torture("jetson-orin-nano", [], seed=0).wrong


def test_killed_agents_leave_nothing(tmp_path: Path) -> None:
    try:
        check_fuse()
    except DeviceError as error:
        pytest.skip(error.message)
    for kill in kills.campaign(tmp_path / "board", 3, seed=1):
        assert kill.left == ()
        assert kill.processes == ()
