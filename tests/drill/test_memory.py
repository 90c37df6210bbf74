"""A cap on memory holds, with several runs at once too, and changes no byte of what is picked."""

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from .commands import environment

ROWS, WIDTH, CLASSES, RUNS = 1_000_000, 128, 10, 8
CAP, MOST = 300_000_000, 450_000_000
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def write_inputs(folder):
    """Write rows of ten classes, and labels of which a fifth are wrong."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    centers = rng.normal(size=(CLASSES, WIDTH))
    rows = np.lib.format.open_memmap(folder / "rows.npy", "w+", np.float32, (ROWS, WIDTH))
    for start in range(0, ROWS, 50_000):
        part = slice(start, start + 50_000)
        rows[part] = rng.normal(size=(50_000, WIDTH)) + centers[labels[part]]
    rows.flush()
    wrong = rng.random(ROWS) < 0.2
    labels[wrong] = (labels[wrong] + rng.integers(1, CLASSES, wrong.sum())) % CLASSES
    np.save(folder / "labels.npy", labels)


def start(folder, output):
    words = f"select rows.npy --labels labels.npy --keep 10% --memory {CAP} -o {output}"
    return subprocess.Popen(
        [sys.executable, "-m", "gmmatch", *words.split()], cwd=folder, env=environment(folder),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def anonymous(process):
    """Return the bytes of memory that are a process's own, of no file (RssAnon in /proc/PID/status)."""
    try:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    except OSError:  # it has just ended
        return 0
    return int(found[1]) * 1024 if found else 0


def peaks(processes):
    """Return the most anonymous memory of each process until all have ended, looked at every 10 ms."""
    most = [0] * len(processes)
    while any(process.poll() is None for process in processes):
        most = [max(high, anonymous(process)) for high, process in zip(most, processes, strict=True)]
        time.sleep(0.01)
    return most


@pytest.mark.drill
def test_eight_selections_at_once(tmp_path, told):
    write_inputs(tmp_path)
    alone = start(tmp_path, "alone.parquet")
    most = peaks([alone])
    assert alone.returncode == 0
    together = [start(tmp_path, f"{number}.parquet") for number in range(RUNS)]
    most += peaks(together)
    assert [process.returncode for process in together] == [0] * RUNS
    expected = (tmp_path / "alone.parquet").read_bytes()
    assert all((tmp_path / f"{number}.parquet").read_bytes() == expected for number in range(RUNS))
    assert max(most) <= MOST, most
    told(
        "eight runs at once with `--memory 300MB`",
        f"`select`, {ROWS:,} x {WIDTH}, {CLASSES} classes, a fifth of the labels wrong",
        RUNS,
        f"the bytes of one alone; at most {max(most) / 1e6:.0f} MB of anonymous memory",
    )
