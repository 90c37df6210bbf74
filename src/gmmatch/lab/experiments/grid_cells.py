"""A cell of a table: one method, one budget, one seed; and the file that holds its result."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...facts import plain
from ...files import whole_file
from ...version import __version__
from .specs import Grid

RECORD_VERSION = 2
_MEASURED = {"table", "dataset", "scenario", "target", "method", "keep", "seed", "accuracy", "seconds"}
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "onnxruntime")


@dataclass(frozen=True)
class CellGroup:
    """The cells that share damaged data and a proxy's features."""

    grid: Grid
    dataset: str
    scenario: str
    seed: int

    def cells(self) -> Iterator[GridCell]:
        """Yield the cells in the order in which they are worked out."""
        for method in self.grid.methods:
            for target in self.grid.targets:
                for keep in self.grid.keeps:
                    yield GridCell(self, method, target, keep)


@dataclass(frozen=True)
class GridCell:
    """One figure of a table."""

    group: CellGroup
    method: str
    target: str
    keep: float

    def settings(self) -> dict[str, Any]:
        """Return everything that determines the result, as plain data."""
        grid = self.group.grid
        known = {} if grid.data_key is None else {"data_key": grid.data_key}
        return known | {
            "version": RECORD_VERSION,
            "dataset": self.group.dataset,
            "scenario": self.group.scenario,
            "seed": self.group.seed,
            "proxy": grid.proxy,
            "method": self.method,
            "defaults": grid.asked(self.method).settings(),
            "target": self.target,
            "keep": self.keep,
            "train_rows": grid.train_rows,
            "test_rows": grid.test_rows,
            "severity": grid.severity,
            "proxy_data": grid.proxy_data,
            "training": asdict(grid.training),
            "proxy_training": asdict(grid.proxy_training),
            "signal_training": asdict(grid.signal_training),
        }

    def file(self, folder: Path) -> Path:
        """Return where the result is kept: a name to read, and a digest of all settings."""
        group = self.group
        words = (group.dataset, group.scenario, self.target, self.method, f"{self.keep:.3g}", f"{group.seed}")
        readable = re.sub(r"[^A-Za-z0-9.-]+", "-", "_".join(words).replace("_", "--"))
        settings = json.dumps(self.settings(), sort_keys=True)
        digest = hashlib.blake2b(settings.encode(), digest_size=5).hexdigest()
        return folder / f"{readable}-{digest}.json"


def groups_of(grids: Iterable[Grid]) -> list[CellGroup]:
    """Return all groups, seed by seed, so that a table fills evenly."""
    return [
        CellGroup(grid, dataset, scenario, seed)
        for grid in grids
        for seed in grid.seeds
        for dataset in grid.datasets
        for scenario in grid.scenarios
    ]


def write_record(cell: GridCell, folder: Path, measured: dict[str, Any], recipe: dict[str, Any]) -> None:
    """Write the result of a cell, whole or not at all."""
    group = cell.group
    record = {
        "table": group.grid.table,
        "scale": group.grid.scale,
        "dataset": group.dataset,
        "scenario": group.scenario,
        "proxy": group.grid.proxy,
        "target": cell.target,
        "method": cell.method,
        "keep": cell.keep,
        "seed": group.seed,
        **measured,
        "versions": versions(),
        "recipe": plain({"settings": cell.settings(), **recipe}),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with whole_file(cell.file(folder)) as partial:
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_records(cells: Iterable[GridCell], folder: Path) -> list[dict[str, Any]]:
    """Return the results that there are, in the order of the cells."""
    found = (read_record(cell, folder) for cell in cells)
    return [record for record in found if record is not None]


def read_record(cell: GridCell, folder: Path) -> dict[str, Any] | None:
    """Return the result of a cell; None: it is not there, or damaged, and is to be worked out (again)."""
    try:
        record = json.loads(cell.file(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.keys() >= _MEASURED else None


@cache
def commit() -> str:
    """Return the commit that the code is of, with a plus where it was changed since."""
    folder = Path(__file__).parents[2]

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=10", "HEAD") + (
            "+" if git("status", "--porcelain", str(folder)) else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return f"of version {__version__}"


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on."""
    found = {"gmmatch": __version__, "commit": commit(), "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
