from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from devices.profile import read_profile
from tests.tuner.cli.conftest import Tune
from tuner.report.tables import result_table, trials_table

TRIAL_KEYS = {
    "index",
    "setting",
    "state",
    "status",
    "reason",
    "feasible",
    "throughput",
    "power_mean_w",
    "power_p95_w",
    "power_peak_w",
    "energy_per_sample_j",
    "duration_s",
}
DOCUMENT_KEYS = {
    "study",
    "device",
    "source",
    "goal",
    "throughput_unit",
    "cap",
    "trials",
    "best_measured",
    "recommended",
    "stopped",
    "frozen",
}
FROZEN_KEYS = {
    "schema",
    "device",
    "setting",
    "context",
    "workload",
    "goal",
    "cap",
    "measured",
    "baseline",
    "reference",
    "effective_batch",
    "accumulation_steps",
    "learning_rate",
    "seed",
    "source",
    "study",
    "created_at",
}


class TestEmulated:
    def test_the_main_job(self, tune: Tune) -> None:
        result = tune("run", "--device", "jetson-orin", "--cap", "7W", "--json")
        document = result.json
        assert result.code == 0
        assert document.keys() >= DOCUMENT_KEYS
        assert document["source"] == "emulated"
        assert document["cap"] == {"watts": 7.0, "statistic": "p95"}
        assert document["trials"][0].keys() >= TRIAL_KEYS
        assert document["recommended"]["power_w"] <= 7.0
        assert document["recommended"]["feasible_probability"] >= 0.95
        assert document["frozen"] == "frozen.json"
        frozen = json.loads(Path("frozen.json").read_text())
        assert frozen.keys() >= FROZEN_KEYS
        assert frozen["setting"] == document["recommended"]["setting"]
        assert frozen["measured"].keys() >= TRIAL_KEYS
        assert frozen["measured"]["power_p95_w"] <= 7.0
        assert frozen["source"] == "emulated"
        assert frozen["effective_batch"] >= frozen["setting"]["batch_size"]
        assert frozen["reference"]["batch"] == 32
        recommended = [t for t in document["trials"] if t["setting"] == frozen["setting"] and t["status"] == "ok"]
        mean = sum(t["throughput"] for t in recommended) / len(recommended)
        assert document["recommended"]["throughput"] == pytest.approx(mean)

        again = tune("run", "--device", "jetson-orin-nano", "--cap", "7000mW", "--json")
        assert again.json == document

    def test_the_user_is_told_where_figures_come_from_and_what_was_chosen(self, tune: Tune) -> None:
        result = tune("run", "--device", "jetson-orin", "--cap", "7", "--bursts", "2")
        lines = result.out.splitlines()
        assert lines[0].startswith("source: emulated")
        assert "preset 2C-" in result.out
        assert result.code in (0, 1)

    def test_more_knobs(self, tune: Tune) -> None:
        result = tune(
            "run", "--device", "jetson-orin", "--cap", "7W", "--search", "cpu_freq_mhz,emc_freq_mhz", "--bursts", 3,
            "--strategy", "sobol", "--json",
        )  # fmt: skip
        assert set(result.json["trials"][0]["setting"]) == {
            "gpu_freq_mhz", "batch_size", "cpu_freq_mhz", "emc_freq_mhz"
        }  # fmt: skip

    def test_a_dry_run_measures_and_writes_nothing(self, tune: Tune, tmp_path: Path) -> None:
        result = tune("run", "--device", "jetson-orin", "--cap", "7W", "--dry-run")
        assert result.code == 0
        assert "would begin at" in result.out
        assert list(tmp_path.iterdir()) == []

    def test_a_cap_nothing_holds(self, tune: Tune) -> None:
        result = tune("run", "--device", "jetson-orin", "--cap", "3W")
        assert result.code == 1
        assert "lowest power seen is" in result.out
        assert "--search" in result.out
        assert not Path("frozen.json").exists()

    def test_values_that_only_some_presets_can_serve(self, tune: Tune) -> None:
        result = tune(
            "run", "--device", "jetson-orin", "--cap", "9W", "--bursts", 4, "--json",
            "--values", "gpu_freq_mhz=510,624.75",
        )  # fmt: skip
        assert {t["setting"]["gpu_freq_mhz"] for t in result.json["trials"]} <= {510, 624.75}

    def test_a_default_that_cannot_hold_the_cap_is_said_and_not_replaced(self, tune: Tune) -> None:
        options = ("--preset", "2C-730", "--search", "emc_freq_mhz", "--bursts", 16)
        document = tune("run", "--device", "jetson-orin", "--cap", "7W", *options, "--json").json
        assert document["default_setting"] == {"gpu_freq_mhz": 624.75, "batch_size": 32, "emc_freq_mhz": 2133}
        assert document["baseline"] is None
        assert "not likely to hold the cap" in tune("show", document["study"]).out

    def test_the_default_keeps_everything_but_its_clock(self, tune: Tune) -> None:
        options = ("--search", "emc_freq_mhz,cpu_freq_mhz", "--json")
        document = tune("run", "--device", "jetson-orin", "--cap", "7W", *options).json
        default, baseline = document["default_setting"], document["baseline"]
        assert baseline["slowed"] is True
        assert baseline["setting"]["gpu_freq_mhz"] < default["gpu_freq_mhz"]
        same = ("batch_size", "emc_freq_mhz", "cpu_freq_mhz")
        assert [baseline["setting"][name] for name in same] == [default[name] for name in same]
        assert "was lowered" in tune("show", document["study"]).out

    def test_a_noisy_space_of_one_setting(self, tune: Tune) -> None:
        only = ("--values", "batch_size=16", "--values", "gpu_freq_mhz=408")
        document = tune("run", "--device", "jetson-orin", "--cap", "12W", *only, "--json").json
        assert document["recommended"]["bursts"] == 2
        assert len(document["trials"]) == 2

    def test_a_user_workload(self, tune: Tune) -> None:
        Path("mine.py").write_text("from devices.agent.workloads.digits_cnn import digits_cnn as make\n")
        document = tune(
            "run", "--device", "jetson-orin", "--cap", "7W", "--workload", "mine.py:make", "--bursts", 8, "--json"
        ).json
        assert document["trials"][0]["throughput"] > 0

    def test_a_record_of_an_emulation_never_replays_as_a_measurement(self, tune: Tune) -> None:
        tune("run", "--device", "jetson-orin", "--cap", "7W", "--record", "record.csv", "--bursts", 6)
        assert read_profile("record.csv").metadata.provenance == "emulated"
        result = tune("run", "--replay", "record.csv", "--cap", "7W", "--json", "--study", "again")
        assert result.json["source"] == "emulated"


class TestReplay:
    def test_json(self, tune: Tune, profile: Path) -> None:
        result = tune("run", "--replay", profile, "--cap", "130W", "--json")
        document = result.json
        assert result.code == 0
        assert document["source"] == "replayed"
        assert document["cap"] == {"watts": 130.0, "statistic": "mean"}
        assert document["recommended"]["setting"] == {"power_limit_w": 125, "batch_size": 32}
        assert document["recommended"]["throughput"] == 125.0
        assert document["recommended"]["feasible_probability"] == 1.0

    def test_a_cap_below_everything_is_answered_with_no(self, tune: Tune, profile: Path) -> None:
        result = tune("run", "--replay", profile, "--cap", "20W", "--json")
        assert result.code == 1
        assert result.json["recommended"] is None
        assert result.json["frozen"] is None
        assert result.json["stopped"] == "infeasible"

    def test_a_cap_above_everything(self, tune: Tune, profile: Path) -> None:
        result = tune("run", "--replay", profile, "--cap", "1kW", "--json")
        assert result.json["recommended"]["setting"] == {"power_limit_w": 200, "batch_size": 32}

    def test_without_a_cap(self, tune: Tune, profile: Path) -> None:
        result = tune("run", "--replay", profile, "--json")
        assert result.json["cap"] is None
        assert result.json["recommended"]["throughput"] == 200.0

    def test_noise_is_confirmed(self, tune: Tune, profile: Path) -> None:
        result = tune(
            "run", "--replay", profile, "--cap", "140W", "--noise-throughput", 0.02, "--noise-power", 0.01, "--json"
        )
        assert result.json["recommended"]["bursts"] >= 2

    def test_a_record_passes_on_where_its_figures_come_from(self, tune: Tune, profile: Path) -> None:
        profile.write_text("# origin: a bench\n# licence: CC0\n" + profile.read_text())
        tune("run", "--replay", profile, "--cap", "140W", "--record", "plain.csv")
        plain = read_profile("plain.csv").metadata
        assert plain.origin is not None
        assert "a bench" in plain.origin
        assert (plain.licence, plain.provenance) == ("CC0", "measured")
        noise = ("--noise-throughput", 0.05, "--study", "noisy", "--record", "noisy.csv")
        tune("run", "--replay", profile, "--cap", "140W", *noise)
        noisy = read_profile("noisy.csv").metadata
        assert noisy.provenance == "emulated"
        assert "0.05 of throughput" in noisy.extra["noise"]

    def test_the_gain_over_the_default(self, tune: Tune, profile: Path) -> None:
        profile.write_text("# default_setting: power_limit_w=200, batch_size=8\n" + profile.read_text())
        document = tune("run", "--replay", profile, "--cap", "130W", "--json").json
        assert document["default_setting"] == {"power_limit_w": 200, "batch_size": 8}
        assert document["baseline"]["setting"] == {"power_limit_w": 125, "batch_size": 8}
        assert document["baseline"]["slowed"] is True
        assert "gain" in tune("show", document["study"]).out

    def test_values_restrict_the_search(self, tune: Tune, profile: Path) -> None:
        result = tune("run", "--replay", profile, "--values", "batch_size=8,16", "--strategy", "grid", "--json")
        assert {t["setting"]["batch_size"] for t in result.json["trials"]} == {8, 16}

    @pytest.mark.parametrize(("cap", "least"), [("125W", 0.98 * 0.5739), ("100W", 0.98 * 0.4482)])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_public_trace(self, tune: Tune, data_folder: Path, cap: str, least: float, seed: int) -> None:
        trace = data_folder / "zeus-nsdi23" / "summary_power_v100.csv"
        workload = "librispeech/deepspeech2/adamw"
        tune("profile", "import", "--from", "zeus", trace, "--workload", workload, "-o", "v100.csv")
        result = tune("run", "--replay", "v100.csv", "--cap", cap, "--seed", seed, "--json")
        assert result.code == 0
        assert result.json["throughput_unit"] == "epochs/h"
        assert result.json["recommended"]["throughput"] >= least
        assert result.json["recommended"]["power_w"] <= float(cap.rstrip("W"))


class TestStudies:
    def test_show_list_export(self, tune: Tune, profile: Path) -> None:
        ran = tune("run", "--replay", profile, "--cap", "130W", "--json", "--study", "mine").json
        assert tune("show", "mine", "--json").json == ran
        shown = tune("show", "mine")
        assert shown.code == 0
        assert "limit 125 W, batch 32" in shown.out
        rows = tune("list", "--json").json
        assert [row["study"] for row in rows] == ["mine"]
        assert rows[0]["recommended"]["setting"] == ran["recommended"]["setting"]
        assert "mine" in tune("list").out

        import yaml

        for what in ("mine", "frozen.json"):
            as_json = tune("export", what).json
            assert yaml.safe_load(tune("export", what, "--format", "yaml").out) == as_json
        table = tune("export", "mine", "--format", "csv").out
        Path("export.csv").write_text(table)
        assert len(read_profile("export.csv").rows) == len(ran["trials"])

    def test_nothing_feasible_is_shown_everywhere(self, tune: Tune, profile: Path) -> None:
        tune("run", "--replay", profile, "--cap", "20W", "--study", "none")
        assert tune("show", "none").code == 0
        assert "no feasible setting" in tune("show", "none").out
        assert tune("list").code == 0
        for form in ("json", "yaml", "csv"):
            assert tune("export", "none", "--format", form).code == 0

    def test_an_unfinished_study(self, tune: Tune, profile: Path) -> None:
        from tuner import Study
        from tuner.session import Request, open_request
        from tuner.store import open_store

        target = open_request(Request(replay=profile))
        with Study(target.device, target.workload, store=open_store(), name="half", cap_w=130) as study:
            (trial,) = study.ask()
            study.tell(trial, target.device.measure(trial.setting, target.workload, study.plan))
            study.ask()
        assert tune("show", "half", "--json").json["stopped"] is None
        assert "not finished" in tune("show", "half").out
        assert "unfinished" in tune("list").out

    def test_a_study_that_goes_on_has_no_answer_yet(self, tune: Tune, profile: Path) -> None:
        from tuner import Study
        from tuner.session import Request, open_request
        from tuner.store import open_store

        tune("run", "--replay", profile, "--cap", "130W", "--study", "more", "--strategy", "sobol", "--bursts", 4)
        target = open_request(Request(replay=profile))
        options: dict[str, Any] = {"store": open_store(), "name": "more", "cap_w": 130.0, "strategy": "sobol"}
        with Study(target.device, target.workload, **options) as study:
            study.ask()
        assert tune("list", "--json").json[0]["stopped"] is None
        assert tune("show", "more", "--json").json["stopped"] is None

    def test_an_export_of_a_noisy_replay_is_no_measurement(self, tune: Tune, profile: Path) -> None:
        profile.write_text("# origin: a bench\n# licence: CC0\n" + profile.read_text())
        noise = ("--noise-throughput", 0.05, "--study", "noisy", "--record", "record.csv")
        tune("run", "--replay", profile, "--cap", "140W", *noise)
        Path("export.csv").write_text(tune("export", "noisy", "--format", "csv").out)
        exported, recorded = read_profile("export.csv"), read_profile("record.csv")
        assert exported.rows == recorded.rows
        same = ("provenance", "licence", "origin", "default_setting", "device", "extra")
        assert [getattr(exported.metadata, k) for k in same] == [getattr(recorded.metadata, k) for k in same]

    def test_the_whole_budget_is_spent_and_a_larger_one_goes_on(self, tune: Tune, profile: Path) -> None:
        for bursts in (4, 9):
            options = ("--strategy", "sobol", "--study", "more", "--bursts", bursts, "--json")
            document = tune("run", "--replay", profile, "--cap", "130W", *options).json
            assert len(document["trials"]) == bursts
            assert document["stopped"] == "budget"

    def test_names_stay_whole_away_from_a_terminal(self, tune: Tune, profile: Path) -> None:
        name = "a-rather-long-name-" * 8
        tune("run", "--replay", profile, "--study", name, "--bursts", 4)
        assert name in tune("list").out

    def test_a_narrow_terminal_cuts_nothing(self, tune: Tune, profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        document = tune("run", "--replay", profile, "--cap", "130W", "--json").json
        console = Console(width=40, record=True, file=io.StringIO())
        console.print(result_table(document))
        console.print(trials_table(document))
        text = console.export_text()
        assert "…" not in text
        for word in ("recommended", "125", "default"):
            assert word in text.replace("\n", "")

    def test_yaml_numbers_stay_numbers(self) -> None:
        import yaml

        from tuner.library import format_document

        document = {"tiny": 1e-07, "large": 1e22, "no": 1, "on": [True, None, "no", "1.5"], "empty": [{}, []]}
        assert yaml.safe_load(format_document(document, "yaml")) == document

    def test_empty(self, tune: Tune) -> None:
        assert tune("list", "--json").json == []
        assert "no study yet" in tune("list").out

    def test_devices(self, tune: Tune) -> None:
        document = tune("devices", "--json").json
        here, entries = document[0], {entry["name"]: entry for entry in document}
        assert here["name"] == "cpu"
        assert {knob["name"] for knob in here["knobs"]} == {"batch_size", "cpu_threads"}
        assert here["source"] == "measured"
        assert "jetson-orin" in entries["jetson-orin-nano"]["aliases"]
        pi = entries["raspberry-pi-4"]
        assert pi["meter"] is None
        assert [(knob["name"], knob["extra"]) for knob in pi["knobs"]] == [
            ("cpu_freq_mhz", False),
            ("batch_size", False),
            ("cpu_cores", True),
        ]
        xavier = entries["jetson-agx-xavier"]  # in its default mode the GPU goes up to 670 MHz only
        assert xavier["knobs"][0]["values"][-1] == 1377
        assert xavier["presets"][0]["gpu_max_mhz"] == 670
        out = tune("devices").out
        for text in (
            "jetson-orin",
            "none, so no cap",
            "15W: 4 CPU cores at 1190.4 MHz, EMC at 1333 MHz, GPU at most 624.75",
        ):
            assert text in out

    def test_a_board_without_a_meter_refuses_a_cap_and_runs_without(self, tune: Tune) -> None:
        refused = tune("run", "--device", "raspberry-pi-4", "--cap", "5W", "--json")
        assert refused.code == 2
        assert "raspberry-pi-4 has no power meter, so no cap can be held" in refused.json["error"]["message"]
        done = tune("run", "--device", "rpi4", "--workload-arg", "image_size=32", "--bursts", "12", "--json").json
        assert done["source"] == "emulated"
        assert done["cap"] is None
        assert done["recommended"]["power_w"] is None
        assert set(done["recommended"]["setting"]) == {"cpu_freq_mhz", "batch_size"}

    @pytest.mark.parametrize(
        ("meter", "said"),
        [
            (
                "false",
                "(external meter (false): the external meter `false` gave no value: it ended with exit status 1)",
            ),
            ("echo hello", "the external meter `echo hello` says 'hello': no number of watts"),
        ],
    )
    def test_a_meter_that_gives_no_watts_is_told(self, meter: str, said: str, tune: Tune) -> None:
        refused = tune("run", "--device", "cpu", "--cap", "7W", "--meter", meter, "--json")
        assert refused.code == 2
        error = refused.json["error"]
        assert error["message"].startswith("cpu has no power meter that can be used (")
        assert error["message"].endswith("), so no cap can be held")
        assert said in error["message"]
        assert error["hint"].startswith("try it by hand")
        assert error["hint"].endswith(f": {meter}")

    @pytest.mark.parametrize("cap", [(), ("--cap", "5W")])
    @pytest.mark.parametrize("device", ["jetson-orin", "raspberry-pi-4"])
    def test_no_meter_measures_an_emulated_board(self, device: str, cap: tuple[str, ...], tune: Tune) -> None:
        refused = tune("run", "--device", device, "--emulate", "--meter", "echo 5", *cap, "--json")
        assert refused.code == 2
        assert "is emulated, so the meter 'echo 5' would measure another machine" in refused.json["error"]["message"]
        assert refused.json["error"]["hint"].startswith("leave --meter out")

    def test_what_is_advised_where_nothing_holds_the_cap_is_what_the_board_can_do(self, tune: Tune) -> None:
        done = tune("run", "--device", "raspberry-pi-5", "--cap", "3W", "--bursts", "6")
        assert done.code == 1
        assert "--search cpu_cores to slow more of the board" in done.out
