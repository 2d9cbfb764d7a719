"""`tuner.apply`: what is held, what is refused, and a loop of six lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from devices.device import Access
from devices.errors import DeviceError, DeviceLostError, InputError
from devices.fake.board import FakeBoard
from devices.link import LocalLink
from tests.devices.fake.test_device import state
from tests.tuner.applied_board import FOUND_ON, stand_on
from tests.tuner.frozen_examples import EMULATED, REPLAYED, write_frozen
from tuner import apply

MAX = "/sys/class/devfreq/17000000.ga10b/max_freq"
EMULATED_HERE = (  # what every fake board has to say
    "the figures of the frozen config were measured on jetson-orin-nano; jetson-orin-nano may behave otherwise"
)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> FakeBoard:
    return stand_on(monkeypatch)


class TestHeld:
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_a_setting_is_held_and_put_back(self, board: FakeBoard) -> None:
        before = state(board)
        path = write_frozen(**FOUND_ON)
        with apply(path) as tuned:
            assert tuned.notes == (EMULATED_HERE,)
            assert board.read(MAX).strip() == "306000000"
            assert (tuned.micro_batch, tuned.accumulation_steps, tuned.effective_batch) == (8, 2, 16)
            assert (tuned.learning_rate, tuned.cap_w, tuned.statistic, tuned.held) == (0.1, 7.0, "p95", True)
            assert tuned.setting == {"gpu_freq_mhz": 306, "batch_size": 8}
            board.clock.sleep(2)
            assert tuned.power is not None
            assert tuned.power > 2
            assert tuned.over_cap is None
        assert state(board) == before
        assert tuned.reading.energy_j == pytest.approx(2 * (tuned.reading.power_mean_w or 0), rel=0.1)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_an_exception_puts_it_back_too(self, board: FakeBoard) -> None:
        before = state(board)
        with pytest.raises(ZeroDivisionError), apply(write_frozen(**FOUND_ON)):
            _ = 1 / 0
        assert state(board) == before

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_one_that_is_dropped_puts_it_back_too(self, board: FakeBoard) -> None:
        before = state(board)
        applied = apply(write_frozen(**FOUND_ON))
        applied.__enter__()
        assert state(board) != before
        del applied
        assert state(board) == before

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_what_a_preset_pinned_is_held_as_well(self, board: FakeBoard) -> None:
        context = {"emc_freq_mhz": 665.6, "cpu_freq_mhz": 729.6, "gpu_freq_mhz": 408, "cpu_cores": "two", "preset": "x"}
        cpu = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"
        with apply(write_frozen(**FOUND_ON, context=context)):
            assert board.read(cpu).strip() == "729600"
            assert board.read("/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked").strip() == "1"
            assert board.read(MAX).strip() == "306000000"

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_power_above_the_cap_is_seen(self, board: FakeBoard) -> None:
        with apply(write_frozen(**{**FOUND_ON, "cap": {"watts": 2, "statistic": "mean"}})) as tuned:
            board.clock.sleep(1)
            before = tuned.over_cap
            board.clock.sleep(2)
            over = tuned.over_cap
            assert before is None
            assert over is not None
            assert over.power_w > 2.2
            assert over.for_s > 2

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_without_a_meter_that_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stand_on(monkeypatch, model="raspberry-pi-4")
        found = {**FOUND_ON, "device": "raspberry-pi-4", "setting": {"cpu_freq_mhz": 600, "batch_size": 8}}
        with apply(write_frozen(**found)) as tuned:
            assert (tuned.power, tuned.over_cap) == (None, None)
            assert "so the cap of 7 W is not watched" in tuned.notes[-1]

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_another_module_of_the_family_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        board = stand_on(monkeypatch, model="jetson-orin-nx")
        name = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"
        before = board.read(name)
        with apply(
            write_frozen(**{**FOUND_ON, "setting": {"cpu_freq_mhz": 729.6, "fan": 3, "batch_size": 8}})
        ) as tuned:
            assert board.read(name).strip() == "729600"
            assert "measured on jetson-orin-nano; jetson-orin-nx may behave otherwise" in tuned.notes[0]
            assert tuned.notes[1] == "jetson-orin-nx has no fan: it is left alone"
        with pytest.raises(InputError, match="cpu_freq_mhz has no step 730"):
            apply(write_frozen(**{**FOUND_ON, "setting": {"cpu_freq_mhz": 730, "batch_size": 8}})).__enter__()
        assert board.read(name) == before

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_a_board_that_goes_is_said(self, board: FakeBoard) -> None:
        with apply(write_frozen(**FOUND_ON)) as tuned:
            board.reboot()
            board.clock.sleep(1.5)
            with pytest.raises(DeviceLostError):
                _ = tuned.power

    def test_clocks_that_do_not_hold_are_refused(self, board: FakeBoard, monkeypatch: pytest.MonkeyPatch) -> None:
        before, write = state(board), board.write
        monkeypatch.setattr(board, "write", lambda name, text: None if name == MAX else write(name, text))
        with pytest.raises(DeviceError, match="not held: min/max are now 306"):
            apply(write_frozen(**FOUND_ON)).__enter__()
        assert state(board) == before


class TestThisMachine:
    def test_notes_are_warnings(self) -> None:
        changes = {"setting": {"batch_size": 64}, "effective_batch": 64, "accumulation_steps": 1}
        path = write_frozen(**changes, cap={"watts": 7, "statistic": "p95"})
        with pytest.warns(UserWarning, match="so the cap of 7 W is not watched"):
            apply(path).__enter__()

    def test_threads_are_set_and_put_back(self) -> None:
        before = torch.get_num_threads()
        with apply(write_frozen(setting={"batch_size": 32, "cpu_threads": before + 1})) as tuned:
            assert torch.get_num_threads() == before + 1
            assert tuned.held
        assert torch.get_num_threads() == before

    def test_the_loop_of_the_docstring(self) -> None:
        data = TensorDataset(torch.randn(150, 3), torch.randn(150, 1))
        model = torch.nn.Linear(3, 1)
        with apply("frozen.json" if write_frozen() else "") as tuned:
            loader = DataLoader(data, batch_size=tuned.micro_batch, shuffle=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=tuned.learning_rate or 0)
            steps = []
            for window in tuned.windows(loader):
                for x, y in window:
                    torch.autograd.backward(torch.nn.functional.mse_loss(model(x), y) / len(window))
                optimizer.step()
                optimizer.zero_grad()
                steps.append(sum(len(x) for x, _ in window))
        assert steps == [64, 64, 22]

    def test_workers_of_a_loader_do_not_keep_the_agent(self) -> None:
        with apply(write_frozen()) as tuned:
            assert tuned._hold is not None
            link = tuned._hold._agent._link
            data = TensorDataset(torch.zeros(64, 3))
            loader = DataLoader(data, batch_size=32, num_workers=1, persistent_workers=True)
            assert [len(window) for window in tuned.windows(loader)] == [2]
        assert isinstance(link, LocalLink)
        assert link._process.returncode == 0
        assert len(list(loader)) == 2

    def test_a_loader_of_another_batch_size(self) -> None:
        with (
            apply(write_frozen()) as tuned,
            pytest.raises(InputError, match="gives batches of 16, the micro-batch is 32"),
        ):
            tuned.windows(DataLoader(TensorDataset(torch.zeros(64)), batch_size=16))

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_what_differs_from_the_file_is_noted(self) -> None:
        with apply(write_frozen(effective_batch=97, accumulation_steps=4)) as tuned:
            assert (tuned.micro_batch, tuned.accumulation_steps) == (32, 3)
            assert tuned.notes[0].startswith("the effective batch is 96, not 97")
            assert tuned.learning_rate == pytest.approx(0.1 * 96 / 97)


class TestRefused:
    @pytest.mark.filterwarnings("ignore::UserWarning")
    @pytest.mark.parametrize(("changes", "name"), [(EMULATED, "jetson-orin-nano"), (REPLAYED, "Bench GPU")])
    def test_another_device(self, changes: dict[str, Any], name: str) -> None:
        path = write_frozen(**changes)
        with pytest.raises(InputError, match=f"frozen.json is of {name}, which is not this machine") as refusal:
            apply(path).__enter__()
        assert refusal.value.hint is not None
        assert "accept_source=True" in refusal.value.hint
        with apply(path, accept_source=True) as tuned:
            assert (tuned.held, tuned.power, tuned.over_cap, tuned.micro_batch) == (False, None, None, 32)
            assert tuned.notes[-1] == f"{name} is not this machine: no clock is held, and no cap"

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_figures_that_were_not_measured(self, board: FakeBoard) -> None:
        before = state(board)
        path = write_frozen(**{**FOUND_ON, "source": "emulated"})
        with pytest.raises(InputError, match=r"the figures of .* are emulated"):
            apply(path).__enter__()
        assert state(board) == before
        with apply(path, accept_source=True):
            assert state(board) != before
        with apply(path, access=Access(root="/elsewhere")):  # figures of a fake board, on a fake board
            assert state(board) != before

    def test_no_frozen_config(self) -> None:
        for path, words in (("none.json", "cannot read none.json"), (".", "cannot read ."), ("x.json", "no JSON")):
            Path("x.json").write_text("not json")
            with pytest.raises(InputError, match=words):
                apply(path).__enter__()


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, tuner; tuner.apply; print(*{'torch', 'ax', 'transformers', 'lightning'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
