from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from devices.device import BurstPlan, DeviceInfo, EventSink, Knob, Setting, WorkloadSpec
from devices.errors import DeviceError, DeviceLostError, InputError, StoreError, UnsupportedError
from devices.measurement import Measurement, Status
from devices.profile import read_profile, write_profile
from devices.replay import ReplayDevice
from tests.tuner.toys import Scripted, ToyDevice, failed
from tuner.recording import Recording, RecordingProgress
from tuner.testing import toy_measurement

PATH = Path("toy.csv")
NOISE = 0.01
FAILURES = [Status.THROTTLED, Status.CLOCK_NOT_APPLIED, Status.CRASHED, Status.ABORTED, Status.TIMEOUT]


@pytest.fixture(autouse=True)
def one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are compared must not differ in the second."""
    for module in ("tuner.record", "tuner.recording"):
        monkeypatch.setattr(f"{module}.now", lambda: "2026-01-02T03:04:05Z")


def record(device: ToyDevice, repeats: int = 1, path: Path = PATH, **options: object) -> Recording:
    return Recording(device, "toy", path, repeats=repeats, **options)  # type: ignore[arg-type]


def undisturbed(path: Path, repeats: int = 1, **options: object) -> str:
    record(ToyDevice(**options), repeats, path).run()  # type: ignore[arg-type]
    return path.read_text()


class At:
    """A script that acts before the burst of that number, 0 for the first, and may answer in the device's place."""

    def __init__(self, number: int, act: Callable[[], Measurement | None]) -> None:
        self._left = number
        self._act = act

    def __call__(self, setting: Setting, plan: BurstPlan) -> Measurement | None:
        self._left -= 1
        return self._act() if self._left == -1 else None


class TestTheGrid:
    def test_every_setting_is_measured_and_the_file_is_in_the_order_of_the_grid(self) -> None:
        device = ToyDevice(clocks=3, batches=3, noise=NOISE)
        recorded = record(device, repeats=2).run()
        profile = read_profile(PATH)
        expected = [(clock, batch) for clock in (300, 400, 500) for batch in (1, 2, 4) for _ in range(2)]
        assert [tuple(row.setting.values()) for row in profile.rows] == expected
        assert profile.knob_names == ("gpu_freq_mhz", "batch_size")
        best = profile.best_feasible(None)
        assert best is not None
        assert recorded.exit_status == 0
        assert recorded.document == {
            "profile": "toy.csv",
            "device": "toy",
            "source": "emulated",
            "workload": "toy",
            "throughput_unit": "samples/s",
            "settings": 9,
            "rows": 18,
            "ok": 18,
            "failed": 0,
            "skipped": 0,
            "best": {"setting": best.setting, "throughput": pytest.approx(best.throughput)},
            "duration_s": 180.0,
            "interrupted": False,
        }

    def test_replicates_are_passes_apart_and_draws_of_their_own(self) -> None:
        device = ToyDevice(noise=NOISE)
        record(device, repeats=3).run()
        assert [replicate for _, replicate in device.bursts] == [0] * 20 + [1] * 20 + [2] * 20
        for setting in read_profile(PATH).settings:
            assert len({row.throughput for row in read_profile(PATH).replicates(setting)}) == 3

    def test_the_order_is_that_of_the_seed_and_another_in_every_pass(self) -> None:
        def order(seed: int, path: str, repeats: int) -> list[Setting]:
            device = ToyDevice(clocks=6, batches=6)
            record(device, repeats, Path(path), seed=seed).run()
            return [setting for setting, _ in device.bursts]

        both = order(1, "a.csv", 2)
        first = order(1, "b.csv", 1)
        assert both[:36] == first
        assert both[36:] != first
        assert order(2, "c.csv", 1) != first
        for knob in ("gpu_freq_mhz", "batch_size"):  # neither ascends with time
            ranks = [sum(other[knob] < setting[knob] for other in first) for setting in first]
            covariance = sum((i - 17.5) * (rank - sum(ranks) / 36) for i, rank in enumerate(ranks))
            spread = sum((i - 17.5) ** 2 for i in range(36)) * sum((r - sum(ranks) / 36) ** 2 for r in ranks)
            assert abs(covariance) / spread**0.5 < 0.4

    def test_progress_and_the_best_so_far(self) -> None:
        told: list[RecordingProgress] = []
        record(ToyDevice(clocks=2, batches=2)).run(told.append)
        assert [(progress.done, progress.total) for progress in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert told[-1].best is not None
        assert told[-1].best.setting == {"gpu_freq_mhz": 400, "batch_size": 2}

    def test_metadata(self) -> None:
        device = ToyDevice(clocks=1, batches=1, default={"gpu_freq_mhz": 300, "batch_size": 1})
        device._info = replace(device._info, held_fixed={"preset": "15W", "cores": 4})
        Recording(device, WorkloadSpec("toy", {"image_size": 32}, "/data/toy"), PATH).run()
        metadata = read_profile(PATH).metadata
        assert (metadata.device, metadata.workload) == ("Toy board", "toy image_size=32")
        assert (metadata.provenance, metadata.throughput_unit) == ("emulated", "samples/s")
        assert metadata.origin == "emulated by tune record on 2026-01-02"
        assert metadata.recorded_at == "2026-01-02T03:04:05Z"
        assert metadata.default_setting == {"gpu_freq_mhz": 300, "batch_size": 1}
        assert metadata.extra == {"preset": "15W", "cores": "4", "data": "/data/toy"}

    def test_a_measurement_is_recorded_as_one(self) -> None:
        def measured(setting: Setting, plan: BurstPlan) -> Measurement:
            return replace(toy_measurement(setting), source="measured")

        device = ToyDevice(clocks=1, batches=2, script=measured)
        device._info = replace(device._info, source="measured", default_setting={"batch_size": 1})
        record(device).run()
        metadata = read_profile(PATH).metadata
        assert (metadata.provenance, metadata.origin) == ("measured", "measured by tune record on 2026-01-02")
        assert metadata.default_setting is None

    def test_without_a_meter_bursts_are_shorter_and_a_cap_is_refused(self) -> None:
        short, long = record(ToyDevice(meter=False)), record(ToyDevice())
        assert short.estimate_s == (30.0, 110.0)
        assert long.estimate_s == (260.0, 460.0)
        with pytest.raises(UnsupportedError, match="no power meter"):
            record(ToyDevice(meter=False), cap_w=7.0)

    def test_without_a_meter_no_power_is_recorded(self) -> None:
        record(ToyDevice(meter=False)).run()
        assert read_profile(PATH).statistics == ()

    def test_a_cap_reaches_the_guard_and_its_rows_are_kept(self) -> None:
        def guard(setting: Setting, plan: BurstPlan) -> Measurement | None:
            found = toy_measurement(setting)
            assert (plan.cap_w, plan.statistic) == (6.0, "mean")
            above = (found.power_mean_w or 0.0) > 6.0
            return Measurement(Status.OVER_CAP, "emulated", power_mean_w=6.1, reason="over") if above else None

        device = ToyDevice(script=guard)
        recorded = record(device, cap_w=6.0).run()
        profile = read_profile(PATH)
        over = [row for row in profile.rows if row.status is Status.OVER_CAP]
        assert over
        assert {row.power_mean_w for row in over} == {6.1}
        assert len(device.bursts) == 20  # an answer, not to be repeated
        assert recorded.document["failed"] == len(over)
        with pytest.raises(InputError, match=r"cap is 6 W \(mean\) there, not stated now"):
            record(ToyDevice())


class TestGoingOn:
    @pytest.mark.parametrize("way", ["stop", "abort", "kill"])
    @pytest.mark.parametrize("number", range(6))
    def test_interrupted_at_every_point_it_ends_as_if_it_had_not_been(self, way: str, number: int) -> None:
        options = {"clocks": 2, "batches": 3, "noise": NOISE, "oom_from": 4.0}
        whole = undisturbed(Path("whole.csv"), 2, **options)

        def act() -> Measurement | None:
            if way == "kill":
                raise KeyboardInterrupt
            recording.request_stop()
            if way == "abort":
                recording.abort()
                return failed(Status.ABORTED)
            return None

        device = ToyDevice(**options, script=At(number, act))  # type: ignore[arg-type]
        recording = record(device, 2)
        if way == "kill":
            with pytest.raises(KeyboardInterrupt):
                recording.run()
        else:
            recorded = recording.run()
            assert recorded.document["interrupted"] is True
            assert recorded.exit_status == 130
            assert recorded.document["rows"] == number + (way == "stop")
            assert device.aborted == (way == "abort")
        assert len(device.bursts) == number + 1
        if PATH.exists():
            assert len(read_profile(PATH).rows) == number + (way == "stop")
        record(ToyDevice(**options), 2).run()  # type: ignore[arg-type]
        assert PATH.read_text() == whole

    def test_a_stop_during_the_last_burst_is_none(self) -> None:
        device = ToyDevice(clocks=1, batches=2, script=At(1, lambda: recording.request_stop()))
        recording = record(device)
        assert recording.run().exit_status == 0

    def test_a_stop_before_the_first_burst(self) -> None:
        recording = record(ToyDevice())
        recording.request_stop()
        recorded = recording.run()
        assert (recorded.exit_status, recorded.document["profile"], recorded.document["rows"]) == (130, None, 0)
        assert not PATH.exists()

    def test_what_is_there_is_not_measured_again(self) -> None:
        undisturbed(PATH, clocks=2, batches=3)
        before = PATH.stat()
        device = ToyDevice(clocks=2, batches=3)
        recorded = record(device).run()
        assert device.bursts == []
        assert PATH.stat().st_mtime_ns == before.st_mtime_ns
        assert recorded.document["rows"] == 6
        assert recorded.exit_status == 0

    def test_more_repeats_and_more_values_add_to_it(self) -> None:
        undisturbed(PATH, clocks=2, batches=2, noise=NOISE)
        device = ToyDevice(clocks=2, batches=3, noise=NOISE)
        recording = record(device, 2)
        assert (recording.resumed, recording.sweep.left) == (4, 8)
        recording.run()
        assert len(device.bursts) == 8
        assert PATH.read_text() == undisturbed(Path("whole.csv"), 2, clocks=2, batches=3, noise=NOISE)

    def test_rows_outside_the_grid_stay(self) -> None:
        undisturbed(PATH, clocks=2, batches=3)
        device = ToyDevice(clocks=3, batches=1)
        assert record(device).run().document["rows"] == 7
        assert [setting["gpu_freq_mhz"] for setting, _ in device.bursts] == [500]

    def test_what_others_wrote_into_the_metadata_stays(self) -> None:
        undisturbed(PATH, clocks=1, batches=1)
        PATH.write_text("# licence: CC0\n# room: cold\n# origin: my bench\n" + PATH.read_text().split("\n", 3)[3])
        PATH.write_text("# device: Toy board\n# workload: toy\n" + PATH.read_text())
        record(ToyDevice(clocks=1, batches=2)).run()
        metadata = read_profile(PATH).metadata
        assert (metadata.licence, metadata.extra["room"]) == ("CC0", "cold")
        assert metadata.origin == "my bench; emulated by tune record on 2026-01-02"

    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            ("# device: Toy board", "# device: Other", "device is Other there, Toy board now"),
            ("# workload: toy", "# workload: net", "workload is net there, toy now"),
            ("# provenance: emulated", "# provenance: measured", "provenance is measured there, emulated now"),
            ("samples/s", "epochs/h", "throughput_unit is epochs/h there, samples/s now"),
            ("# recorded_at", "# preset: 7W\n# recorded_at", "preset is 7W there, 15W now"),
            ("gpu_freq_mhz", "cpu_freq_mhz", "knobs is batch_size, cpu_freq_mhz there, batch_size, gpu_freq_mhz now"),
        ],
    )
    def test_a_record_of_something_else_is_refused(self, old: str, new: str, words: str) -> None:
        undisturbed(PATH, clocks=2, batches=2)
        PATH.write_text(PATH.read_text().replace(old, new))
        before = PATH.read_bytes()
        device = ToyDevice(clocks=2, batches=2)
        device._info = replace(device._info, held_fixed={"preset": "15W"})
        with pytest.raises(InputError) as refusal:
            record(device)
        assert words in refusal.value.message
        assert "--fresh" in str(refusal.value.hint)
        assert PATH.read_bytes() == before
        assert device.bursts == []

    @pytest.mark.parametrize("content", [b"", b"hello\n", b"\0\1", b"a,b\n1,2\n"])
    def test_a_file_that_is_no_profile_is_refused(self, content: bytes) -> None:
        PATH.write_bytes(content)
        with pytest.raises(InputError, match="cannot go on") as refusal:
            record(ToyDevice())
        assert "--fresh" in str(refusal.value.hint)
        assert PATH.read_bytes() == content

    def test_fresh_keeps_the_old_file(self) -> None:
        for number in range(3):
            PATH.write_text(f"anything {number}")
            recording = record(ToyDevice(clocks=1, batches=2), fresh=True)
            assert recording.kept_as == Path(f"toy.{number + 1}.csv")
            assert PATH.read_text() == f"anything {number}"  # until the first burst is due
            recording.run()
            assert len(read_profile(PATH).rows) == 2
            assert [Path(f"toy.{n + 1}.csv").read_text() for n in range(number + 1)] == [
                f"anything {n}" for n in range(number + 1)
            ]
        assert record(ToyDevice(clocks=1, batches=2), path=Path("new.csv"), fresh=True).kept_as is None

    def test_a_file_changed_meanwhile_is_left_as_it_is(self) -> None:
        def meddle() -> None:
            PATH.write_text("mine")

        device = ToyDevice(script=At(3, meddle))
        with pytest.raises(StoreError, match="changed by somebody else"):
            record(device).run()
        assert PATH.read_text() == "mine"


class TestMemory:
    def test_out_of_memory_bounds_the_batch_size_everywhere(self) -> None:
        device = ToyDevice(clocks=4, batches=7, oom_from=8)
        recorded = record(device, repeats=2).run()
        limit = 128.0
        for setting, _ in device.bursts:
            assert setting["batch_size"] < limit
            if setting["batch_size"] >= 8:
                limit = setting["batch_size"]
        rows = read_profile(PATH).rows
        full = [row for row in rows if row.status is Status.OOM]
        assert limit == 8
        assert sum(row.ok for row in rows) == 4 * 3 * 2
        assert recorded.document["skipped"] == 4 * 4 - len(full)
        assert recorded.document["failed"] == len(full)
        assert recorded.reasons == ("oom: toy memory is full",)

    def test_nothing_fits(self) -> None:
        device = ToyDevice(clocks=2, batches=3, oom_from=1)
        recorded = record(device).run()
        assert recorded.exit_status == 1
        assert (recorded.document["profile"], recorded.document["best"]) == (None, None)
        assert recorded.document["rows"] + recorded.document["skipped"] == 6
        assert not PATH.exists()

    def test_without_a_batch_size_each_setting_stands_for_itself(self) -> None:
        class Clocks(ToyDevice):
            def describe(self) -> DeviceInfo:
                return replace(self._info, knobs=(Knob("gpu_freq_mhz", (300, 400, 500)),))

            def measure(
                self, setting: Setting, workload: WorkloadSpec, plan: BurstPlan, on_event: EventSink | None = None
            ) -> Measurement:
                self.bursts.append((dict(setting), plan.replicate))
                limit = 1 if setting["gpu_freq_mhz"] == 400 else 2
                return toy_measurement({**setting, "batch_size": 1}, oom_from=limit)

        device = Clocks()
        recorded = record(device, repeats=2).run()
        assert len(device.bursts) == 5
        assert (recorded.document["ok"], recorded.document["skipped"]) == (4, 0)


def failing(status: Status, times: int, where: Callable[[Setting], bool]) -> Scripted:
    """A script: the first bursts at each setting `where` fail, `times` of them."""
    seen: dict[tuple[float, ...], int] = {}

    def script(setting: Setting, plan: BurstPlan) -> Measurement | None:
        key = tuple(setting.values())
        seen[key] = seen.get(key, 0) + 1
        return failed(status, "why | it: failed") if where(setting) and seen[key] <= times else None

    return script


class TestFailures:
    @pytest.mark.parametrize("status", FAILURES)
    def test_a_failed_burst_is_repeated_once_at_the_end_of_its_pass(self, status: Status) -> None:
        one: Setting = {"gpu_freq_mhz": 400, "batch_size": 2}
        device = ToyDevice(clocks=3, batches=3, noise=NOISE, script=failing(status, 1, lambda s: s == one))
        recorded = record(device, repeats=2).run()
        assert [setting for setting, _ in device.bursts].index(one) < 9
        assert device.bursts[9] == (one, 1)
        assert [replicate for setting, replicate in device.bursts if setting == one] == [0, 1, 2]
        assert recorded.document["ok"] == 18
        assert len({row.throughput for row in read_profile(PATH).replicates(one)}) == 2

    def test_one_that_fails_again_is_kept_with_its_reason(self) -> None:
        one: Setting = {"gpu_freq_mhz": 400, "batch_size": 2}
        device = ToyDevice(clocks=3, batches=3, script=failing(Status.THROTTLED, 2, lambda s: s == one))
        recorded = record(device).run()
        assert len(device.bursts) == 10
        profile = read_profile(PATH)
        assert [row.status for row in profile.replicates(one)] == [Status.THROTTLED]
        remark = "gpu_freq_mhz=400, batch_size=2, burst 1, attempt 2: throttled: why / it: failed"
        assert profile.metadata.extra["remarks"] == remark
        assert recorded.document["failed"] == 1
        again = record(ToyDevice(clocks=3, batches=3))
        assert again.sweep.left == 0
        assert again.run().reasons == ("throttled: why / it: failed",)

    @pytest.mark.parametrize("number", [1, 5, 9, 10, 11, 12, 16, 20])
    def test_the_second_attempt_outlives_an_interruption(self, number: int) -> None:
        def script(setting: Setting, plan: BurstPlan) -> Measurement | None:
            return failed(Status.CRASHED) if plan.replicate == 0 and setting["batch_size"] == 2 else None

        def stop_at_number(setting: Setting, plan: BurstPlan) -> Measurement | None:
            stop(setting, plan)
            return script(setting, plan)

        whole = ToyDevice(clocks=3, batches=3, noise=NOISE, script=script)
        record(whole, 2, Path("whole.csv")).run()
        assert len(whole.bursts) == 21
        cut = record(ToyDevice(clocks=3, batches=3, noise=NOISE, script=stop_at_number), 2)
        stop = At(number - 1, cut.request_stop)
        assert cut.run().document["interrupted"] is True
        record(ToyDevice(clocks=3, batches=3, noise=NOISE, script=script), 2).run()
        assert PATH.read_text() == Path("whole.csv").read_text()

    def test_five_in_a_row_end_it_and_it_goes_on_from_its_file(self) -> None:
        broken = True
        good = 6

        def script(setting: Setting, plan: BurstPlan) -> Measurement | None:
            return failed(Status.CRASHED, "no torch") if broken and len(device.bursts) > good else None

        device = ToyDevice(noise=NOISE, script=script)
        with pytest.raises(DeviceError, match="the last 5 bursts failed: crashed: no torch") as error:
            record(device).run()
        assert "goes on" in str(error.value.hint)
        assert len(device.bursts) == good + 5
        assert len(read_profile(PATH).ok_rows) == good
        broken = False
        recorded = record(device).run()
        assert (recorded.document["ok"], recorded.document["failed"]) == (20, 0)
        assert len(device.bursts) == good + 5 + 20 - good  # the five were repeated, nothing else was

    def test_settings_that_always_fail_do_not_end_it(self) -> None:
        # Each sixth setting throttles: their repetitions follow each other, and say nothing of the device.
        device = ToyDevice(clocks=6, batches=6, script=failing(Status.THROTTLED, 9, lambda s: s["batch_size"] == 32))
        recorded = record(device, repeats=2).run()
        assert recorded.document["failed"] == 12

    def test_a_lost_device_loses_nothing(self) -> None:
        def lose() -> None:
            raise DeviceLostError("the cable is out")

        with pytest.raises(DeviceLostError):
            record(ToyDevice(clocks=2, batches=2, noise=NOISE, script=At(3, lose))).run()
        assert len(read_profile(PATH).rows) == 3
        record(ToyDevice(clocks=2, batches=2, noise=NOISE)).run()
        assert PATH.read_text() == undisturbed(Path("whole.csv"), clocks=2, batches=2, noise=NOISE)

    def test_a_measurement_that_cannot_be_one_counts_as_crashed(self) -> None:
        def zero(setting: Setting, plan: BurstPlan) -> Measurement | None:
            return replace(toy_measurement(setting), power_mean_w=0.0) if setting["batch_size"] == 1 else None

        recorded = record(ToyDevice(clocks=2, batches=2, script=zero)).run()
        assert recorded.reasons == ("crashed: power_mean_w was read as 0",)
        assert (recorded.document["ok"], recorded.document["failed"]) == (2, 2)

    def test_a_disk_that_is_full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        record(ToyDevice(clocks=2, batches=2)).run()
        before = PATH.read_bytes()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("devices.profile._writer.os.fsync", full)
            with pytest.raises(StoreError, match="No space left"):
                record(ToyDevice(clocks=2, batches=3)).run()
        assert PATH.read_bytes() == before
        assert [path.name for path in Path().iterdir()] == ["toy.csv"]


class TestWrongInput:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"repeats": 0}, "once or more"),
            ({"seed": -1}, "seed"),
            ({"cap_w": -7.0}, "cap"),
            ({"path": Path()}, "folder"),
            ({"path": Path("missing/toy.csv")}, "no folder"),
        ],
    )
    def test_arguments(self, options: dict[str, object], words: str) -> None:
        with pytest.raises(InputError, match=words):
            record(ToyDevice(), **options)  # type: ignore[arg-type]

    def test_a_replay_is_a_record_already(self) -> None:
        record(ToyDevice()).run()
        profile = read_profile(PATH)
        write_profile(replace(profile, metadata=replace(profile.metadata, provenance="measured")), PATH)
        with ReplayDevice(read_profile(PATH)) as device, pytest.raises(UnsupportedError, match="already"):
            Recording(device, "toy", Path("again.csv"))
