from __future__ import annotations

import pytest

from devices.errors import InputError
from tuner.units import joules, number, parse_frequency_mhz, parse_knob_value, parse_power_w, seconds, watts


@pytest.mark.parametrize("text", ["7", "7W", "7 W", "7.0w", "7000mW", "0.007kW", "7e0W"])
def test_seven_watts(text: str) -> None:
    assert parse_power_w(text) == pytest.approx(7.0)


@pytest.mark.parametrize(
    "text", ["seven", "-3W", "0W", "nanW", "nan", "infW", "", "W", "7V", "7W7", "1..2W", "1e999", "7 W W"]
)
def test_no_power(text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_power_w(text)
    assert error.value.hint


@pytest.mark.parametrize("text", ["510", "510MHz", "0.51GHz", "510000kHz", "510000000Hz"])
def test_frequency(text: str) -> None:
    assert parse_frequency_mhz(text) == pytest.approx(510.0)


def test_knob_values_take_the_unit_of_their_name() -> None:
    assert parse_knob_value("gpu_freq_mhz", "1GHz") == 1000
    assert parse_knob_value("power_limit_w", "150W") == 150
    assert parse_knob_value("batch_size", "16") == 16
    with pytest.raises(InputError):
        parse_knob_value("batch_size", "16W")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (watts(7), "7 W"),
        (watts(6.9612, 3), "6.96 W"),
        (watts(7000), "7 kW"),
        (joules(0.25), "0.25 J"),
        (joules(850), "850 J"),
        (joules(999.6), "1.0 kJ"),
        (joules(17_500_000), "17.5 MJ"),
        (seconds(4.26), "4 s"),
        (seconds(119.7), "2.0 min"),
        (seconds(7200), "2.0 h"),
        (number(2.0), "2"),
        (number(1510.4), "1510.4"),
        (number(True), "True"),
        (number("15W"), "15W"),
    ],
)
def test_quantities_as_people_read_them(text: str, wanted: str) -> None:
    assert text == wanted
