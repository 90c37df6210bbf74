"""The cost model of `docs/scale.md`: constants fitted to runs, the runs predicted, and larger ones.

``python -m benchmarks.cluster > runs.json`` measures; ``python -m benchmarks.scale runs.json more.json`` fits
the constants to the phases of the local engine on one core, by relative least squares, predicts the runs on
workers, which the fit has not seen, and then 100 million and 1 billion rows of 768 features. Seconds are
those of a core, which other work on the machine touches little. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

BATCH = 384
STREAM_ROWS = 1 << 20
CORES, DISK, NETWORK = 16, 1.0e9, 1.25e9  # of a node: cores, bytes per second from storage, and by network


def terms(run: dict[str, Any], features: int) -> dict[str, float]:
    """Return how often each constant counts in the seconds of one core."""
    values = run["rows"] * features
    return {
        "check, per value": values,
        "median, per value and pass": values * (run["passes"] - 2),
        "picking, per value and row of a batch": values * BATCH,
        "picking, per pick": run["kept"],
    }


def flat(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs of all documents, one per number of workers."""
    found = []
    for document in documents:
        for run in document["runs"]:
            for workers, name in ((0, "local, one core"), (1, "one worker"), (2, "two workers")):
                own = run["engines"][name]
                facts = {key: run[key] for key in ("rows", "kept", "classes", "guard")}
                found.append(facts | own | {"workers": workers, "features": document["features"]})
    return found


def fit(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of each term, none negative: phases are fitted apart."""
    check, median, batches, picks = terms(runs[0], runs[0]["features"])
    found = {}
    for phase, names in (
        ("checking rows", [check]),
        ("finding the middle", [median]),
        ("picking rows", [batches, picks]),
    ):
        seconds = np.array([run["core_phases"][phase] for run in runs])
        counts = np.array([[terms(run, run["features"])[name] for name in names] for run in runs])
        found |= dict(
            zip(names, nnls(counts / seconds[:, None], np.ones(len(runs)))[0].tolist(), strict=True)
        )
    return found


def predict(
    run: dict[str, Any], constants: dict[str, float], workers: int, nodes: int = 0
) -> dict[str, float]:
    """Return the seconds of the busiest worker: passes are shared evenly, chains as wholes; and reading."""
    counts = terms(run, run["features"])
    seconds = {name: counts[name] * constants[name] for name in counts}
    check, median, *picking = counts
    passes = (seconds[check] + seconds[median]) / workers
    chains = -(-run["rows"] // STREAM_ROWS)
    rounds = -(-chains // workers)
    picks = sum(seconds[name] for name in picking) / chains * rounds
    row_bytes = run["rows"] * run["features"] * 4
    reading = row_bytes * run["passes"] / (nodes * DISK) if nodes else 0.0
    # Row numbers to the workers, picks with score and distance back.
    through = 4 * run["rows"] + 24 * run["kept"]
    sums = 1024 * 16 * run["features"] * (run["passes"] - 2)
    return {
        "computing": round(passes + picks, 2),
        "reading": round(reading, 1),
        "driver_bytes": through + sums,
        "driver_network_seconds": round((through + sums) / NETWORK, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    runs = [
        run
        for run in flat([json.loads(path.read_text()) for path in arguments.files])
        if run["classes"] is None and not run["guard"]
    ]
    constants = fit([run for run in runs if run["workers"] == 0])
    checked = []
    for run in runs:
        if run["workers"] == 0:
            continue
        predicted = predict(run, constants, run["workers"])
        facts = {key: run[key] for key in ("rows", "kept", "workers", "passes", "load", "seconds")}
        busiest = max(run["worker_core_seconds"])
        facts |= {"busiest_core_seconds": busiest, "predicted_core_seconds": predicted["computing"]}
        bytes_off = {"driver_bytes": run["driver_bytes"], "predicted_bytes": predicted["driver_bytes"]}
        checked.append(facts | bytes_off)
    future = []
    for rows in (10**8, 10**9):
        for nodes in (10, 100):
            run = {"rows": rows, "kept": rows // 10, "passes": 4, "features": 768}
            facts = {"rows": rows, "nodes": nodes, "chains": -(-rows // STREAM_ROWS), "cores": nodes * CORES}
            future.append(facts | predict(run, constants, nodes * CORES, nodes))
    print(json.dumps({"constants": constants, "checked": checked, "predicted": future}))


if __name__ == "__main__":
    main()
