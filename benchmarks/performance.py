"""How fast it is: beside version 0.2.0, its peers, and what the machine can do at all.

``make bench`` (``python -m benchmarks.performance --scale full``) measures every line of the table of
docs/results/performance.md, and writes the page, its picture and performance.json. All columns of a line are
measured in one run and take turns, each in a process of its own; the first turn of each is not counted, so
that neither start-up nor compilation decides. ``--scale small`` takes minutes, and replaces the page only
where there is none of a full run; its ratios are those that CI compares. ``--before FOLDER``, a
checkout of version 0.2.0, adds it to the lines; it needs numba. Finished lines are kept in out/bench until
all are, and not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import select
import shutil
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from tools.check_figures import digest

from . import _data, _performance_page
from ._lines import SCALES, Column, Line, lines

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PEERS = ("numpy", "scipy", "scikit-learn", "cleanlab", "coreax", "jax", "apricot-select",
         "submodlib-py", "geom-median")  # fmt: skip
TURNS, MOST_TURNS, ENOUGH = 3, 10, 5.0  # counted turns of a column; more until so many seconds are spent
PATIENCE = 120.0  # a column that has taken so many seconds is not asked again
LONGEST = 600.0  # no answer in so many seconds is none
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONDONTWRITEBYTECODE")


class Worker:
    """A process that does the work of one column whenever it is asked."""

    def __init__(self, column: Column, folder: Path, sources: Path, log: Path) -> None:
        self.column, self.seconds, self.info, self.peak = column, [], {}, 0
        self.missing: str | None = None
        environment = {name: value for name, value in os.environ.items() if name not in _THREADS}
        environment["PYTHONPATH"] = str(sources)
        options = json.dumps(column.options)
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks._works", column.work, str(folder), options],
                cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                bufsize=0)  # fmt: skip

    def hear(self) -> dict[str, Any]:
        """Wait for the next answer, watching the memory that is no file's; note a failure."""
        waited = time.monotonic() + LONGEST
        while not select.select([self.process.stdout], [], [], 0.02)[0]:
            self._watch()
            if time.monotonic() > waited:
                self.missing = f"no answer in {LONGEST:.0f} s"
                self.process.kill()
                return {}
        self._watch()
        told = json.loads(self.process.stdout.readline() or '{"missing": "it ended"}')
        self.missing = told.get("missing")
        return told

    def take_turn(self) -> None:
        """Have the work done once."""
        self.process.stdin.write(b"go\n")
        told = self.hear()
        if self.missing is None:
            self.seconds.append(told.pop("seconds"))
            self.info |= told

    def asked_enough(self) -> bool:
        """Tell whether it failed or has taken long enough."""
        return self.missing is not None or sum(self.seconds) > PATIENCE

    def result(self) -> dict[str, Any]:
        """Return what the table and the ratios need; the first turn counts only where there is no other."""
        if self.missing is not None:
            return {"kind": self.column.kind, "missing": self.missing}
        counted = self.seconds[1:] or self.seconds
        return {
            "kind": self.column.kind,
            "least": min(counted),
            "median": median(counted),
            "turns": len(counted),
            "peak_mb": round(self.peak / 1e6),
        } | self.info

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _watch(self) -> None:
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        found = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
        self.peak = max([self.peak, *(int(kilobytes) * 1024 for kilobytes in found)])


def measure(line: Line, data: Path, before: Path | None = None) -> dict[str, Any]:
    """Have all columns of a line take turns; return their results and what else the machine did."""
    columns = list(line.columns)
    if before is not None and line.before:
        ours = columns[0]
        columns.insert(1, Column("version 0.2.0", ours.work, "before", ours.options, ours.size))
    log = data.parent / "errors.log"
    workers = []
    busy = _busy()
    for column in columns:
        size = column.size or line.size
        folder = _data.make(data, *size) if all(size) else data
        sources = (before if before is not None and column.kind == "before" else ROOT) / "src"
        workers.append(Worker(column, folder, sources.resolve(), log))
    try:
        for worker in workers:
            worker.hear()
        _take_turns(workers)
    finally:
        for worker in workers:
            worker.close()
    if workers[0].missing is not None:
        raise RuntimeError(f"{line.name}: {workers[0].missing}; {log} says more")
    results = {worker.column.title: worker.result() for worker in workers}
    return {"title": line.title, "size": line.size, "growth": line.growth, "others": _busy(busy),
            "columns": results}  # fmt: skip


def _take_turns(workers: list[Worker]) -> None:
    started = time.monotonic()
    for turn in range(1 + MOST_TURNS):
        if turn == 1:
            started = time.monotonic()
        if turn > TURNS and time.monotonic() - started > ENOUGH:
            return
        for worker in workers:
            if not worker.asked_enough():
                worker.take_turn()


def _busy(before: tuple[float, ...] | None = None) -> Any:
    """Return clocks; or, with former ones, the share of the processors that others took since."""
    spent = [int(value) / os.sysconf("SC_CLK_TCK") for value in Path("/proc/stat").read_text().split()[1:9]]
    idle = spent[3] + spent[4]
    own = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    now = (sum(spent) - idle - own, sum(spent))
    if before is None:
        return now
    return round(max(0.0, (now[0] - before[0]) / max(now[1] - before[1], 1e-9)), 3)


def ratios(measured: dict[str, Any]) -> dict[str, float]:
    """Return how many times as long as each other column ours takes."""
    found = {}
    for name, line in measured.items():
        ours, *others = line["columns"].items()
        for title, column in others:
            if "least" in column:
                found[f"{name}: {title}"] = round(ours[1]["least"] / column["least"], 4)
    return found


def about() -> dict[str, Any]:
    """Return which code runs where."""
    model = [text.partition(": ")[2] for text in Path("/proc/cpuinfo").read_text().splitlines()
             if text.startswith("model name")]  # fmt: skip
    versions = {}
    for name in PEERS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "commit": _commit(ROOT),
        "picks": digest(),
        "made": date.today().isoformat(),
        "python": platform.python_version(),
        "processor": model[0] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions,
    }


def _commit(checkout: Path) -> str:
    """Return the commit of a checkout, and whether what is measured was changed since."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=checkout, capture_output=True, text=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks")
    return git("rev-parse", "--short=10", "HEAD") + (" with changes" if changed else "")


def run(
    scale: str, folder: Path, before: Path | None = None, only: list[str] | None = None
) -> dict[str, Any]:
    """Measure the lines of a scale, but those that are finished; return all of them."""
    facts = about() | {"before": _commit(before) if before else None}
    code = [facts["commit"], facts["before"]]
    finished = folder / f"{scale}.jsonl"
    if "changes" in str(code):  # nobody knows what was measured before
        finished.unlink(missing_ok=True)
    known = [json.loads(text) for text in finished.read_text().splitlines()] if finished.exists() else []
    done = {cell["name"]: cell["found"] for cell in known if cell["of"] == code}
    measured = {}
    for line in lines(scale):
        if only and line.name not in only:
            continue
        if line.name not in done:
            print(f"{line.name} ...", end=" ", flush=True)
            started = time.monotonic()
            done[line.name] = measure(line, folder / "data", before)
            cell = {"name": line.name, "of": code, "found": done[line.name]}
            with finished.open("a") as file:
                print(json.dumps(cell), file=file)
            print(f"{time.monotonic() - started:.0f} s", flush=True)
        measured[line.name] = done[line.name]
    return facts | {"lines": measured, "ratios": ratios(measured)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", metavar="LINE", help="measure and print these, write nothing")
    arguments = parser.parse_args()
    folder = ROOT / "out" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    found = run(arguments.scale, folder, arguments.before, arguments.only)
    if arguments.only:
        print(_performance_page.table(found))
        return
    target = RESULTS / "performance.json"
    known = json.loads(target.read_text()) if target.exists() else {}
    known[arguments.scale] = found
    target.write_text(json.dumps(known, indent=1) + "\n")
    _performance_page.write(known, RESULTS)
    (folder / f"{arguments.scale}.jsonl").unlink()
    shutil.rmtree(folder / "data")
    print(f"Wrote {RESULTS / 'performance.md'}, .json and .png")


if __name__ == "__main__":
    main()
