"""The agent: runs on the board. Standard library only, Python 3.6 syntax; its trainer child adds torch, nothing else.

It is shipped as one zipapp (`devices.archive`), started as `python tuner_agent.pyz serve`, and talks JSON lines: one
object a line, on standard input and output. A request has an `id`, the answer and everything streamed before it
repeat that `id`:

    {"id": 1, "request": "hello", "protocol": 1, "device": "cpu"}
    {"id": 1, "reply": {...}}
    {"id": 1, "event": {...}}                                             streamed, at most twice a second
    {"id": 1, "error": {"kind": "input", "message": "...", "hint": "..."}}

| request   | with                                        | answers                                             |
|-----------|---------------------------------------------|-----------------------------------------------------|
| `hello`   | `protocol`, `device`, `workload` (or null), | `protocol`, `agent`, `python`, `pid`, `boot_id`,    |
|           | `python`, `start_up_s`, `meter` (optional)  | `device`; with a workload `trainer` and `workload`  |
| `apply`   | `setting`                                   | `applied`, and `fault`: how it does not hold        |
| `read`    | `cap_w` (or null), `statistic`              | the meter and what slows the board, as seen since   |
|           |                                             | the first `read` after any other request            |
| `burst`   | `workload`, `setting`, `plan`               | `measurement`                                       |
| `train`   | `workload`, `plan`                          | `result`                                            |
| `abort`   |                                             | nothing: the running burst or training answers      |
| `doctor`  | `trainer` (true: start it), `python`        | `report`: what the machine is, what is wrong        |
| `recover` |                                             | `restored`: what a killed agent had left            |
| `restore` |                                             | `restored`: the knobs put back                      |
| `bye`     |                                             | nothing: the agent restores and ends                |

One request at a time, except `abort`. Kinds of errors: `input` (what was asked for cannot be), `device` (the machine,
its Python), `store` (a file that could not be written); any other (`oom`, `crashed`, ...) says how a training failed. A
failed burst is no error: its `measurement` has a status. End of input ends a burst or training and restores. The
trainer child speaks the same lines with the agent, through pipes of its own.
"""

PROTOCOL = 1
ALIVE = {"phase": "alive"}  # the event that only says: the agent is there, its trainer is thinking
VERSION = "0.1.0"
