"""The Raspberry Pi 5, by what its command prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from devices.agent.meter import Meter, MeterFault
from devices.agent.meters.pmic import COMMAND, find_pmic, parse, run_command
from devices.agent.sysfs import SysFs
from tests.devices.agent.meters.clocks import StoppedClock
from tests.devices.agent.trees import plant, put

BUSY = """\
    3V7_WL_SW_A current(0)=0.09368929A
      3V3_SYS_A current(1)=0.08783370A
      1V8_SYS_A current(2)=0.18054710A
     DDR_VDD2_A current(3)=0.22543980A
     DDR_VDDQ_A current(4)=0.06666720A
      1V1_SYS_A current(5)=0.17566740A
       0V8_SW_A current(6)=0.37670900A
     VDD_CORE_A current(7)=6.22421000A
      3V3_DAC_A current(17)=0.00006105A
      3V3_ADC_A current(18)=0.00036630A
      0V8_AON_A current(16)=0.00305250A
         HDMI_A current(22)=0.02417580A
    3V7_WL_SW_V volt(8)=3.69977600V
      3V3_SYS_V volt(9)=3.31003300V
      1V8_SYS_V volt(10)=1.80512600V
     DDR_VDD2_V volt(11)=1.10476100V
     DDR_VDDQ_V volt(12)=0.60146460V
      1V1_SYS_V volt(13)=1.11025500V
       0V8_SW_V volt(14)=0.80146440V
     VDD_CORE_V volt(15)=0.86173300V
      3V3_DAC_V volt(20)=3.31318300V
      3V3_ADC_V volt(21)=3.30677300V
      0V8_AON_V volt(19)=0.80029220V
         HDMI_V volt(23)=5.08664000V
        EXT5V_V volt(24)=5.09066000V
         BATT_V volt(25)=0.00000000V
"""


class OnTheBoard(SysFs):
    """As under `/`, where commands may answer."""

    @property
    def real(self) -> bool:
        return True


class Answers:
    """A runner that gives what it is told to."""

    def __init__(self, text: str, status: int = 0) -> None:
        self.text = text
        self.status = status
        self.runs = 0

    def __call__(self, words: list[str]) -> tuple[int, str]:
        assert words == COMMAND
        self.runs += 1
        return self.status, self.text


@pytest.fixture
def board(tmp_path: Path) -> OnTheBoard:
    plant("rpi5", tmp_path)
    return OnTheBoard(str(tmp_path))


def found(board: SysFs, answers: Answers, clock: StoppedClock) -> Meter:
    meter, problems = find_pmic(board, clock, answers)
    assert meter is not None
    assert problems == []
    return meter


def test_rails_are_paired_by_name() -> None:
    rails_w = parse(BUSY)
    assert len(rails_w) == 12
    assert sum(rails_w.values()) == pytest.approx(7.240, abs=5e-4)
    assert rails_w["VDD_CORE"] == pytest.approx(6.22421 * 0.861733)
    assert rails_w["0V8_AON"] == pytest.approx(0.0030525 * 0.8002922)  # current(16), volt(19)


def test_the_total_is_estimated_and_says_so(board: OnTheBoard) -> None:
    meter = found(board, Answers(BUSY), StoppedClock())
    total_w, rails = meter.read()
    assert total_w == pytest.approx(8.88, abs=5e-3)
    assert len(rails) == 13
    assert "1.1451 x sum of 12 rails + 0.5879 W, a calibration found by users" in (meter.note or "")


def test_one_command_answers_for_all_rails_for_half_a_second(board: OnTheBoard) -> None:
    answers, clock = Answers(BUSY), StoppedClock()
    meter = found(board, answers, clock)
    meter.read()
    meter.describe()
    assert answers.runs == 1
    clock.sleep(0.6)
    answers.text = BUSY.replace("6.22421", "3.11210")
    assert meter.read()[0] == pytest.approx(1.1451 * (7.240 - 3.1121 * 0.861733) + 0.5879, abs=5e-3)
    assert answers.runs == 2


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("", 0, "it says: nothing"),
        ('error=1 error_msg="Command not registered"', 0, "Command not registered"),
        ("Can't open device file: /dev/vcio", 255, "exit status 255"),
        (BUSY, 1, "exit status 1"),
        (BUSY.replace("VDD_CORE_A", "OTHER_A"), 0, "gives 11 rails"),
        (BUSY.replace("6.22421000A", "nanA"), 0, "gives 11 rails"),
    ],
)
def test_answers_that_are_none(text: str, status: int, reason: str, board: OnTheBoard) -> None:
    meter, problems = find_pmic(board, StoppedClock(), Answers(text, status))
    assert meter is None
    assert reason in problems[0].what
    assert problems[0].mend


def test_zeros_are_a_fault_not_the_offset(board: OnTheBoard) -> None:
    lines = BUSY.splitlines()
    zeros = "\n".join(line.split("=")[0] + "=0.00000000" + line[-1] for line in lines)
    meter = found(board, Answers(zeros), StoppedClock())
    with pytest.raises(MeterFault, match="read 0 W"):
        meter.read()


def test_a_command_that_is_not_there(board: OnTheBoard, tmp_path: Path) -> None:
    def missing(words: list[str]) -> tuple[int, str]:
        raise FileNotFoundError(2, "No such file or directory", words[0])

    meter, problems = find_pmic(board, StoppedClock(), missing)
    assert meter is None
    assert "`vcgencmd pmic_read_adc` cannot be run: No such file or directory" in problems[0].what
    assert "--device /dev/vcio" in problems[0].mend  # the tree has none, as a container
    put(tmp_path, "dev/vcio", "")
    _, problems = find_pmic(board, StoppedClock(), missing)
    assert "raspi-utils" in problems[0].mend


def test_the_group_that_may_ask(board: OnTheBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnTheBoard, "refusal", lambda self, name: 13 if name == "/dev/vcio" else None)
    _, problems = find_pmic(board, StoppedClock(), Answers("VCHI initialization failed", 255))
    assert "sudo usermod -aG video $USER" in problems[0].mend


def test_under_another_root_no_command_answers(tmp_path: Path) -> None:
    answers = Answers(BUSY)
    meter, problems = find_pmic(plant("rpi5", tmp_path), StoppedClock(), answers)
    assert meter is None
    assert answers.runs == 0
    assert str(tmp_path) in problems[0].what


def test_a_pi_4_measures_nothing(tmp_path: Path) -> None:
    put(tmp_path, "proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0")
    answers = Answers(BUSY)
    assert find_pmic(OnTheBoard(str(tmp_path)), StoppedClock(), answers) == (None, [])
    assert answers.runs == 0


def test_running_a_command() -> None:
    assert run_command(["sh", "-c", "echo out; echo error >&2; exit 3"]) == (3, "out\nerror\n")
    with pytest.raises(OSError, match="no-such-program"):
        run_command(["no-such-program"])


def test_a_command_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devices.agent.meters.pmic._TIMEOUT_S", 0.2)
    with pytest.raises(OSError, match="no answer within"):
        run_command(["sleep", "20"])
