"""A meter of the user's own, by command and by HTTP."""

from __future__ import annotations

import http.server
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devices.agent.clock import Clock
from devices.agent.meter import MeterFault
from devices.agent.meters import find_meter
from devices.agent.meters.external import ExternalMeter, parse_watts
from devices.agent.sysfs import SysFs
from tests.devices.agent.trees import plant


class LaterClock(Clock):
    """The machine's clock, put forward by hand."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


def shell(script: str) -> str:
    return "sh -c " + shlex.quote(script)


@pytest.fixture
def meters() -> Iterator[list[ExternalMeter]]:
    opened: list[ExternalMeter] = []
    yield opened
    for meter in opened:
        meter.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "external meter"]


def opened(meters: list[ExternalMeter], source: str, clock: Clock | None = None) -> ExternalMeter:
    meters.append(ExternalMeter(source, clock or Clock()))
    return meters[-1]


def is_gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(("text", "watts"), [("7", 7.0), (" 7.25 \r", 7.25), ("+.5", 0.5), ("1.2e1", 12.0), ("0", 0.0)])
def test_numbers(text: str, watts: float) -> None:
    assert parse_watts(text, "x") == watts


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999", "-3", "7 W", "1_0", "7,5", "٧", "0x7", "<html>"])
def test_what_is_no_number_of_watts(text: str) -> None:
    with pytest.raises(MeterFault, match="no number of watts"):
        parse_watts(text, "x")


def test_a_command_that_runs_on(meters: list[ExternalMeter], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    script = f"echo run >> {shlex.quote(str(runs))}; n=1; while true; do echo $n.5; n=$((n+1)); sleep 0.05; done"
    meter = opened(meters, shell(script))
    first, _ = meter.read()
    time.sleep(0.3)
    assert meter.read()[0] > first  # the last line, not the next one
    assert runs.read_text() == "run\n"
    assert meter.total == ["external"]


def test_a_command_that_ends_runs_anew(meters: list[ExternalMeter], tmp_path: Path) -> None:
    count = shlex.quote(str(tmp_path / "count"))
    meter = opened(meters, shell(f"n=$(cat {count} 2>/dev/null || echo 0); n=$((n+1)); echo $n > {count}; printf $n"))
    seen = []
    for _ in range(3):
        seen.append(meter.read()[0])
        time.sleep(0.2)
    assert seen == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (shell("echo garbage; sleep 20"), "says 'garbage': no number of watts"),
        (shell("echo -5; sleep 20"), "says '-5'"),
        (shell("printf '5\\n\\n'; sleep 20"), "says an empty line"),
        (shell("echo 0; sleep 20"), "reads 0 W: no meter of a running machine does"),
        (shell("echo no such meter >&2; exit 3"), "ended with exit status 3; its last words: no such meter"),
        ("true", "ended with exit status 0"),
        ("no-such-program --watts", "cannot be started: No such file or directory"),
    ],
)
def test_commands_that_give_no_watts(source: str, reason: str, meters: list[ExternalMeter]) -> None:
    meter = opened(meters, source)
    with pytest.raises(MeterFault, match=reason) as caught:
        meter.read()
    assert getattr(caught.value, "mend", "").startswith("try it by hand")
    assert meter.describe()[0]["watts"] is None


def test_a_value_grows_stale(meters: list[ExternalMeter]) -> None:
    clock = LaterClock()
    meter = opened(meters, shell("echo 5; sleep 20"), clock)
    assert meter.read()[0] == 5.0
    clock.ahead_s = 1.5
    assert meter.read()[0] == 5.0
    clock.ahead_s = 3.0
    with pytest.raises(MeterFault, match=r"gave no value for 3\.\d s"):
        meter.read()


def test_a_command_that_says_nothing(meters: list[ExternalMeter]) -> None:
    began = time.monotonic()
    with pytest.raises(MeterFault, match=r"gave no value for 2\.\d s"):
        opened(meters, "sleep 20").read()
    assert 1.9 < time.monotonic() - began < 5


def test_close_ends_the_whole_group(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = f"sleep 60 & echo $! $$ > {shlex.quote(str(file))}; while true; do echo 5; sleep 0.1; done"
    meter = ExternalMeter(shell(script), Clock())
    meter.read()
    pids = [int(word) for word in file.read_text().split()]
    assert os.getpgid(pids[0]) == os.getpgid(pids[1]) != os.getpgid(0)
    meter.close()
    meter.close()
    assert all(is_gone(pid) for pid in pids)
    assert meter.read()[0] == 5.0  # and starts again where it is wanted
    meter.close()


def test_much_output_is_no_trouble(meters: list[ExternalMeter]) -> None:
    script = "import sys, time\nfor i in range(200000): print(i + 1)\nprint('x' * 100000, 9)\nsys.stdout.flush()\n"
    script += "sys.stderr.write('y' * 200000)\nprint(4.5, flush=True)\ntime.sleep(20)\n"
    meter = opened(meters, shlex.join([sys.executable, "-c", script]))
    for _ in range(200):
        try:
            if meter.read()[0] == 4.5:
                return
        except MeterFault:
            pass
        time.sleep(0.02)
    pytest.fail("the last line never came")


def test_output_without_pause_is_looked_at_now_and_then(meters: list[ExternalMeter]) -> None:
    paused, go_on = threading.Event(), threading.Event()

    class Pausing(Clock):
        def sleep(self, seconds: float) -> None:
            if threading.current_thread() is threading.main_thread():
                super().sleep(seconds)
            else:
                paused.set()
                go_on.wait()

    meter = opened(meters, "yes 5", Pausing())
    assert meter.read()[0] == 5.0
    assert paused.wait(5)  # before the next look at a pipe that is full again
    assert meter.read()[0] == 5.0
    go_on.set()


@pytest.mark.parametrize("script", ["trap '' PIPE; while :; do echo 5; sleep 0.1; done", "echo 5; exec sleep 60"])
def test_a_command_ends_with_an_agent_that_is_killed(script: str, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    agent = (
        "import sys, time\n"
        "from devices.agent.clock import Clock\n"
        "from devices.agent.meters.external import ExternalMeter\n"
        "print(ExternalMeter(sys.argv[1], Clock()).read()[0], flush=True)\n"
        "time.sleep(60)\n"
    )
    source = shell(f"echo $$ > {shlex.quote(str(file))}; {script}")
    with subprocess.Popen([sys.executable, "-c", agent, source], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"5.0\n"
        pid = int(file.read_text())
        os.kill(pid, 0)
        process.send_signal(signal.SIGKILL)
    assert is_gone(pid)


class Plug(http.server.BaseHTTPRequestHandler):
    """A plug that answers with the server's `text` and `status`."""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, PlugServer)
        server.asked += 1
        self.send_response(server.status)
        if server.elsewhere:
            self.send_header("Location", server.elsewhere.pop())
        self.end_headers()
        self.wfile.write(server.text)

    def log_message(self, format: str, *args: object) -> None:
        pass


class PlugServer(http.server.HTTPServer):
    text = b"6.5\n"
    status = 200
    asked = 0
    elsewhere: list[str] = []  # noqa: RUF012


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlugServer]:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # not asked: the plug is in the local network
    server = PlugServer(("127.0.0.1", 0), Plug)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_address(plug: PlugServer) -> None:
    clock = LaterClock()
    meter = ExternalMeter(f"http://127.0.0.1:{plug.server_port}/watts", clock)
    assert meter.read()[0] == 6.5
    plug.text = b"7.5"
    assert meter.read()[0] == 6.5  # asked twice a second at most
    assert plug.asked == 1
    clock.ahead_s += 0.6
    assert meter.read()[0] == 7.5
    for text, status, reason in (
        (b"", 200, "an empty line"),
        (b"-1", 200, "says '-1'"),
        (b'{"power": 7}', 200, "no number of watts"),
        (b"\xff\xfe", 200, "no number of watts"),
        (b"7", 404, "answers 404 Not Found"),
        (b"0", 200, "reads 0 W"),
    ):
        plug.text, plug.status = text, status
        clock.ahead_s += 0.6
        with pytest.raises(MeterFault, match=reason):
            meter.read()
    plug.text, plug.status = b"8", 200
    clock.ahead_s += 0.6
    assert meter.read()[0] == 8.0
    meter.close()


def test_an_address_that_says_where_else(plug: PlugServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlugServer, "elsewhere", ["/b", "/a"])
    plug.status = 302
    meter = ExternalMeter(f"http://127.0.0.1:{plug.server_port}/", Clock())
    with pytest.raises(MeterFault, match="answers 302 Found"):  # at last without saying where
        meter.read()
    assert plug.asked == 3


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_address_that_drips(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devices.agent.meters.external.STALE_S", 0.2)
    served: list[bool] = []

    def drip() -> None:
        connection, _ = server.accept()
        with connection:
            try:
                connection.sendall(said)
                for _ in range(200):
                    connection.sendall(b"5")
                    time.sleep(0.05)
            except OSError:
                served.append(True)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip)
        thread.start()
        meter = ExternalMeter(f"http://127.0.0.1:{server.getsockname()[1]}/", Clock())
        with pytest.raises(MeterFault, match="does not answer: no whole answer within"):
            meter.read()
        thread.join(5)
    assert served  # the connection was given up


def test_an_address_without_a_server(plug: PlugServer) -> None:
    port = plug.server_port
    plug.server_close()
    with pytest.raises(MeterFault, match="does not answer"):
        ExternalMeter(f"http://127.0.0.1:{port}/", Clock()).read()
    with pytest.raises(MeterFault, match="does not answer"):
        ExternalMeter("http://[bad", Clock()).read()


def test_it_is_the_meter_when_it_is_named(tmp_path: Path) -> None:
    meter, problems = find_meter(SysFs("/"), Clock(), "echo 5")
    assert meter is not None
    assert problems == []
    assert meter.name == "external meter (echo 5)"
    meter.close()
    meter, problems = find_meter(SysFs("/"), Clock(), "true")
    assert meter is not None
    assert problems[0].mend == "try it by hand, it must give a number of watts at least every 2 s: true"
    meter.close()
    pid = tmp_path / "pid"
    meter, problems = find_meter(SysFs("/"), Clock(), shell(f"echo $$ > {pid}; echo garbage; exec sleep 60"))
    assert "says 'garbage'" in problems[0].what
    assert is_gone(int(pid.read_text()))  # what does not measure is not left running
    for source, reason in (("", "is empty"), ("echo 'x", "echo 'x, is no command line: No closing quotation")):
        meter, problems = find_meter(SysFs("/"), Clock(), source)
        assert meter is None
        assert reason in problems[0].what


def test_no_command_answers_for_files_of_another_board(tmp_path: Path) -> None:
    meter, problems = find_meter(plant("orin-nano-jp5", tmp_path), Clock(), f"touch {tmp_path}/touched")
    assert meter is not None
    assert meter.total == ["VDD_IN"]
    assert "an external meter cannot measure" in problems[0].what
    assert not (tmp_path / "touched").exists()
