"""The cost model of `docs/scale.md`: constants fitted to runs, the runs predicted, and larger ones.

``python -m benchmarks.cluster > runs.json`` measures; ``python -m benchmarks.scale runs.json more.json`` fits
the constants to the local engine on one core and to the driver of one worker, in seconds of a core and by
relative least squares; predicts the runs on workers; and then 100 million and 1 billion rows of 768 features.
Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from gmmatch.compute.blocks import block_rows
from gmmatch.compute.runner import spans
from gmmatch.matching.pick import AUTO_BATCH

BATCH = AUTO_BATCH
STREAM_ROWS = 1 << 20
CORES, DISK, NETWORK = 16, 1.0e9, 1.25e9  # of a node: cores, bytes per second from storage, and by network


def terms(run: dict[str, Any]) -> dict[str, float]:
    """Return how often each constant counts."""
    values = run["rows"] * run["features"]
    return {
        "check, per value": values,
        "median, per value and pass": values * (run["passes"] - 2),
        "picking, per value and row of a batch": values * BATCH,
        "picking, per pick": run["kept"],
        "driver, per row": run["rows"],
    }


def fit(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of each term, none negative; phases are fitted apart."""
    check, median, batches, picks, driver = terms(runs[0])
    local = [run | {"seconds of": run["core_phases"]} for run in runs if run["workers"] == 0]
    led = [run | {"seconds of": {"driver": run["core_seconds"]}} for run in runs if run["workers"] == 1]
    found = {}
    for own, phase, names in (
        (local, "checking rows", [check]),
        (local, "finding the middle", [median]),
        (local, "picking rows", [batches, picks]),
        (led, "driver", [driver]),
    ):
        seconds = np.array([run["seconds of"][phase] for run in own])
        counts = np.array([[terms(run)[name] for name in names] for run in own])
        solved = nnls(counts / seconds[:, None], np.ones(len(own)))[0].tolist()
        found |= dict(zip(names, solved, strict=True))
    return found


def predict(run: dict[str, Any], constants: dict[str, float], workers: int, nodes: int = 0) -> dict[str, Any]:
    """Return seconds and bytes: passes are shared evenly, picks chain by chain, the driver works alone."""
    counts = terms(run)
    seconds = {name: counts[name] * constants[name] for name in counts}
    check, median, batches, picks, driver = counts
    chains = -(-run["rows"] // STREAM_ROWS)
    passes = (seconds[check] + seconds[median]) / workers
    picking = (seconds[batches] + seconds[picks]) / chains * -(-chains // workers)
    n_spans = len(spans(run["rows"], block_rows(run["features"])))
    through = 4 * run["rows"] + 24 * run["kept"] + 16 * run["features"] * n_spans * (run["passes"] - 2)
    found = {
        "workers_seconds": round(passes + picking, 1),
        "driver_seconds": round(seconds[driver], 1),
        "driver_bytes": through,
    }
    if nodes:
        read = run["rows"] * run["features"] * 4 * run["passes"] / (nodes * DISK)
        found |= {"reading_seconds": round(read, 1), "driver_network_seconds": round(through / NETWORK, 1)}
    return found


def flat(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the plain runs of all documents, one per number of workers; none stands for the local engine."""
    found = []
    for document in documents:
        for run in document["runs"]:
            if run["classes"] is not None or run["guard"]:
                continue
            for workers, name in enumerate(("local, one core", "one worker", "two workers")):
                facts = {"rows": run["rows"], "kept": run["kept"], "features": document["features"]}
                found.append(run["engines"][name] | facts | {"workers": workers})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    runs = flat([json.loads(path.read_text()) for path in parser.parse_args().files])
    constants = fit(runs)
    checked = []
    for run in runs:
        if run["workers"]:
            facts = {
                name: run[name] for name in ("rows", "kept", "workers", "load", "seconds", "driver_bytes")
            }
            expected = predict(run, constants, run["workers"])
            facts["predicted_seconds"] = round(expected["workers_seconds"] + expected["driver_seconds"], 1)
            checked.append(facts | {"predicted_bytes": expected["driver_bytes"]})
    future = []
    for rows in (10**8, 10**9):
        for nodes in (10, 100):
            run = {"rows": rows, "kept": rows // 10, "passes": 4, "features": 768}
            facts = {"rows": rows, "nodes": nodes, "cores": nodes * CORES, "chains": -(-rows // STREAM_ROWS)}
            future.append(facts | predict(run, constants, nodes * CORES, nodes))
    print(json.dumps({"constants": constants, "checked": checked, "predicted": future}))


if __name__ == "__main__":
    main()
