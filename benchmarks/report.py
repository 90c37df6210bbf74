"""A report about rows on disk: seconds beyond the selection, memory, and the size of the page.

``python -m benchmarks.report`` makes 1,000,000 x 512 float32 in 10 classes on disk, keeps 10 % and writes
the report. Prints one JSON document. ``--rows 100000`` makes a quick one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import gmmatch
from benchmarks.streaming import anonymous_memory, make, read_pass
from gmmatch.report import summarise, write_report

CLASSES = 10


def measure(folder: Path, n_rows: int) -> dict[str, float]:
    """Select, then report, watching time and memory of each."""
    make(folder / "rows.npy", n_rows)
    np.save(folder / "labels.npy", np.random.default_rng(1).integers(0, CLASSES, n_rows))
    one_pass = read_pass(folder / "rows.npy")
    source = gmmatch.open(folder / "rows.npy", labels=folder / "labels.npy")
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    selection = gmmatch.select(source, keep=0.1, guard="off", batch_size="auto")
    selected = time.perf_counter()
    peak_of_selection, peak[0] = peak[0], 0
    write_report(summarise(selection, source), folder / "report.html")
    reported = time.perf_counter()
    done.set()
    watcher.join()
    return {
        "rows": n_rows,
        "kept": len(selection),
        "read_pass_seconds": round(one_pass, 3),
        "selection_seconds": round(selected - started, 3),
        "report_seconds": round(reported - selected, 3),
        "selection_anonymous_megabytes": round(peak_of_selection / 1e6),
        "report_anonymous_megabytes": round(peak[0] / 1e6),
        "page_megabytes": round((folder / "report.html").stat().st_size / 1e6, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), arguments.rows)))


if __name__ == "__main__":
    main()
