"""The fake board's trainer under the agent's own code: as fast as the physics, and every way to go wrong."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from devices.agent.clock import Clock
from devices.agent.failures import AgentError
from devices.catalog import find_board
from devices.device import BurstPlan, WorkloadSpec
from devices.emulated import EmulatedDevice
from devices.fake.board import FakeBoard
from devices.fake.faults import FAULTS
from devices.fake.threads import ThreadTrainer
from devices.fake.turns import TurnClock
from devices.fake.work import IDLE, TRAIN, load
from devices.measurement import Status
from tests.devices.fake.rig import Rig, rig

WORKLOAD = WorkloadSpec("resnet18")
SETTING = {"gpu_freq_mhz": 510.0, "batch_size": 16.0}
PLAN = BurstPlan(cap_w=20.0, min_s=10.0, max_s=12.0)


@pytest.fixture(autouse=True, scope="module")
def counted() -> None:
    """The workload is counted once, before any board has to wait for it."""
    load(WORKLOAD.to_json())


def make(*faults: str, seed: int = 0, model: str = "jetson-orin-nano", preset: str | None = None) -> FakeBoard:
    return FakeBoard(model, faults=faults, seed=seed, preset=preset, clock=TurnClock())


@pytest.mark.parametrize(
    ("preset", "setting"),
    [
        ("15W", {"gpu_freq_mhz": 624.75, "batch_size": 32}),
        ("15W", {"gpu_freq_mhz": 306, "batch_size": 4}),
        ("15W", {"gpu_freq_mhz": 408, "batch_size": 128}),
        ("7W", {"gpu_freq_mhz": 306, "batch_size": 16}),
        ("2C-730-EMC665", {"gpu_freq_mhz": 510, "batch_size": 16}),
    ],
)
def test_it_trains_as_fast_as_the_emulation_says(preset: str, setting: dict[str, float]) -> None:
    catalog = find_board("jetson-orin-nano")
    assert catalog is not None
    predicted = EmulatedDevice(catalog, preset=preset).predict(setting, WORKLOAD)
    with rig(make(preset=preset)) as agent:
        measured = agent.burst(setting, replace(PLAN, min_s=12, max_s=15))
        assert measured.status is Status.OK, measured.reason
        assert measured.source == "emulated"
        assert measured.throughput == pytest.approx(predicted.throughput, rel=0.02)
        assert measured.power_mean_w == pytest.approx(predicted.power_mean_w, rel=0.05)
        assert agent.hands.restore()


def test_other_knobs_count_too() -> None:
    pinned = {"cpu_cores": 2.0, "cpu_freq_mhz": 729.6, "emc_freq_mhz": 665.6}
    catalog = find_board("jetson-orin-nano")
    assert catalog is not None
    predicted = EmulatedDevice(catalog, preset="2C-730-EMC665").predict(SETTING, WORKLOAD)
    with rig(make()) as agent:
        measured = agent.burst({**SETTING, **pinned}, PLAN)
        assert measured.status is Status.OK, measured.reason
        assert measured.throughput == pytest.approx(predicted.throughput, rel=0.02)
        agent.hands.restore()
        assert agent.sysfs.read("/sys/devices/system/cpu/online") == "0-5"


@pytest.mark.parametrize("name", [name for name, kind in FAULTS.items() if kind.statuses])
def test_no_burst_with_a_fault_is_ok_and_the_next_one_is(name: str) -> None:
    with rig(make(f"{name}@1:6")) as agent:
        hit = agent.burst(SETTING, PLAN)
        assert hit.status.value in FAULTS[name].statuses, hit.reason
        assert hit.reason
        if name == "mode-changed":  # stays until somebody changes it back
            agent.fake.set_mode(0)
        after = agent.burst(SETTING, PLAN)
        assert after.status is Status.OK, after.reason


@pytest.mark.parametrize("name", [name for name, kind in FAULTS.items() if not kind.statuses])
def test_faults_that_leave_a_burst_as_it_is(name: str) -> None:
    with rig(make(f"{name}@1:6")) as agent:
        measured = agent.burst(SETTING, PLAN)
        assert measured.status is Status.OK, measured.reason
        assert measured.cost_s > (90 if name == "slow-start" else 10)


@pytest.mark.parametrize("model", ["jetson-orin-nano", "jetson-nano", "jetson-agx-xavier"])
@pytest.mark.parametrize("when", ["@0", "@1:0", "@1:1.5"])
def test_a_meter_that_stands_still_measures_nothing(model: str, when: str) -> None:
    with rig(make(f"meter-stuck{when}", model=model)) as agent:
        setting = {agent.board.always[0]: agent.board.knobs[0].default(), "batch_size": 16.0}
        hit = agent.burst(setting)
        assert hit.status is Status.CRASHED
        assert "the power meter is stuck" in str(hit.reason)
        if when != "@0":
            assert agent.burst(setting).status is Status.OK


def test_memory_that_runs_out_and_a_trainer_that_starts_anew() -> None:
    with rig(make()) as agent:
        for _ in range(3):
            failed = agent.burst({**SETTING, "batch_size": 1024.0}, PLAN)
            assert failed.status is Status.OOM, failed.reason
        assert agent.burst(SETTING, PLAN).status is Status.OK


def test_a_user_and_a_container_are_told_what_to_do() -> None:
    told = []
    for name in ("no-permission", "read-only"):
        with rig(make(f"{name}@0")) as agent, pytest.raises(AgentError) as caught:
            agent.burst(SETTING, PLAN)
        told.append((caught.value.message, caught.value.hint))
        assert caught.value.kind == "device"
        assert caught.value.hint
    assert told[0] != told[1]


def test_a_cap_that_nothing_keeps() -> None:
    with rig(make()) as agent:
        measured = agent.burst({"gpu_freq_mhz": 306.0, "batch_size": 64.0}, replace(PLAN, cap_w=7.0))
        assert measured.status is Status.OVER_CAP
        assert measured.power_mean_w is not None
        assert measured.power_mean_w > 8


def test_a_board_without_meter_and_gpu() -> None:
    catalog = find_board("raspberry-pi-4")
    assert catalog is not None
    setting = {"cpu_freq_mhz": 1200.0, "batch_size": 4.0}
    predicted = EmulatedDevice(catalog, preset="4C").predict(setting, WORKLOAD)
    with rig(make(model="raspberry-pi-4")) as agent:
        measured = agent.burst(setting, BurstPlan(min_s=20.0, max_s=60.0))
        assert measured.status is Status.OK, measured.reason
        assert measured.power_mean_w is None
        assert measured.throughput == pytest.approx(predicted.throughput, rel=0.03)


def test_accumulation_makes_longer_steps() -> None:
    with rig(make()) as agent:
        once, often = (agent.burst(SETTING, replace(PLAN, accumulation=count)) for count in (1, 4))
        assert once.step_time_s is not None
        assert often.step_time_s == pytest.approx(4 * once.step_time_s, rel=0.05)


def test_the_same_seed_trains_alike_and_another_one_does_not() -> None:
    found = []
    for seed in (0, 0, 1):
        with rig(make(seed=seed)) as agent:
            found.append(agent.burst(SETTING, PLAN).step_time_s)
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[0] != found[2]


# ---- the trainer as its agent sees it


def ask(trainer: ThreadTrainer, clock: Clock, request: str, **parameters: object) -> dict[str, object]:
    """What it answers."""
    number = trainer.ask(request, device="cuda", **parameters)
    while True:
        message = trainer.channel.receive(600)
        assert message is not None
        if message["id"] == number and "event" not in message:
            return message


def is_gone(trainer: ThreadTrainer) -> bool:
    return trainer.gone


def test_the_trainer_refuses_what_it_cannot() -> None:
    board = make()
    trainer = ThreadTrainer(board, board.clock)
    try:
        answer = ask(trainer, board.clock, "load", workload={"spec": "absent", "args": {}, "data": None})
        assert answer["error"]["kind"] == "input"  # type: ignore[index]
        answer = ask(trainer, board.clock, "train", workload=WORKLOAD.to_json(), plan={}, threads=None)
        assert "no numbers to learn from" in answer["error"]["message"]  # type: ignore[index]
        answer = ask(trainer, board.clock, "load", workload=WORKLOAD.to_json())
        assert answer["reply"]["optimizer"]  # type: ignore[index]
        assert not is_gone(trainer)
    finally:
        trainer.kill()
    assert is_gone(trainer)
    trainer.kill()


def test_a_killed_trainer_leaves_the_board_idle() -> None:
    board = make()
    trainer = ThreadTrainer(board, board.clock)
    ask(trainer, board.clock, "load", workload=WORKLOAD.to_json())
    trainer.ask("burst", workload=WORKLOAD.to_json(), micro_batch=16, accumulation=1, threads=None, device="cuda")
    deadline = board.clock.monotonic() + 60
    while not board.loaded and board.clock.monotonic() < deadline:
        board.clock.sleep(0.1)
    assert board.phase == TRAIN
    trainer.kill()
    assert board.phase == IDLE
    assert board.gpu_load() == 0


def test_many_rigs_leave_no_thread() -> None:
    before = threading.active_count()
    for _ in range(3):
        with rig(make()) as agent:
            assert isinstance(agent, Rig)
            agent.supervisor.load(WORKLOAD.to_json())
    assert threading.active_count() == before
