"""FakeBoard: the state of a board and how it answers. Its files are made by `tree`, speed and power by the physics."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from devices import physics
from devices.agent.clock import Clock
from devices.agent.journal import NAME as JOURNAL
from devices.errors import InputError
from devices.fake import _meters, tree
from devices.fake.clocks import LimitedClock, MemoryClock
from devices.fake.faults import Fault
from devices.fake.files import Files
from devices.fake.layout import find, power_modes
from devices.fake.schedule import Schedule, parse
from devices.fake.senses import Senses
from devices.fake.work import IDLE, START, TRAIN, WORK, Work, prepare
from devices.physics import Clocks, Load, OperatingPoint, Rails, idle_power_w, interpolate, memory_mib, operate

START_S = 1.0  # of a burst, before its first step
SLOW_START_S = 90.0
THROTTLE_C = 99.0
_HOTTER_C_PER_S = 8.0
_SWAP_MIB_PER_S = 100.0
_OUT_OF_MEMORY = ("killed", "assert", "nvmap")
_UPTIME_S = 3600.0
_TRAINER_SILENCE_S = 1.0  # real ones, after which a trainer that trained is taken for dead


class FakeBoard:
    """A board of the catalog.

    Args:
        model: Name or alias of the board.
        kernel: Of a Jetson `4.9` (JetPack 4), `5.10` (5), `5.15` (6); None: the one the board comes with.
        preset: The power mode it starts in, as the catalog names it; None: the vendor's default, the first.
        faults: What is to go wrong: faults, or their texts.
        seed: Of all noise.
        clock: Its time.

    Attributes:
        files: The tree.
        groups: Names of files by what they are for faults: `power` and `label` of the meter's total.
        on_reboot: Called when it reboots, with the lock held.
        lost_journal: The text of the agent's journal that the last reboot took away; None: there was none.

    Raises:
        InputError: unknown model, kernel, preset or fault.
    """

    def __init__(
        self,
        model: str = "jetson-orin-nano",
        *,
        kernel: str | None = None,
        preset: str | None = None,
        faults: Iterable[Fault | str] = (),
        seed: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self.catalog, self.layout = find(model)
        self.kernel = kernel or self.layout.kernel
        if self.kernel not in self.layout.kernels:
            kernels = ", ".join(self.layout.kernels)
            raise InputError(f"{self.catalog.name} does not run kernel '{kernel}'", hint=f"--kernel takes: {kernels}")
        self.clock = clock or Clock()
        self.seed = seed
        self.schedule = Schedule(self, parse(faults))
        self.modes = power_modes(self.catalog, preset)
        self.mode = 0
        self.lock = threading.RLock()
        self.work = Work()
        self.bursts = 0
        self.boots = 0
        self.over_current = {1: 0, 2: 0, 3: 0}
        self.throttled = False
        self.railgate, self.control = "1", "auto"
        self.governors = {"gpu": "nvhost_podgov", "cpu": "schedutil"}
        self.tunables: dict[str, str] = {}
        self.swap_in_mib = 0.0
        self.on_reboot: list[Callable[[], None]] = []
        self.lost_journal: str | None = None
        legacy = self.kernel == "4.9"
        self.gpu = LimitedClock([_hz(mhz) for mhz in self.catalog.gpu_freq_mhz], 1, legacy) if self.layout.gpu else None
        khz = [round(mhz * 1e3) for mhz in self.catalog.cpu_freq_mhz]
        self.cpus = [LimitedClock(khz, 1000, legacy) for _ in self.layout.clusters]
        self.emc = MemoryClock([_hz(mhz) for mhz in self.catalog.emc_freq_mhz])
        self.online: set[int] = set()
        self._spread = 1.0
        self._rate_factor = 1.0
        self._known: tuple[tuple[Clocks, int], OperatingPoint] | None = None
        self._heard_s = 0.0  # of real time
        self._silent = False
        self._booted_s = self.clock.monotonic() - _UPTIME_S
        self._boot()
        self.fed = _meters.fed_by(self.catalog, self.layout)
        self.files = Files()
        self.groups: dict[str, list[str]] = {"power": [], "label": []}
        total_w = self.rails().total_w
        kelvin_per_w = 7.0 / idle_power_w(self.catalog)
        self.senses = Senses(self.catalog.meter, self._watts(), kelvin_per_w, seed, self.clock.monotonic())
        self.senses.settle(total_w)
        tree.build(self)
        self.schedule.begin_board(self.clock.monotonic())

    # ---- files

    def read(self, name: str) -> str:
        """The text of a file, its line feed included. Raises OSError."""
        with self.lock:
            self._advance()
            return self.files.read(name)

    def write(self, name: str, text: str) -> None:
        """Write into a file that is there, with one system call. Raises OSError."""
        ready: dict[str, Any] | None = None
        if name == WORK:
            ready = prepare(text)  # before the lock: it may take seconds
        with self.lock:
            self._advance()
            if ready is not None:
                self._do(ready)
            else:
                self.files.write(name, text)

    # ---- clocks and power

    @property
    def limited_clocks(self) -> list[LimitedClock]:
        return [*([self.gpu] if self.gpu else []), *self.cpus]

    @property
    def speed_clock(self) -> LimitedClock:
        """The clock of what trains."""
        return self.gpu or self.cpus[0]

    @property
    def phase(self) -> str:
        """Of the work; idle also where the trainer has not been heard of for a second."""
        return IDLE if self._silent else self.work.phase

    @property
    def loaded(self) -> bool:
        """Whether the GPU works, or what trains instead."""
        return self.phase == TRAIN

    @property
    def railgated(self) -> bool:
        """Whether the GPU has no power."""
        return not self.loaded and self.railgate == "1" and self.control == "auto"

    def clocks(self) -> Clocks:
        """Where the clocks really stand."""
        awake = [
            (clock, sum(cpu in self.online for cpu in cluster))
            for clock, cluster in zip(self.cpus, self.layout.clusters, strict=True)
        ]
        busy = self.phase != IDLE
        khz = sum(clock.step(busy) * clock.factor * count for clock, count in awake) / len(self.online)
        gpu_hz = self.gpu.step(self.loaded) * self.gpu.factor if self.gpu else 0.0
        return Clocks(gpu_hz / 1e6, len(self.online), khz / 1e3, self.emc.rate(busy) / 1e6)

    def gpu_load(self) -> float:
        """Share of the time the GPU works."""
        return self._point(self.clocks()).load.gpu_busy if self.loaded else 0.0

    def _point(self, clocks: Clocks) -> OperatingPoint:
        """The burst at these clocks."""
        work = self.work
        assert work.cost is not None
        key = (clocks, self.bursts)
        if self._known is None or self._known[0] != key:
            self._known = (key, operate(self.catalog, clocks, work.cost, work.micro_batch, work.accumulation))
        return self._known[1]

    def rails(self) -> Rails:
        """Power now."""
        clocks, phase = self.clocks(), self.phase
        if phase == TRAIN:
            return self._point(clocks).rails
        drawn = physics.rails(self.catalog, clocks, Load(cores_busy=1.0 if phase == START else 0.0))
        return replace(drawn, gpu_w=0.0) if self.railgated else drawn

    def _watts(self) -> dict[str, float]:
        """What every metered rail draws now, by label."""
        now = self.rails()
        return {label: now.of(fed) * self._spread for label, fed in self.fed.items()}

    # ---- time

    def now_s(self) -> float:
        return self.clock.monotonic()

    def uptime_s(self) -> float:
        return self.now_s() - self._booted_s

    def boot_id(self) -> str:
        return str(uuid.UUID(int=random.Random(f"boot {self.seed} {self.boots}").getrandbits(128), version=4))

    def temperature_c(self) -> float:
        """Of the chip."""
        hot_s = self.schedule.since_s("over-temperature", self.now_s())
        return self.senses.temperature_c + (0.0 if hot_s is None else min(hot_s * _HOTTER_C_PER_S, 80.0))

    def swap_used_mib(self) -> float:
        """Also counts what is fetched back."""
        swapping_s = self.schedule.since_s("swap", self.now_s())
        return 0.0 if swapping_s is None else min(swapping_s * _SWAP_MIB_PER_S, self.catalog.memory.total_mib / 2)

    def memory_used_mib(self) -> float:
        return max(self.work.needed_mib, 900.0)

    def _advance(self) -> None:
        """Bring the board to this moment, and make happen what is due."""
        now_s = self.clock.monotonic()
        self.schedule.advance(now_s)
        if self.schedule.active and not self.throttled and self.temperature_c() >= THROTTLE_C:
            self.change(lambda: self.throttle(True))
        if not self._silent and self.work.phase != IDLE and time.monotonic() - self._heard_s > _TRAINER_SILENCE_S:
            self._feel(now_s)
            self._silent = True

    def _feel(self, now_s: float) -> None:
        if self.senses.is_due(now_s):
            self.senses.feel(self._watts(), self.rails().total_w, now_s)

    def show_w(self, label: str) -> float:
        """What the meter of a rail shows now."""
        self._feel(self.clock.monotonic())
        return self.senses.watts(label)

    def change(self, act: Callable[[], None]) -> None:
        """Change something that draws power: until now it drew what it did before."""
        self._feel(self.clock.monotonic())
        act()

    # ---- what happens

    def set_mode(self, number: int) -> None:
        """Choose a power mode, as nvpmodel does."""
        mode = self.modes[number]
        self.mode = number
        self.online = set(self.layout.cpus[: mode.cpu_cores])
        for clock in self.cpus:
            clock.caps.pop("mode", None)
            if mode.cpu_freq_mhz is not None:
                clock.caps["mode"] = round(mode.cpu_freq_mhz * 1e3)
        if self.gpu is not None:
            self.gpu.caps.pop("mode", None)
            if mode.gpu_max_mhz is not None:
                self.gpu.caps["mode"] = _hz(mode.gpu_max_mhz)
        self.emc.cap = _hz(mode.emc_freq_mhz) if _hz(mode.emc_freq_mhz) < self.emc.steps[-1] else 0

    def throttle(self, on: bool) -> None:
        """Have the temperature hold the clock of what trains down, or not any more."""
        self.throttled = on
        self.speed_clock.caps.pop("heat", None)
        if on:
            self.speed_clock.caps["heat"] = self.speed_clock.steps[0]

    def reboot(self) -> None:
        """The power goes and comes back: the trainer is gone, files of /run too, and clocks are as at boot."""
        self._boot()
        self.boots += 1
        self._booted_s = self.clock.monotonic()
        self.lost_journal = self.files.read(JOURNAL) if self.files.kind(JOURNAL) else None
        self.files.clear("/run")
        self.work = Work(fate="killed")
        for act in self.on_reboot:
            act()

    def _boot(self) -> None:
        for clock in self.limited_clocks:
            clock.reset()
        self.emc.reset()
        self.railgate, self.control = "1", "auto"
        self.over_current = dict.fromkeys(self.over_current, 0)
        self.throttle(False)
        self.set_mode(self.mode)

    # ---- the trainer

    def _do(self, request: dict[str, Any]) -> None:
        self._feel(self.clock.monotonic())
        self._heard_s, self._silent = time.monotonic(), False
        self._end_burst()
        if request["do"] == "burst":
            self._begin_burst(request)
        elif request["do"] == "load":
            self.work = Work(answer=request["answer"])

    def _begin_burst(self, request: dict[str, Any]) -> None:
        self.bursts += 1
        now_s = self.clock.monotonic()
        generator = random.Random(f"burst {self.seed} {self.bursts}")
        spread = self.catalog.meter.power_spread if self.catalog.meter else 0.0
        self._spread = 1 + spread * generator.gauss(0.0, 1.0)
        self._rate_factor = 1 + self.catalog.timing.burst_spread * generator.gauss(0.0, 1.0)
        slow = self.schedule.strikes("slow-start", self.bursts)
        work = Work(
            phase=START,
            cost=request["cost"],
            micro_batch=int(request["micro_batch"]),
            accumulation=int(request["accumulation"]),
            began_s=now_s,
            start_s=START_S + (SLOW_START_S if slow else 0.0),
        )
        assert work.cost is not None
        work.needed_mib = memory_mib(self.catalog, work.cost, work.micro_batch)
        if work.needed_mib > self.catalog.memory.total_mib:
            work.needed_mib = 900.0  # it never got them
            work.fate = _OUT_OF_MEMORY[(self.seed + self.bursts) % len(_OUT_OF_MEMORY)]
        self.work = work
        self.schedule.begin_burst(self.bursts, now_s)

    def _end_burst(self) -> None:
        """Put right what was wrong in this burst alone."""
        self.swap_in_mib += self.swap_used_mib() / 2
        self.schedule.end_burst()
        if self.throttled and not {"throttle-alert", "over-temperature"} & {f.name for f in self.schedule.active}:
            self.throttle(False)
        self._spread = 1.0
        self.work = Work()

    def forsake(self) -> None:
        """The trainer has ended."""
        with self.lock:
            self.change(self._rest)

    def report(self) -> str:
        """What the trainer reads of its work."""
        work = self.work
        self._heard_s = time.monotonic()
        if self._silent:
            self.change(self._wake)
        found: dict[str, Any] = {"phase": work.phase, "fate": work.fate, "start_s": work.start_s, **work.answer}
        if work.phase == START and self.clock.monotonic() - work.began_s >= work.start_s and work.fate is None:
            self.change(self._train)
            found["phase"] = work.phase
        if work.phase == TRAIN:
            clocks = self.clocks()
            found["step_s"] = self._point(clocks).step_time_s * work.accumulation * self._rate_factor
            found["step_cv"] = interpolate(self.catalog.timing.step_cv, clocks.cpu_freq_mhz)
            found["seed"] = f"{self.seed} {self.bursts}"
        return json.dumps(found)

    def _train(self) -> None:
        self.work.phase = TRAIN

    def _rest(self) -> None:
        self.work = Work()

    def _wake(self) -> None:
        self._silent = False


def _hz(mhz: float) -> int:
    return round(mhz * 1e6)
