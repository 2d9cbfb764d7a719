"""Importers of public traces: on small tables made up here, and on the traces themselves where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devices.errors import ProfileError
from devices.importers import IMPORTERS, import_perseus, import_zeus
from devices.profile import Cell, Profile, read_profile, write_profile

DATA = Path(os.environ.get("TUNER_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data")

ZEUS_HEAD = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
ZEUS = ZEUS_HEAD + "".join(
    f"{dataset},net,{batch},{optimizer},{limit},{factor * 36000 / (batch * limit)},{limit * 0.9}\n"
    for dataset, optimizer, factor in (("squad", "adam", 1), ("squad", "sgd", 2), ("digits", "sgd", 3))
    for batch in (8, 16)
    for limit in (100, 200)
)
STAGES = "stage,instruction,frequency,time,energy\n" + "".join(
    f"{stage},{instruction},{mhz},{600 / mhz},{mhz / 10}\n"
    for mhz in (600, 300)
    for stage in (0, 1)
    for instruction in ("forward", "backward")
)
LIMITS_HEAD = "model_name,partition_method,batch_size,dp,tp,pp,power_limit_0,power_limit_1,power_limit_2,time,energy\n"
LIMITS = LIMITS_HEAD + (
    'small,"custom:0,4",64,1,1,2,100,100,0.0,4,600\n'
    'small,"custom:0,4",64,1,1,2,200,200,0.0,2,500\n'
    "large,even,64,2,1,3,200,200,200.0,8,8000\n"
)


def save(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def data(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"the public trace {path} is not here; TUNER_DATA names its folder")
    return path


def best(profile: Profile, cap_w: float) -> Cell:
    cell = profile.best_feasible(cap_w)
    assert cell is not None
    return cell


def test_registry() -> None:
    assert dict(IMPORTERS) == {"zeus": import_zeus, "perseus": import_perseus}


def test_zeus_table(tmp_path: Path) -> None:
    profile = import_zeus(save(tmp_path, "summary_power_a40.csv", ZEUS), "squad/net/sgd")
    meta = profile.metadata
    assert (meta.device, meta.workload, meta.licence) == ("NVIDIA A40", "squad/net/sgd", "Apache-2.0")
    assert meta.origin
    assert "ml-energy/zeus" in meta.origin
    assert profile.throughput_unit == "epochs/h"
    assert profile.knob_values == {"power_limit_w": (100, 200), "batch_size": (8, 16)}
    (row,) = profile.replicates({"power_limit_w": 200, "batch_size": 8})
    assert row.duration_s == 45
    assert row.throughput == 80
    assert row.power_mean_w == 180
    assert row.energy_j == 45 * 180
    assert row.samples == 1
    # The simulator's default batch for squad (32) was not run on this GPU.
    assert meta.default_setting == {"power_limit_w": 200, "batch_size": 16}
    write_profile(profile, tmp_path / "squad.csv")
    assert read_profile(tmp_path / "squad.csv") == profile


def test_zeus_workloads_are_told_apart(tmp_path: Path) -> None:
    path = save(tmp_path, "traces.csv", ZEUS)
    assert import_zeus(path, "digits/net").metadata.workload == "digits/net/sgd"
    assert import_zeus(path, "digits/net").metadata.default_setting is None
    assert import_zeus(path, "digits/net").metadata.device is None
    for workload, words in {
        "squad/net": ["2 workloads", "squad/net/adam, squad/net/sgd"],
        "squad/net/rmsprop": ["no workload", "digits/net/sgd, squad/net/adam, squad/net/sgd"],
        None: ["3 workloads", "digits/net/sgd, squad/net/adam, squad/net/sgd"],
    }.items():
        with pytest.raises(ProfileError) as refusal:
            import_zeus(path, workload)
        assert words[0] in refusal.value.message
        assert words[1] in (refusal.value.hint or "")


def test_stage_profile(tmp_path: Path) -> None:
    profile = import_perseus(save(tmp_path, "gpt+a100_sxm_bf16.stage_profile.csv", STAGES))
    meta = profile.metadata
    assert (meta.device, meta.workload, meta.extra) == ("NVIDIA A100 SXM", "gpt", {"precision": "bf16"})
    assert profile.throughput_unit == "microbatches/s"
    assert profile.knob_values == {"gpu_freq_mhz": (300, 600)}
    (slow,) = profile.replicates({"gpu_freq_mhz": 300})
    assert (slow.throughput, slow.duration_s, slow.energy_j, slow.power_mean_w) == (1 / 8, 8, 120, 15)


def test_the_format_is_known_by_its_columns(tmp_path: Path) -> None:
    profile = import_perseus(save(tmp_path, "table.csv", STAGES), "mine")
    assert (profile.metadata.device, profile.metadata.workload) == (None, "mine")
    assert import_perseus(save(tmp_path, "other.csv", LIMITS), "small").knob_names == ("power_limit_w",)


def test_a_frequency_without_every_stage_is_left_out_and_said(tmp_path: Path) -> None:
    text = STAGES.replace("1,backward,300,2.0,30.0\n", "")
    assert text != STAGES
    profile = import_perseus(save(tmp_path, "t.csv", text))
    assert profile.knob_values == {"gpu_freq_mhz": (600,)}
    assert profile.metadata.extra["left_out"].startswith("300 MHz")
    with pytest.raises(ProfileError, match="no frequency with all"):
        import_perseus(save(tmp_path, "t.csv", text.replace("0,forward,600", "0,forward,450")))


def test_a_stage_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="line 10: stage 1 backward appears twice"):
        import_perseus(save(tmp_path, "t.csv", STAGES + "1,backward,300,2,30\n"))


def test_common_power_limits(tmp_path: Path) -> None:
    path = save(tmp_path, "zeus_global_A100.csv", LIMITS)
    profile = import_perseus(path, "small")
    assert profile.metadata.device == "NVIDIA A100 PCIe"
    assert profile.throughput_unit == "iterations/s"
    assert profile.knob_values == {"power_limit_w": (100, 200)}
    assert best(profile, 250).throughput == 0.5
    assert best(profile, 200).power_w == 150
    assert profile.metadata.extra["gpus"] == "2"
    assert import_perseus(path, "large").metadata.extra["gpus"] == "6"
    with pytest.raises(ProfileError) as refusal:
        import_perseus(path)
    assert refusal.value.hint == "use --workload with one of large, small"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (LIMITS.replace("100,100,0.0", "100,125,0.0"), "differ between the stages"),
        (LIMITS.replace('"custom:0,4",64,1,1,2,100', "even,64,1,1,2,100"), "several configurations"),
        (LIMITS.replace(",energy\n", ",energy,heaviest_stage\n").replace("00\n", "00,1\n"), "not one knob"),
        (ZEUS, "neither"),
        (LIMITS.replace(",4,600", ",0,600"), "line 2, column 'time': 0 is not above 0"),
        (LIMITS.replace(",4,600", ",four,600"), "line 2, column 'time': 'four' is not a number"),
        (LIMITS + "small,even\n", "line 5: the row does not fit"),
        (LIMITS_HEAD, "no row"),
    ],
)
def test_bad_perseus_tables_are_refused(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(ProfileError, match=word):
        import_perseus(save(tmp_path, "limits.csv", text), "small")


def test_other_tables_are_no_zeus_tables(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"lacks .*power_limit, time_per_epoch"):
        import_zeus(save(tmp_path, "x.csv", STAGES), "squad")
    with pytest.raises(ProfileError, match="does not exist"):
        import_zeus(tmp_path / "nowhere.csv", "squad")


@pytest.mark.parametrize(
    ("gpu", "workload", "cells", "default_batch"),
    [
        ("v100", "cifar100/shufflenetv2/adadelta", 70, 1024),
        ("v100", "cifar100/shufflenetv2/adam", 70, 1024),
        ("v100", "imagenet/resnet50", 56, 256),
        ("v100", "librispeech/deepspeech2/adamw", 105, 192),
        ("v100", "movielens-1m/ncf", 91, 1024),
        ("v100", "sentiment140/bert_base_uncased", 35, 128),
        ("v100", "squad/bert_base_uncased", 49, 32),
        ("a40", "cifar100/shufflenetv2", 99, 1024),
    ],
)
def test_public_zeus_grids(gpu: str, workload: str, cells: int, default_batch: int) -> None:
    profile = import_zeus(data(f"zeus-nsdi23/summary_power_{gpu}.csv"), workload)
    assert (len(profile.rows), profile.missing_count) == (cells, 0)
    limit = 300 if gpu == "a40" else 250
    assert profile.metadata.default_setting == {"power_limit_w": limit, "batch_size": default_batch}
    assert profile.metadata.device == f"NVIDIA {gpu.upper()}"


@pytest.mark.parametrize(
    ("gpu", "workload", "cap_w", "batch", "limit_w", "throughput", "power_w"),
    [
        ("v100", "librispeech/deepspeech2", 100, 128, 100, 0.4482, 99.1),
        ("v100", "librispeech/deepspeech2", 110, 96, 125, 0.5289, 106.6),
        ("v100", "librispeech/deepspeech2", 125, 96, 150, 0.5739, 117.7),
        ("v100", "librispeech/deepspeech2", 150, 96, 200, 0.6165, 144.9),
        ("v100", "librispeech/deepspeech2", 175, 96, 225, 0.6414, 162.9),
        ("v100", "librispeech/deepspeech2", 200, 56, 250, 0.6698, 192.6),
        ("a40", "cifar100/shufflenetv2", 125, 256, 125, 245.32, 121.2),
        ("a40", "cifar100/shufflenetv2", 150, 2048, 175, 390.88, 146.7),
        ("a40", "cifar100/shufflenetv2", 200, 2048, 225, 412.14, 193.5),
        ("v100", "cifar100/shufflenetv2/adadelta", 100, 4096, 125, 348.95, 99.95),
        ("v100", "cifar100/shufflenetv2/adadelta", 150, 2048, 200, 450.94, 149.3),
        ("v100", "imagenet/resnet50", 100, 64, 100, 0.5380, 98.6),
        ("v100", "imagenet/resnet50", 150, 256, 150, 0.8678, 144.6),
        ("v100", "squad/bert_base_uncased", 100, 12, 100, 1.1970, 99.8),
        ("v100", "squad/bert_base_uncased", 150, 8, 150, 1.8897, 146.1),
    ],
)
def test_public_zeus_optima_under_caps(
    gpu: str, workload: str, cap_w: float, batch: int, limit_w: float, throughput: float, power_w: float
) -> None:
    found = best(import_zeus(data(f"zeus-nsdi23/summary_power_{gpu}.csv"), workload), cap_w)
    assert found.setting == {"power_limit_w": limit_w, "batch_size": batch}
    assert found.throughput == pytest.approx(throughput, rel=2e-4)
    assert found.power_w == pytest.approx(power_w, abs=0.051)


@pytest.mark.parametrize(
    ("gpu", "workload", "cap_w"),
    [
        ("v100", "imagenet/resnet50", 96.5),
        ("v100", "squad/bert_base_uncased", 99.4),
        ("a40", "cifar100/shufflenetv2", 88.3),
    ],
)
def test_public_zeus_caps_that_nothing_keeps(gpu: str, workload: str, cap_w: float) -> None:
    assert import_zeus(data(f"zeus-nsdi23/summary_power_{gpu}.csv"), workload).best_feasible(cap_w) is None


@pytest.mark.parametrize(
    ("workload", "batch", "limit_w", "lowest_kj", "fastest_kj"),
    [("imagenet/resnet50", 256, 150, 600, 774), ("librispeech/deepspeech2", 96, 125, 725, 1035)],
)
def test_public_zeus_energy_of_an_epoch(
    workload: str, batch: int, limit_w: float, lowest_kj: float, fastest_kj: float
) -> None:
    profile = import_zeus(data("zeus-nsdi23/summary_power_v100.csv"), workload)
    lowest = min(profile.rows, key=lambda row: row.energy_j or 0)
    fastest = max(profile.rows, key=lambda row: row.throughput or 0)
    assert lowest.setting == {"power_limit_w": limit_w, "batch_size": batch}
    assert lowest.energy_j == pytest.approx(lowest_kj * 1000, abs=501)
    assert fastest.energy_j == pytest.approx(fastest_kj * 1000, abs=501)


@pytest.mark.parametrize(
    ("name", "cap_w", "mhz", "seconds"),
    [
        ("bloom+a40_bf16", 200, 1050, 3.545),
        ("bloom+a40_bf16", 250, 1335, 3.239),
        ("bloom+a40_bf16", 280, 1440, 3.110),
        ("bloom+a100_sxm_bf16", 250, 975, 1.591),
        ("bloom+a100_sxm_bf16", 300, 1140, 1.368),
        ("bloom+a100_sxm_bf16", 400, 1290, 1.229),
    ],
)
def test_public_stage_profiles_under_caps(name: str, cap_w: float, mhz: int, seconds: float) -> None:
    found = best(import_perseus(data(f"perseus-sosp24/{name}.stage_profile.csv")), cap_w)
    assert found.setting == {"gpu_freq_mhz": mhz}
    assert 1 / found.throughput == pytest.approx(seconds, abs=5.1e-4)


@pytest.mark.parametrize(
    ("name", "highest", "mhz", "frugal", "clocks"),
    [
        ("bloom+a100_sxm_bf16", (1.186, 554, 467), 1065, (1.453, 386, 265), 38),
        ("bloom+a40_bf16", (3.017, 887, 294), 1020, (3.609, 695, 193), 60),
        ("gpt3-175b+a100_sxm_bf16", (1.155, 550, 476), 1080, (1.413, 401, 284), 38),
        ("gpt3-175b+a40_bf16", (3.129, 914, 292), 945, (3.702, 689, 186), 60),
    ],
)
def test_public_stage_profiles(
    name: str, highest: tuple[float, ...], mhz: int, frugal: tuple[float, ...], clocks: int
) -> None:
    profile = import_perseus(data(f"perseus-sosp24/{name}.stage_profile.csv"))
    assert len(profile.rows) == clocks
    lowest = min(profile.rows, key=lambda row: row.energy_j or 0)
    assert lowest.setting == {"gpu_freq_mhz": mhz}
    for row, (seconds, joules, watts) in ((profile.rows[-1], highest), (lowest, frugal)):
        assert row.duration_s == pytest.approx(seconds, abs=5.1e-4)
        assert row.energy_j == pytest.approx(joules, abs=0.51)
        assert row.power_mean_w == pytest.approx(watts, abs=0.51)


def test_public_power_limits() -> None:
    path = data("perseus-sosp24/zeus_global_A40.csv")
    fastest = import_perseus(path, "t5-3b").best_feasible(None)
    assert fastest
    assert fastest.setting == {"power_limit_w": 200}  # not monotone
    large = import_perseus(path, "gpt3-6.7b")
    assert large.metadata.extra["gpus"] == "16"
    assert large.rows[0].power_mean_w == pytest.approx(4200, rel=0.02)
    with pytest.raises(ProfileError, match="not one knob"):
        import_perseus(data("perseus-sosp24/zeus_local_A40.csv"), "t5-3b")
