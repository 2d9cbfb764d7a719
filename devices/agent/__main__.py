"""`python tuner_agent.pyz serve`: the agent. `... trainer PID`: its child; `... guardian ROOT PID`: who outlives it."""

import sys
from typing import List


def main(arguments: List[str]) -> int:
    """Run what the arguments name; the exit status."""
    if arguments[:1] == ["trainer"] and len(arguments) == 2:
        from .trainer.main import main as train

        return train(int(arguments[1]))
    if arguments[:1] == ["guardian"] and len(arguments) == 3:
        from .guardian import guard

        return guard(arguments[1], int(arguments[2]))
    if arguments[:1] == ["serve"] and len(arguments) <= 2:
        from .session import serve

        return serve(*arguments[1:])
    sys.stderr.write("usage: tuner_agent.pyz serve [SYSFS_ROOT]\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
