"""Suspicious tables are found, sound ones are left alone."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devices.importers import import_perseus, import_zeus
from devices.measurement import Status
from devices.profile import Profile, ProfileMetadata, ProfileRow, find_outliers
from devices.profile_check import Finding, check_profile

DATA = Path(os.environ.get("TUNER_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data")

CLOCKS = (306, 408, 510, 612, 714)
BATCHES = (8, 16, 32, 64, 128)


def row(clock: float, batch: float, status: Status = Status.OK, **metrics: float) -> ProfileRow:
    return ProfileRow({"gpu_freq_mhz": clock, "batch_size": batch}, status, **metrics)  # type: ignore[arg-type]


def sound_rows() -> list[ProfileRow]:
    """A steep but regular surface: throughput grows five times along the batch size."""
    rows = []
    for clock in CLOCKS:
        for batch in BATCHES:
            speed = clock / 10 * batch / (batch + 40)
            power_w = 3 + (clock / 400) ** 2.5 * batch / (batch + 20)
            rows.append(
                row(
                    clock,
                    batch,
                    throughput=speed,
                    step_time_s=batch / speed,
                    power_mean_w=power_w,
                    power_p95_w=power_w * 1.05,
                    power_peak_w=power_w * 1.1,
                    energy_j=10 * power_w,
                    duration_s=10.0,
                    samples=10 * speed,
                )
            )
    return rows


def profile(rows: list[ProfileRow], **metadata: str) -> Profile:
    return Profile(ProfileMetadata(extra=metadata), ("gpu_freq_mhz", "batch_size"), tuple(rows))


def changed(index: int, **metrics: float) -> Profile:
    rows = sound_rows()
    rows[index] = replace(rows[index], **metrics)  # type: ignore[arg-type]
    return profile(rows)


def everywhere(**factors: float) -> Profile:
    return profile([replace(r, **{name: getattr(r, name) * f for name, f in factors.items()}) for r in sound_rows()])


def only(findings: list[Finding], severity: str, *words: str) -> None:
    assert len(findings) == 1, findings
    (finding,) = findings
    assert finding.severity == severity
    for word in words:
        assert word in f"{finding.what} | {finding.where}"
    assert finding.mend


def test_a_sound_profile_has_no_finding() -> None:
    assert check_profile(profile(sound_rows())) == []


@pytest.mark.parametrize("index", range(len(CLOCKS) * len(BATCHES)))
@pytest.mark.parametrize("factor", [1 / 3, 3])
def test_an_outlier_is_found_wherever_it_is(index: int, factor: float) -> None:
    rows = [replace(r, energy_j=None, power_p95_w=None, power_peak_w=None) for r in sound_rows()]
    rows[index] = replace(rows[index], power_mean_w=(rows[index].power_mean_w or 0) * factor)
    (outlier,) = find_outliers(profile(rows), "power_mean_w")
    assert outlier.setting == rows[index].setting
    assert outlier.value / outlier.expected == pytest.approx(factor, rel=0.25)
    only(check_profile(profile(rows)), "warning", "power_mean_w", f"batch_size={rows[index].setting['batch_size']}")


def test_outliers_do_not_hide_each_other() -> None:
    rows = sound_rows()
    for index in (6, 7, 18):
        rows[index] = replace(rows[index], throughput=(rows[index].throughput or 0) / 4)
    found = find_outliers(profile(rows), "throughput")
    keys = sorted(tuple(outlier.setting.values()) for outlier in found)
    assert keys == [tuple(rows[index].setting.values()) for index in (6, 7, 18)]


def test_one_knob_is_enough_for_an_outlier() -> None:
    rows = [ProfileRow({"gpu_freq_mhz": mhz}, Status.OK, mhz / 10, power_mean_w=54.0 + mhz / 50) for mhz in CLOCKS]
    rows[2] = replace(rows[2], power_mean_w=18.0)
    only(check_profile(Profile(ProfileMetadata(), ("gpu_freq_mhz",), tuple(rows))), "warning", "18", "510")


def one_knob(values: dict[float, float]) -> Profile:
    rows = tuple(ProfileRow({"gpu_freq_mhz": mhz}, Status.OK, throughput) for mhz, throughput in values.items())
    return Profile(ProfileMetadata(), ("gpu_freq_mhz",), rows)


def test_a_wrong_cell_at_the_edge_is_not_blamed_on_its_neighbour() -> None:
    table = one_knob({300: 90.0, 306: 30.6, 400: 40.0, 500: 50.0, 600: 60.0, 700: 70.0})
    (outlier,) = find_outliers(table, "throughput")
    assert outlier.setting == {"gpu_freq_mhz": 300}


def test_a_power_law_over_uneven_steps_is_no_outlier() -> None:
    assert check_profile(one_knob({mhz: 3.0 * mhz for mhz in (1, *range(100, 200, 10))})) == []


def test_a_bend_before_the_edge_is_no_outlier() -> None:
    assert check_profile(one_knob({1: 1.0, 2: 1.55, 4: 2.36, 8: 2.36})) == []


def test_a_rough_table_is_given_room() -> None:
    rough = (1.5, 0.7, 1.4, 0.6, 1.6, 0.65, 1.45)
    rows = [ProfileRow({"batch_size": 2**i}, Status.OK, 100 * factor) for i, factor in enumerate(rough)]
    assert check_profile(Profile(ProfileMetadata(), ("batch_size",), tuple(rows))) == []


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (everywhere(power_mean_w=1000, power_p95_w=1000, power_peak_w=1000, energy_j=1000), ["power_p95_w", "W"]),
        (everywhere(power_mean_w=1e-3, power_p95_w=1e-3, power_peak_w=1e-3, energy_j=1e-3), ["power_mean_w"]),
    ],
)
def test_power_in_another_unit(table: Profile, words: list[str]) -> None:
    findings = check_profile(table)
    assert {finding.severity for finding in findings} == {"fault"}
    assert [f.where for f in findings] == ["column power_p95_w", "column power_peak_w", "column power_mean_w"]
    assert "watts" in findings[0].mend


def test_many_gpus_together_may_draw_much() -> None:
    rows = [row(c, 8, throughput=c / 10, power_mean_w=2500 + c) for c in CLOCKS]
    assert [f.severity for f in check_profile(profile(rows))] == ["fault"]
    assert check_profile(profile(rows, gpus="16")) == []
    assert len(check_profile(profile(rows, gpus="sixteen"))) == 1


def test_clocks_in_another_unit() -> None:
    rows = [replace(r, setting={**r.setting, "gpu_freq_mhz": r.setting["gpu_freq_mhz"] * 1000}) for r in sound_rows()]
    only(check_profile(profile(rows)), "fault", "714000 MHz", "column gpu_freq_mhz")


def test_zero_power() -> None:
    rows = sound_rows()
    rows[3] = replace(rows[3], power_mean_w=0.0, power_p95_w=None, power_peak_w=None, energy_j=0.0, line=7)
    only(check_profile(profile(rows)), "fault", "1 ok rows", "0 W", "line 7: gpu_freq_mhz=306, batch_size=64")


def test_constant_power() -> None:
    rows = [row(c, b, throughput=c * b / (b + 40), power_mean_w=5.0) for c in CLOCKS for b in BATCHES]
    only(check_profile(profile(rows)), "fault", "25 ok rows", "same power of 5 W")


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (everywhere(power_mean_w=1.2, energy_j=1.2), "above p95"),
        (everywhere(power_peak_w=0.9), "above the peak"),
        (everywhere(energy_j=1 / 3600), "energy_j"),
        (everywhere(samples=1.2), "samples / duration_s"),
        (everywhere(step_time_s=1000), "step_time_s"),
    ],
)
def test_figures_that_contradict_each_other(table: Profile, word: str) -> None:
    only(check_profile(table), "fault", "25 ok rows", word, "and 22 more")


def test_small_differences_are_no_contradiction() -> None:
    assert check_profile(everywhere(energy_j=1.05, samples=0.95, step_time_s=1.05)) == []


def test_out_of_memory_below_a_batch_that_trained() -> None:
    rows = sound_rows()
    rows[7] = row(408, 32, Status.OOM)
    warning, note = check_profile(profile(rows))
    only([warning], "warning", "1 rows ran out of memory", "batch size 128", "batch_size=32")
    only([note], "note", "1 rows are oom")


def test_out_of_memory_above_is_a_note() -> None:
    rows = [*sound_rows(), *(row(clock, 256, Status.OOM) for clock in CLOCKS)]
    only(check_profile(profile(rows)), "note", "5 rows are oom", "and 2 more")


def test_gaps() -> None:
    rows = sound_rows()
    del rows[12], rows[3]
    only(check_profile(profile(rows)), "note", "2 of 25", "batch_size=64; gpu_freq_mhz=510, batch_size=32")


def test_replicates_apart() -> None:
    rows = sound_rows()
    extra = replace(rows[12], throughput=(rows[12].throughput or 0) * 1.4, step_time_s=None, samples=None)
    only(check_profile(profile([*rows, extra])), "warning", "1 settings differ in throughput", "gpu_freq_mhz=510")


def test_duplicates() -> None:
    rows = sound_rows()
    only(check_profile(profile([*rows, replace(rows[4], line=40)])), "warning", "1 ok rows repeat", "line 40")
    ooms = [row(306, 256, Status.OOM)] * 2
    assert not [f for f in check_profile(profile([*rows, *ooms])) if f.severity != "note"]


def test_a_measured_column_taken_for_a_knob() -> None:
    rows = [
        replace(r, setting={**r.setting, "temperature_c": 40 + 0.37 * index}) for index, r in enumerate(sound_rows())
    ]
    names = ("gpu_freq_mhz", "batch_size", "temperature_c")
    warning, note = check_profile(Profile(ProfileMetadata(), names, tuple(rows)))
    only([warning], "warning", "column temperature_c")
    only([note], "note", "600 of 625")


def public_profiles() -> Iterator[Profile]:
    for path in sorted((DATA / "zeus-nsdi23").glob("summary_power_*.csv")):
        with path.open() as file:
            names = {f"{r['dataset']}/{r['network']}/{r['optimizer']}" for r in csv.DictReader(file)}
        yield from (import_zeus(path, name) for name in sorted(names))
    for path in sorted((DATA / "perseus-sosp24").glob("*.stage_profile.csv")):
        yield import_perseus(path)
    for path in sorted((DATA / "perseus-sosp24").glob("zeus_global_*.csv")):
        with path.open() as file:
            models = {r["model_name"] for r in csv.DictReader(file)}
        yield from (import_perseus(path, model) for model in sorted(models))


def test_no_false_alarm_on_public_tables() -> None:
    profiles = list(public_profiles())
    if not profiles:
        pytest.skip(f"no public traces in {DATA}; TUNER_DATA names their folder")
    alarms = {str(p.metadata.workload): findings for p in profiles if (findings := check_profile(p))}
    assert alarms == {}


def test_a_public_cell_made_wrong_is_found() -> None:
    path = DATA / "zeus-nsdi23" / "summary_power_v100.csv"
    if not path.is_file():
        pytest.skip(f"no public traces in {DATA}; TUNER_DATA names their folder")
    table = import_zeus(path, "movielens-1m/ncf")
    for index in range(0, len(table.rows), 7):
        wrong = replace(table.rows[index], power_mean_w=(table.rows[index].power_mean_w or 0) / 3)
        rows = (*table.rows[:index], wrong, *table.rows[index + 1 :])
        found = find_outliers(replace(table, rows=rows), "power_mean_w")
        assert [outlier.setting for outlier in found] == [wrong.setting]
