"""Earlier records: they shorten a study of the same, and are forgotten where they say something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devices.device import BATCH_KNOB
from devices.errors import InputError
from devices.measurement import Measurement
from devices.profile import Profile, ProfileMetadata, ProfileRow
from tests.tuner.toys import ToyDevice
from tuner import Study
from tuner.testing import toy_measurement, toy_problem

KNOBS = ("gpu_freq_mhz", BATCH_KNOB)


def record(*, reversed_clock: bool = False) -> Profile:
    """The toy board's whole table; reversed, it says that a high clock is slow and frugal."""
    space = toy_problem(clocks=8, batches=7).space
    clocks = space.knobs[0].values
    rows = []
    for setting in space.settings:
        told = dict(setting)
        if reversed_clock:
            told["gpu_freq_mhz"] = clocks[len(clocks) - 1 - clocks.index(setting["gpu_freq_mhz"])]
        rows.append(ProfileRow.from_measurement(told, toy_measurement(setting)))
    return Profile(ProfileMetadata(workload="toy"), KNOBS, tuple(rows))


def bursts_until_found(*prior: Profile, seed: int = 0) -> int:
    """Bursts until a setting truly within 3 % of the best one that holds the cap."""
    cap_w = 14.0
    device = ToyDevice(clocks=8, batches=7, noise=0.01)
    outcome = Study(device, "toy", cap_w=cap_w, prior=prior, seed=seed).run()
    true: dict[float, dict[float, Measurement]] = {
        setting["gpu_freq_mhz"]: {} for setting in toy_problem(clocks=8, batches=7).space.settings
    }
    for setting in toy_problem(clocks=8, batches=7).space.settings:
        true[setting["gpu_freq_mhz"]][setting[BATCH_KNOB]] = toy_measurement(setting)
    held = [m for row in true.values() for m in row.values() if (m.power_mean_w or 0) <= cap_w]
    best = max(m.throughput or 0 for m in held)
    for i, trial in enumerate(outcome.trials):
        found = true[trial.setting["gpu_freq_mhz"]][trial.setting[BATCH_KNOB]]
        if found in held and (found.throughput or 0) >= 0.97 * best:
            return i + 1
    return 99


SEEDS = (0, 1, 2)


def test_a_record_of_the_same_shortens_a_study() -> None:
    alone = sum(bursts_until_found(seed=seed) for seed in SEEDS)
    assert sum(bursts_until_found(record(), seed=seed) for seed in SEEDS) < alone


def test_a_misleading_record_costs_two_bursts_at_most() -> None:
    misleading = record(reversed_clock=True)
    for seed in SEEDS:
        assert bursts_until_found(misleading, seed=seed) <= bursts_until_found(seed=seed) + 2


def test_a_short_record_of_the_same_begins_at_its_best() -> None:
    """Two settings leave the coefficients open, but not the power at these two."""
    space = toy_problem(clocks=8, batches=7).space
    settings = [{**setting} for setting in space.settings if setting[BATCH_KNOB] == 16][2:4]
    rows = [ProfileRow.from_measurement(setting, toy_measurement(setting)) for setting in settings]
    short = Profile(ProfileMetadata("toy", "toy"), KNOBS, tuple(rows))
    cap_w = (rows[1].power_mean_w or 0.0) * 1.03
    with Study(ToyDevice(clocks=8, batches=7, noise=0.01), "toy", cap_w=cap_w, prior=[short]) as study:
        (first,) = study.ask()
    assert first.setting["gpu_freq_mhz"] >= settings[0]["gpu_freq_mhz"]
    assert (toy_measurement(first.setting).power_mean_w or 0.0) <= cap_w


@pytest.mark.parametrize(
    ("said", "likely"),
    [
        ({"device": "toy", "workload": "toy"}, 0.9),
        ({"device": "toy"}, 0.5),
        ({"device": "toy", "workload": "other"}, 0.1),
        ({"device": "toy", "workload": "toy", "extra": {"cpu_freq_mhz": "729"}}, 0.9),
        ({"device": "toy", "workload": "toy", "extra": {"preset": "fast"}}, 0.1),
    ],
)
def test_a_record_of_the_same_is_told_by_what_it_says(said: dict[str, Any], likely: float) -> None:
    about = ProfileMetadata("toy", "toy", extra={"preset": "slow"})
    told = replace(record(), metadata=ProfileMetadata(**said))
    assert replace(toy_problem(), about=about).sameness(told) == likely
    assert toy_problem().sameness(told) == 0.5


@pytest.mark.parametrize("prior", [["x"], None, "x.csv", 3])
def test_what_is_no_record_is_refused(prior: Any) -> None:
    with pytest.raises(InputError, match="prior is a list of profiles"):
        Study(ToyDevice(), "toy", cap_w=9.0, prior=prior)


def test_a_record_without_a_knob_is_refused() -> None:
    whole = record()
    rows = tuple(ProfileRow({BATCH_KNOB: row.setting[BATCH_KNOB]}, row.status, row.throughput) for row in whole.rows)
    with pytest.raises(InputError, match="lacks gpu_freq_mhz"):
        Study(ToyDevice(), "toy", cap_w=9.0, prior=[Profile(ProfileMetadata(), (BATCH_KNOB,), rows)])
