"""No ratio to a yardstick of the same run is lost by half; seconds are never compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _performance_page
from benchmarks._lines import Line, lines, short
from benchmarks.performance import RESULTS, measure, ratios

KNOWN = json.loads((RESULTS / "performance.json").read_text("utf-8"))
LINES = [line for line in map(short, lines("small")) if line]
_MEASURABLE = 0.02  # seconds: of shorter work the clock tells more about the machine than about the code


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=[line.name for line in LINES])
def test_no_ratio_is_lost_by_half(line: Line, tmp_path: Path) -> None:
    for _ in range(2):  # a second time where the machine was busy with something else
        measured = measure(line, tmp_path / "data")
        # Without the guard a run reads less than when the ratios were taken.
        compared = {
            name: value
            for name, value in ratios({line.name: measured}).items()
            if not name.endswith("guard off") and _seconds(name, measured) >= _MEASURABLE
        }
        lost = {name: value for name, value in compared.items() if value > 2 * KNOWN["small"]["ratios"][name]}
        if not lost:
            return
    pytest.fail(f"{lost} beside {KNOWN['small']['ratios']}")


def _seconds(name: str, measured: dict[str, Any]) -> float:
    """Return how long the other of a ratio took when the ratios were taken, or here if that is less."""
    line, title = name.split(": ")
    both = KNOWN["small"]["lines"][line]["columns"], measured["columns"]
    return min(float(columns[title]["least"]) for columns in both)


def test_the_page_is_that_of_its_measurements() -> None:
    scale = "full" if "full" in KNOWN else "small"
    assert _performance_page.page(scale, KNOWN[scale]) == (RESULTS / "performance.md").read_text("utf-8")
