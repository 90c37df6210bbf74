"""Run a command of `gmmatch` that gets a signal before or after the n-th file takes its place.

    python -m tests.drill.killed 3 after KILL select rows.npy --keep 10%

States are saved as often as they can be, so that the kills fall inside the picks.
"""

import os
import signal
import sys
from typing import Any

from gmmatch import checkpoints, cli
from gmmatch.matching import stream

_PLACE = os.replace


def main(number: int, when: str, name: str, words: list[str]) -> None:
    done = 0

    def place(source: Any, target: Any) -> None:
        nonlocal done
        done += 1
        if (done, when) == (number, "before"):
            os.kill(os.getpid(), signal.Signals[f"SIG{name}"])
        _PLACE(source, target)
        if (done, when) == (number, "after"):
            os.kill(os.getpid(), signal.Signals[f"SIG{name}"])

    os.replace = place
    checkpoints._SECONDS_BETWEEN_SAVES = -1.0
    checkpoints._TIMES_AS_LONG = 0
    stream.SEGMENT_ROWS = 1
    sys.argv = ["gmmatch", *words]
    cli.main()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
