"""The settings of a run, repeated on other data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from tests.unit.aims.blobs import blobs


def write(path: Path, seed: int) -> str:
    rows, labels = blobs(seed=seed)
    rng = np.random.default_rng(seed)
    rows[300:] = rows[:100]
    columns = {
        "vector": list(rows),
        "topic": labels,
        "minutes": rng.uniform(1, 9, len(rows)),
        "source": np.where(rng.random(len(rows)) < 0.3, "web", "book"),
        "reward": rng.random(len(rows)),
    }
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("months")
    return write(folder / "september.parquet", 1), write(folder / "october.parquet", 2)


def run(*words: str) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["select", *words, "--json"])
    assert ran.exit_code == 0, ran.output
    told: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return told


@pytest.mark.parametrize(
    "words",
    [
        ["--keep", "10%"],
        ["--keep", "0.5k", "--cost", "minutes", "--duplicates", "drop"],
        ["--keep", "25%", "--strata", "source", "--budgets", "equal", "--seed", "3"],
        ["--keep", "40", "--quality", "reward=0.3", "--fix", "0.9", "--param", "strategy=rows"],
        ["--keep", "40", "--method", "k-center", "--guard", "auto"],
    ],
)
@pytest.mark.parametrize("engine", ["local", "processes"])
def test_a_file_repeats_its_settings(
    months: tuple[str, str], tmp_path: Path, words: list[str], engine: str
) -> None:
    if engine == "processes" and "k-center" in words:
        pytest.skip("k-center runs on one machine")
    first, asked, repeated = (str(tmp_path / name) for name in ("1.parquet", "2.parquet", "3.parquet"))
    labels = ["--labels", "topic"]
    run(months[0], *labels, *words, "-o", first)
    run(months[1], *labels, *words, "-o", asked)
    run(months[1], *labels, "--settings", first, "--engine", engine, "-o", repeated)
    assert Path(asked).read_bytes() == Path(repeated).read_bytes()
    again = gmmatch.select(gmmatch.open(months[1], "topic"), **gmmatch.load_selection(first).settings)
    assert (again.indices == gmmatch.load_selection(asked).indices).all()


def test_options_that_are_named_come_before_settings(months: tuple[str, str], tmp_path: Path) -> None:
    first, out = str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")
    labels = ["--labels", "topic"]
    run(months[0], *labels, "--keep", "10%", "--seed", "4", "--param", "step=residual", "-o", first)
    told = run(months[1], *labels, "--settings", first, "--keep", "60", "--param", "step=teaching", "-o", out)
    assert told["kept"] == 60
    settings = gmmatch.load_selection(out).settings
    assert (settings["random_state"], settings["step"], settings["keep"]) == (4, "teaching", 60)
    # Another method takes what all methods share.
    told = run(months[1], *labels, "--settings", first, "--method", "random", "-o", out, "--overwrite")
    assert (told["method"], told["kept"]) == ("random", 40)
    assert gmmatch.load_selection(out).random_state == 4


def test_fewer_picks_repeat_as_many_rows(months: tuple[str, str]) -> None:
    data = gmmatch.open(months[0], "topic")
    found = gmmatch.select(data, keep=300, cost="minutes")
    assert found.settings["keep"] == 300
    assert found[:7].settings["keep"] == 7
    assert found[2:7].settings["keep"] == 5
    first = gmmatch.select(data, keep=20)
    assert gmmatch.select(data, keep="+30", include=first).settings["keep"] == "+30"


def test_what_is_of_the_data_is_no_setting(months: tuple[str, str], tmp_path: Path) -> None:
    data = gmmatch.open(months[0], "topic")
    minutes = np.arange(400.0) + 1
    np.save(tmp_path / "minutes.npy", minutes)
    for cost in (minutes, str(tmp_path / "minutes.npy")):
        found = gmmatch.select(data, keep=0.2, cost=cost, exclude=[1, 2], quality=(minutes, 0.3))
        assert not {"cost", "exclude", "quality"} & set(found.settings)


def test_a_budget_is_asked_for(months: tuple[str, str], tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["select", months[0], "-o", str(tmp_path / "kept.parquet")])
    assert ran.exit_code == 2
    assert "--keep says how many rows to keep" in ran.output
    assert "--settings" in ran.output
    ran = CliRunner().invoke(app, ["select", months[0], "--settings", str(tmp_path / "none.parquet")])
    assert ran.exit_code == 3
    assert "there is no such file" in ran.output
