from __future__ import annotations

from pathlib import Path

import pytest

from devices.errors import InputError, UnsupportedError
from tests.tuner.arena.scripted import HAND, make_profile
from tuner.arena import CapSpec, parse_caps


def test_watts_and_shares(tmp_path: Path) -> None:
    profile = make_profile(HAND, tmp_path)
    caps = parse_caps("7W,6500mW, 25%,50 %,100%,7,0.25e2%")
    assert caps[:2] == (CapSpec(watts=7.0), CapSpec(watts=6.5))
    assert [cap.resolve(profile, "hand") for cap in caps] == [7.0, 6.5, 6.0, 8.0, 12.0]  # each once
    assert [str(cap) for cap in caps] == ["7 W", "6.5 W", "25 %", "50 %", "100 %"]


@pytest.mark.parametrize(
    "text", ["", "7W,", "0%", "0W", "-5%", "101%", "7%%", "%", "nan%", "inf%", "7V", "seven", "7 W %"]
)
def test_what_is_no_cap(text: str) -> None:
    with pytest.raises(InputError, match="--cap") as error:
        parse_caps(text)
    assert error.value.hint


def test_a_share_of_a_power_that_is_not_recorded(tmp_path: Path) -> None:
    profile = make_profile("batch_size,throughput,power_p95_w,status\n1,1,5,ok\n2,2,6,ok\n", tmp_path)
    with pytest.raises(UnsupportedError, match=r"hand.csv records no power_mean_w"):
        CapSpec(share=0.5).resolve(profile, "hand.csv")


def test_a_share_that_comes_to_no_power_at_all(tmp_path: Path) -> None:
    profile = make_profile("batch_size,throughput,power_mean_w,status\n1,1,0,ok\n2,2,0,ok\n", tmp_path)
    with pytest.raises(InputError, match=r"--cap 50 % of the power_mean_w of hand.csv \(0 W to 0 W\) is 0 W"):
        CapSpec(share=0.5).resolve(profile, "hand.csv")
