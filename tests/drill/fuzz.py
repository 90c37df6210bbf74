"""Fuzzing in a process of its own: a crash, a hang or a swollen memory is a finding, not the end.

    python -m tests.drill.fuzz files npz 0 500

runs cases 0 to 499 of damaged `.npz` files and prints what came of them as JSON. A case is a function of its
kind and its number, so that everything that ever failed can be kept as a pair of them.
"""

import json
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.errors import GmmatchError

SECONDS = 10
MOST_BYTES = 400 << 20  # that a case may take beyond what there was


class TooLong(BaseException):
    """A case took longer than it may."""


def generator(kind: str, number: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(kind.encode()), number])


def file_case(kind: str, number: int, folder: Path, valid: Any) -> None:
    """Open a file of which some bytes are wrong."""
    from . import files

    name, _, opened = files.KINDS[kind]
    rng = generator(kind, number)
    path = folder / name
    if isinstance(valid, dict):
        path.mkdir()
        chosen = sorted(valid)[int(rng.integers(len(valid)))]
        for each, content in valid.items():
            (path / each).write_bytes(files.damage(content, rng) if each == chosen else content)
    else:
        path.write_bytes(files.damage(valid, rng))
    opened(path, number)


class Limits:
    """Runs cases, each in a folder of its own, and tells what ended in anything but a result or our error."""

    def __init__(self, kind: str, mark: Path) -> None:
        self.kind, self.mark, self.cases, self.results = kind, mark, 0, 0
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.room = Path(tempfile.mkdtemp(prefix="gmmatch-fuzz-", dir=base))
        # Of the process's own time: on a busy machine a case may wait long without being slow.
        signal.signal(signal.SIGPROF, _too_long)

    def run(self, case: Callable[[Path], None]) -> None:
        """Run a case; raise what is wrong with it."""
        self.cases += 1
        self.mark.write_text(str(self.cases))  # what a crash leaves to be read
        folder = self.room / str(self.cases)
        folder.mkdir()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            case(folder)
            self.results += 1
        except GmmatchError as error:
            if "\n" in str(error) or not str(error):
                raise AssertionError(f"not one sentence: {error!r}") from error
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            shutil.rmtree(folder)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        assert grown <= MOST_BYTES, f"took {grown >> 20} MB"


def _too_long(number: int, frame: Any) -> None:
    raise TooLong(f"more than {SECONDS} s")


def run_files(kind: str, first: int, count: int, limits: Limits) -> list[str]:
    from . import files

    files.FOLDER = limits.room
    valid, wrong = files.KINDS[kind][1](), []
    for number in range(first, first + count):
        try:
            limits.run(lambda folder, number=number: file_case(kind, number, folder, valid))
        except (Exception, TooLong):
            wrong.append(f"{kind} {number}: {traceback.format_exc(limit=-3)}")
    return wrong


def run_calls(kind: str, first: int, count: int, limits: Limits) -> list[str]:
    from . import calls

    try:
        calls.run(kind, first, count, limits.run)
    except (Exception, TooLong) as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        return [f"{kind} {first}: {traceback.format_exc(limit=-3)}\n{notes}"]
    return []


def main(sort: str, kind: str, first: int, count: int, mark: Path) -> None:
    warnings.simplefilter("error")
    # Former ways are tried too; that they go is no fault.
    warnings.filterwarnings("ignore", ".*the former way goes with 0.4", DeprecationWarning)
    limits = Limits(kind, mark)
    try:
        run = run_files if sort == "files" else run_calls
        wrong = run(kind, first, count, limits)
    finally:
        shutil.rmtree(limits.room, ignore_errors=True)
    print(json.dumps({"cases": limits.cases, "results": limits.results, "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
