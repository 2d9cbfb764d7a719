"""What `tune run` says of the records it could learn from."""

from __future__ import annotations

from pathlib import Path

from tests.tuner.cli.conftest import Tune

EARLIER = "an earlier study of this device can be learned from: --prior "
SAME = "holds the very profile that is replayed"


def test_the_profile_that_is_replayed_is_no_prior(tune: Tune, profile: Path) -> None:
    lines = profile.read_text().splitlines()
    Path("copy.csv").write_text("\n".join(["# workload: other", *lines[2:3], *reversed(lines[3:])]) + "\n")
    result = tune("run", "--replay", profile, "--prior", "copy.csv", "--bursts", 4, "--study", "a")
    assert result.code in (0, 1)
    assert f"note: --prior copy.csv {SAME}" in "\n".join(result.out.splitlines()[:3])
    Path("other.csv").write_text(profile.read_text().replace("125,32,125", "125,32,126"))
    result = tune("run", "--replay", profile, "--prior", "other.csv", "--bursts", 4, "--study", "b")
    assert SAME not in result.out


def test_an_earlier_study_of_the_device_is_named(tune: Tune, profile: Path) -> None:
    first = ("run", "--replay", profile, "--cap", "130W", "--strategy", "sobol", "--bursts", 6, "--study", "first one")
    assert EARLIER not in tune(*first).out
    assert EARLIER not in tune(*first).out  # finished
    assert EARLIER not in tune(*first, "--fresh").out  # the same question
    second = ("run", "--replay", profile, "--cap", "140W", "--strategy", "sobol", "--bursts", 6, "--study", "second")
    assert f"note: {EARLIER}'first one'" in tune(*second).out.splitlines()
    assert EARLIER not in tune(*second).out
    third = ("run", "--replay", profile, "--cap", "150W", "--strategy", "sobol", "--bursts", 6)
    assert f"note: {EARLIER}second" in tune(*third, "--study", "third").out.splitlines()  # the newest
    assert EARLIER not in tune(*third, "--study", "learnt", "--prior", "second").out
    result = tune("run", "--replay", profile, "--cap", "145W", "--bursts", 4, "--study", "document", "--json")
    assert result.json["study"] == "document"
    assert EARLIER not in result.out + result.err


def test_a_study_of_another_device_is_not(tune: Tune, profile: Path) -> None:
    tune("run", "--replay", profile, "--cap", "130W", "--bursts", 6)
    profile.write_text(profile.read_text().replace("Bench GPU", "Another GPU"))
    assert EARLIER not in tune("run", "--replay", profile, "--cap", "140W", "--bursts", 6).out


def test_a_study_does_not_learn_from_itself(tune: Tune, profile: Path) -> None:
    """Set aside by --fresh, the record would be gone under its name when the study is resumed."""
    run = ("run", "--replay", profile, "--cap", "130W", "--strategy", "sobol", "--bursts", 4)
    tune(*run, "--study", "mine")
    for again in ((*run, "--study", "mine"), (*run, "--study", "mine", "--fresh")):
        result = tune(*again, "--prior", "mine")
        assert result.code == 2
        assert "the study 'mine' cannot learn from itself" in result.err
        assert "--study 'mine-2'" in result.err
    tune(*run)
    name = tune("list").out.split()
    (default,) = [word for word in name if word.endswith("-130W")]
    assert "cannot learn from itself" in tune(*run, "--fresh", "--prior", default).err
    assert tune(*run, "--study", "mine-2", "--prior", "mine").code in (0, 1)


def test_the_same_workload_is_named_first_and_then_the_longest(tune: Tune, profile: Path) -> None:
    run = ("run", "--replay", profile, "--strategy", "sobol")
    text = profile.read_text()
    profile.write_text(text.replace("# workload: toy", "# workload: cats"))
    assert "cats" in profile.read_text()
    tune(*run, "--cap", "120W", "--bursts", 8, "--study", "other")
    profile.write_text(text)
    found = tune(*run, "--cap", "130W", "--bursts", 7, "--study", "long")
    assert "device, though of another workload (cats-net), can be learned from: --prior other\n" in found.out
    tune(*run, "--cap", "135W", "--bursts", 5, "--study", "short")
    assert f"note: {EARLIER}long" in tune(*run, "--cap", "140W", "--bursts", 5, "--study", "next").out.splitlines()
