"""Run a command that is killed in the middle of a phase: `python -m tests.cluster.ended PHASE select ...`."""

import os
import signal
import sys
from contextlib import contextmanager

from gmmatch import checkpoints, cli, progress
from gmmatch.matching import stream


def main(phase: str, words: list[str]) -> None:
    @contextmanager
    def listener(name, total):
        done = 0

        def advance(count):
            nonlocal done
            done += count
            if name == phase and done > total / 2:
                os.kill(os.getpid(), signal.SIGKILL)

        yield advance

    checkpoints._SECONDS_BETWEEN_SAVES, checkpoints._TIMES_AS_LONG = -1.0, 0
    stream.SEGMENT_ROWS = 1
    sys.argv = ["gmmatch", *words]
    with progress.listen(listener):
        cli.main()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
