"""Pages of results say which picks they are of, and benchmarks measure again what other picks made."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import results
from benchmarks._cells import Cells, clean, pick
from benchmarks._learners import score
from benchmarks._paper import records_of
from benchmarks._scenes import Scene
from benchmarks.teach import by_cell, leads
from tools import check_figures


@pytest.fixture
def frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "frozen.json"
    cases = {
        "gm-matching labelled": [1],
        "gm-matching unlabelled": [2],
        "suspects digits": [3],
        "random tail": [4],
    }
    file.write_text(json.dumps(cases))
    monkeypatch.setattr(check_figures, "FROZEN", file)
    return file


def _change(file: Path, **cases: list[int]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | cases))


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("gm-matching labelled", (True, True, False)),
        ("gm-matching unlabelled", (True, False, True)),
        ("suspects digits", (True, True, False)),
        ("random tail", (False, False, False)),
    ],
)
def test_the_digest_is_of_the_default_with_and_without_labels(
    frozen: Path, case: str, changes: tuple[bool, ...]
) -> None:
    before = [check_figures.digest(labelled) for labelled in (None, True, False)]
    _change(frozen, **{case: [9]})
    after = [check_figures.digest(labelled) for labelled in (None, True, False)]
    assert tuple(a != b for a, b in zip(before, after, strict=True)) == changes


def test_cells_of_other_picks_are_measured_again_and_those_of_rivals_are_not(
    frozen: Path, tmp_path: Path
) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    for method, own in (("default", cells.digest("letters/none")), ("random", None)):
        cells.add({"scenario": "letters/none", "seed": 0, "method": method, "keep": 0.1, "digest": own})
    assert Cells(cells.file).done("letters/none", 0, "default") == {0.1}
    _change(frozen, **{"gm-matching unlabelled": [9]})
    assert Cells(cells.file).done("letters/none", 0, "default") == {0.1}
    _change(frozen, **{"gm-matching labelled": [9]})
    assert Cells(cells.file).done("letters/none", 0, "default") == set()
    assert Cells(cells.file).done("letters/none", 0, "random") == {0.1}


@pytest.mark.parametrize(
    ("row", "case", "changes"),
    [
        ("random", "random tail", True),
        ("cleanlab+random", "random tail", True),
        ("random", "gm-matching labelled", False),
        ("gm-matching", "suspects digits", True),
        ("random+guard", "suspects digits", True),
        ("random+guard", "random guarded", True),
        ("gm-matching-unguarded", "gm-matching labelled", False),
        ("cleanlab+gm-matching", "gm-matching, guard off, tail", True),
        ("gm-matching-paper", "gm-matching-paper labelled", True),
        ("gm-matching-paper", "gm-matching labelled", False),
    ],
)
def test_a_row_of_a_table_stands_on_the_cases_of_its_own_method(
    frozen: Path, row: str, case: str, changes: bool
) -> None:
    before = check_figures.digest_of_row(row)
    _change(frozen, **{case: [9]})
    assert (check_figures.digest_of_row(row) != before) == changes


def test_lines_that_are_carried_over_keep_their_mean_spread_and_seeds() -> None:
    line = dict.fromkeys(("table", "scale", "dataset", "scenario", "proxy", "target", "method"), "a")
    for seeds, spread in ((1, ""), (2, "0.3"), (3, "1.25")):
        numbers = {"keep": "0.1", "seeds": str(seeds), "accuracy": "61.5", "spread": spread}
        shares = {"corrupted_picks": "0.25", "corrupted_rows": ""}
        found = list(records_of([line | numbers | shares]))
        values = [record["accuracy"] for record in found]
        assert [record["seed"] for record in found] == list(range(seeds))
        assert np.mean(values) == pytest.approx(61.5)
        assert seeds == 1 or np.std(values, ddof=1) == pytest.approx(float(spread))
        assert (found[0]["corrupted_picks"], found[0]["corrupted_rows"]) == (0.25, None)


def test_cells_are_the_same_after_they_were_written(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.csv")
    own = cells.digest("letters/none")
    line = {"scenario": "letters/none", "seed": 1, "method": "a, b", "keep": 0.1, "digest": own}
    written = [line | {"values": {"x": [1.5, None]}}, line | {"seed": 0, "values": {}}]
    for cell in written:
        cells.add(cell)
    cells.add(line | {"digest": "12345678", "values": {}})
    assert Cells(cells.file).all[:2] == written
    assert Cells(cells.file).all[2]["digest"] == "12345678"
    cells.prune()
    assert Cells(cells.file).all == written[::-1]


def test_a_page_without_a_digest_is_a_find_and_one_of_other_picks_is_told(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_figures, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    command = "`python -m benchmarks.teach`"
    for name in ("new", "old", "none"):
        (tmp_path / f"{name}.md").write_text(f"# Title\n\n{command}\n\nText.\n")
    (tmp_path / "index.md").write_text("# Results\n")
    results._name_digest(tmp_path / "new.md")
    (tmp_path / "old.md").write_text(f"# Title\n\n{command} **Picks** `01234567`\n")
    check_figures.write_index()
    assert [find.split()[0] for find in check_figures.check_origins()] == ["docs/results/none.md"]
    assert [page.split()[0] for page in check_figures.older()] == ["none", "old"]
    results._name_digest(tmp_path / "old.md")
    assert "index.md" in list(check_figures.check_origins())[-1]
    check_figures.write_index()
    assert [page.split()[0] for page in check_figures.older()] == ["none"]
    assert (tmp_path / "index.md").read_text().count("01234567") == 0


def test_leads_are_paired_by_seed() -> None:
    values = {("default", 0): 80.0, ("default", 1): 90.0, ("old", 1): 85.0}
    lines = [
        {"scenario": "a/none", "seed": seed, "method": method, "keep": 0.1, "logistic": value}
        for (method, seed), value in values.items()
    ]
    _, every = leads(by_cell(lines, ["logistic"]), ["old"], ["a/none"], [0.1])
    assert [(lead, other) for lead, _, other, _, _ in every] == [(5.0, "old")]


def test_picks_of_smaller_budgets_are_those_of_their_own_runs() -> None:
    scene = Scene("digits/symmetric-20", 0)
    some = slice(400)
    together = pick(scene.rows[some], scene.labels[some], [20, 60], 0, {"method": "gm-matching"})
    alone = pick(scene.rows[some], scene.labels[some], [20], 0, {"method": "gm-matching"})
    assert together[0] == alone[0]


def test_learners_learn_more_from_right_labels_and_cleaning_drops_wrong_ones() -> None:
    scene = Scene("digits/symmetric-40", 0)
    truth = Scene("digits/none", 0).labels
    assert np.array_equal(scene.rows, Scene("digits/none", 0).rows)
    wrong = scene.labels != truth
    good, some = np.flatnonzero(~wrong)[:200], np.arange(200)
    views = scene.reduced()
    right, noisy = (score(scene, views, rows, 0) for rows in (good, some))
    assert all(right[learner] > noisy[learner] + 5 for learner in right)
    left = clean(scene, 0)
    assert wrong[left].mean() < wrong.mean() / 3


def test_steps_are_run_in_the_order_of_their_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["results", "--list", "believe", "toy"])
    results.main()
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["toy", "believe"]
