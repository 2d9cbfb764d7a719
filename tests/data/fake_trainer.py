"""A trainer without torch, for every Python: speaks the trainer's lines and behaves as its workload's name says."""

import json
import os
import select
import signal
import subprocess
import sys
import time


def send(number, **message):
    message["id"] = number
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


INFO = {"batch": 8, "learning_rate": 0.1, "optimizer": "SGD", "train_samples": 100, "test_samples": 0}


def stop_asked():
    if not select.select([sys.stdin], [], [], 0)[0]:
        return False
    line = sys.stdin.readline()
    return not line or json.loads(line)["request"] == "stop"


def burst(number, message):
    name = message["workload"]["spec"]
    threads = message["threads"] + (name == "stubborn threads")
    send(number, event={"steps": [], "threads": threads})
    step_s, t = 0.01, time.monotonic()
    for count in range(1000000):
        if count == 2:
            misbehave(name, number)
        steps = []
        for _ in range(10):
            t += step_s
            steps.append([t, step_s])
        send(number, event={"steps": steps, "threads": threads})
        if name == "real time":
            time.sleep(10 * step_s)
        if stop_asked():
            break
    send(number, reply={})


def misbehave(name, number):
    if name == "hangs":
        time.sleep(1000)
    elif name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "exits":
        sys.stderr.write("out of tea\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "bad_alloc":
        sys.stderr.write("terminate called after throwing an instance of 'std::bad_alloc'\n")
        sys.stderr.flush()
        os.abort()
    elif name == "segfaults":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif name == "raises":
        send(number, error={"kind": "crashed", "message": "ValueError: no good", "hint": None})
        os._exit(1)
    elif name == "oom":
        send(number, error={"kind": "oom", "message": "NvMapMemAllocInternalTagged: 1075072515 error 12", "hint": None})
        os._exit(1)
    elif name == "leaves children":
        for daemon in (False, True):
            child = subprocess.Popen(["sleep", "1234.5"], start_new_session=daemon)
            sys.stderr.write(f"child {child.pid}\n")
        sys.stderr.flush()
        os._exit(4)


def train(number, message):
    if message["workload"]["spec"] == "refuses":  # and takes its time to go
        send(number, error={"kind": "input", "message": "no such plan", "hint": None})
        time.sleep(0.5)
        os._exit(1)
    steps = message["plan"]["steps"]
    made = 0
    while made < steps:
        made += 1
        send(number, event={"phase": "train", "step": made, "steps": steps})
        time.sleep(0.05)
        if stop_asked():
            break
    send(number, reply={"steps": made, "finished": made == steps, "resumed": False})


def main():
    send(0, event={"ready": {"python": sys.version.split()[0], "torch": "none"}})
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        message = json.loads(line)
        number = message["id"]
        if message["request"] == "load":
            if message["workload"]["spec"] == "absent":
                send(number, error={"kind": "input", "message": "no workload is named 'absent'", "hint": None})
            elif message["workload"]["spec"] == "never loads":
                time.sleep(1000)
            else:
                send(number, reply=INFO)
        elif message["request"] == "burst":
            burst(number, message)
        elif message["request"] == "train":
            train(number, message)


if __name__ == "__main__":
    main()
