"""Costs, strata and quality."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.aims import Aims, open_aims
from gmmatch.cli import app
from gmmatch.data import Dataset, Items
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.validation import check_input, check_keep
from tests.unit.aims.blobs import blobs

ROWS, LABELS = blobs()
COST = np.random.default_rng(0).uniform(1, 9, len(ROWS))


@pytest.fixture(scope="module")
def sequence() -> gmmatch.Selection:
    return gmmatch.select(ROWS, LABELS, keep=400)


@pytest.mark.parametrize("keep", [200, 0.25, "1.2k", 0.99, "20%"])
def test_the_longest_prefix_that_the_budget_pays_for(sequence: gmmatch.Selection, keep: Any) -> None:
    found = gmmatch.select(ROWS, LABELS, keep=keep, cost=COST)
    budget = {200: 200, "1.2k": 1200, "20%": 0.2 * COST.sum()}.get(keep) or keep * COST.sum()
    spent = np.cumsum(COST[sequence.indices])
    assert len(found) == np.count_nonzero(spent <= budget)
    assert (found.indices == sequence.indices[: len(found)]).all()
    assert budget - COST.max() < COST[found.indices].sum() <= budget
    assert found.info.aims is not None
    assert found.info.aims["cost"]["spent"] == pytest.approx(COST[found.indices].sum())


def test_costs_of_rows_that_are_picked_late_are_paid_for_too() -> None:
    cost = np.where(LABELS == 0, 0.001, 50.0)  # far more rows than the mean says
    found = gmmatch.select(ROWS, LABELS, keep=5000, cost=cost, budgets={0: 1000, 1: 1, 2: 1, 3: 1})
    assert cost[found.indices].sum() <= 5000
    assert 5000 - cost[found.indices].sum() < 50


TEXTS = [f"{'unbelievable ' * (row % 7 + 1)}{row}" for row in range(400)]
CONTENT = Items("text", 400, lambda start, stop: TEXTS[start:stop])
OF_TEXTS = Dataset(ROWS, "texts", "list", labels=LABELS, content=CONTENT)


def test_tokens_are_those_of_an_installed_tokenizer() -> None:
    wordllama = pytest.importorskip("wordllama")
    tokenizers = pytest.importorskip("tokenizers")
    file = next((Path(wordllama.__file__).parent / "tokenizers").glob("l2*.json"))
    one = tokenizers.Tokenizer.from_file(str(file))
    tokens = np.array([len(one.encode(text, add_special_tokens=False).ids) for text in TEXTS])
    found = gmmatch.select(OF_TEXTS, keep=300, cost="tokens")
    counted = gmmatch.select(ROWS, LABELS, keep=300, cost=tokens)
    assert (found.indices == counted.indices).all()
    assert 300 - tokens.max() < tokens[found.indices].sum() <= 300
    assert "counted by the Llama 2 tokenizer" in str(found.info.hint)


def test_tokens_are_words_without_a_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as if it were not installed
    found = gmmatch.select(OF_TEXTS, keep=100, cost="tokens")
    tokens = [4 / 3 * len(TEXTS[row].split()) for row in found.indices]
    assert 100 - 4 / 3 * 8 < sum(tokens) <= 100
    assert "counted as words" in str(found.info.hint)


def test_costs_that_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cost must be finite and at least 0"):
        gmmatch.select(ROWS, LABELS, cost=-COST)
    with pytest.raises(InvalidInput, match="a number for each of 400 rows"):
        gmmatch.select(ROWS, LABELS, cost=COST[:5])
    with pytest.raises(InvalidInput, match="counts those of texts, and X holds none"):
        gmmatch.select(ROWS, LABELS, cost="tokens")
    with pytest.raises(InvalidInput, match="does not pay for the first row"):
        gmmatch.select(ROWS, LABELS, keep=1, cost=COST + 10)


def test_amounts_in_words() -> None:
    assert [check_keep(word) for word in ("2M", "5k", "0.1", "500", " 10 % ")] == [
        2_000_000,
        5000,
        0.1,
        500,
        0.1,
    ]
    for word in ("-5", "+0.5", "1.5", "many", "5 T"):
        with pytest.raises(InvalidParameter, match="keep must be"):
            check_keep(word)


def test_strata_share_the_budget_beside_the_class() -> None:
    language = np.where(np.arange(400) % 10 < 2, "de", "en")
    month = (np.arange(400) // 50) % 2
    found = gmmatch.select(
        ROWS, LABELS, keep=80, strata={"language": language, "month": month}, budgets="equal"
    )
    cells = np.unique(np.stack([LABELS, language == "de", month]), axis=1)
    assert found.info.aims == {"strata": {"columns": ["language", "month"], "parts": cells.shape[1]}}
    kept = np.stack([LABELS, language == "de", month])[:, found.indices]
    counts = np.unique(kept, axis=1, return_counts=True)[1]
    assert len(counts) == cells.shape[1]
    assert set(counts.tolist()) == {5}
    proportional = gmmatch.select(ROWS, LABELS, keep=80, strata=language)
    assert np.count_nonzero(language[proportional.indices] == "de") == 16


def test_a_mapping_gives_each_value_of_a_column_its_share() -> None:
    language = np.where(np.arange(400) % 10 < 2, "de", "en")
    found = gmmatch.select(ROWS, LABELS, keep=80, strata={"language": language}, budgets={"de": 1, "en": 3})
    assert np.count_nonzero(language[found.indices] == "de") == 20
    with pytest.raises(InvalidInput, match="budgets must name every value of one of class, language"):
        gmmatch.select(ROWS, LABELS, keep=80, strata={"language": language}, budgets={"de": 1, "fr": 3})


def test_a_value_has_a_least_and_a_most() -> None:
    source = np.array(["a", "b", "c"])[(np.arange(400) % 20 > 1).astype(int) + (np.arange(400) % 20 > 9)]
    bounds = {"a": (30, 40), "b": (0, 50), "c": (10, 400)}
    found = gmmatch.select(ROWS, LABELS, keep=200, strata={"source": source}, budgets=bounds)
    counts = {name: int((source[found.indices] == name).sum()) for name in "abc"}
    assert counts == {"a": 30, "b": 50, "c": 120}
    first = gmmatch.select(ROWS, LABELS, keep=20, strata={"source": source}, budgets=bounds)
    assert (first.indices == found.indices[:20]).all()
    assert "less than their least" in str(first.info.hint)
    few = gmmatch.select(
        ROWS, LABELS, keep=50, strata={"source": source}, budgets=dict.fromkeys("abc", (0, 10))
    )
    assert len(few) == 30
    assert "30 rows, the most that strata allow" in str(few.info.hint)


@pytest.mark.parametrize("options", [{}, {"batch_size": 64}, {"engine": "processes"}])
def test_bounds_of_one_column_hold_beside_another(tmp_path: Path, options: Any) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    source = np.where(np.arange(400) % 10 < 2, "web", "book")
    month = (np.arange(400) // 40) % 2
    bounds = {"web": (48, 60), "book": (0, 400)}
    found = gmmatch.select(
        str(tmp_path / "rows.npy"),
        LABELS,
        keep=120,
        strata={"source": source, "month": month},
        budgets=bounds,
        **options,
    )
    picked = source[found.indices] == "web"
    assert len(found) == 120
    assert 48 <= picked.sum() <= 60
    # The months of a source share its rows as they share all rows of it, but for rounding.
    for name in ("web", "book"):
        own = found.indices[source[found.indices] == name]
        assert abs(int(month[own].sum()) - len(own) / 2) <= 4
    # The least come first.
    first = found.indices[:48]
    assert (source[first] == "web").mean() > 0.5
    most = gmmatch.select(
        ROWS, LABELS, keep=390, strata={"source": source, "month": month}, budgets={**bounds, "web": (0, 50)}
    )
    assert np.count_nonzero(source[most.indices] == "web") == 50
    assert "the most that strata allow" in str(most.info.hint)


def test_parts_without_a_pick_are_named() -> None:
    found = gmmatch.select(ROWS, LABELS, keep=20, strata=np.arange(400) % 40)
    assert len(found) == 20
    assert "parts have no pick, such as class=" in str(found.info.hint)


def test_picks_of_a_stratum_match_its_mean() -> None:
    halves = (ROWS[:, 0] > 0).astype(int)
    found = gmmatch.select(ROWS, keep=120, strata=halves, guard="off", center="mean")
    for half in range(2):
        own = found.indices[halves[found.indices] == half]
        alone = gmmatch.select(
            ROWS[halves == half], keep=len(own), guard="off", center="mean", clusters="off"
        )
        assert (own == np.flatnonzero(halves == half)[alone.indices]).all()


def test_only_the_better_rows_of_a_class_compete() -> None:
    found = gmmatch.select(ROWS, LABELS, keep=60, quality=COST)
    for code in range(4):
        median = np.sort(COST[code == LABELS])[50]
        assert COST[found.indices[LABELS[found.indices] == code]].min() >= median
    assert found.info.aims is not None
    told = found.info.aims["quality"]
    assert told["objective"] > told["without"] > 0
    assert told["compete"] == 200
    lighter = gmmatch.select(ROWS, LABELS, keep=60, quality=(COST, 0.1))
    assert COST[found.indices].mean() > COST[lighter.indices].mean() > COST.mean() - 1
    # What is asked for is left, whatever the weight.
    assert len(gmmatch.select(ROWS, LABELS, keep=300, quality=(COST, 0.9))) == 300
    with pytest.raises(InvalidParameter, match="weight of quality must be between 0 and 1; got 2"):
        gmmatch.select(ROWS, LABELS, quality=(COST, 2))


def test_the_command_line_has_the_same_words(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "labels.npy", LABELS)
    np.save(tmp_path / "cost.npy", COST)
    np.save(tmp_path / "test.npy", ROWS[:5])
    given = ["select", str(tmp_path / "rows.npy"), "--labels", str(tmp_path / "labels.npy"), "--json"]
    kept, cost = str(tmp_path / "kept.parquet"), str(tmp_path / "cost.npy")
    aims = ["--cost", cost, "--holdout", str(tmp_path / "test.npy"), "--duplicates", "drop"]
    ran = CliRunner().invoke(app, [*given, "--keep", "300", *aims, "--quality", f"{cost}=0.2", "-o", kept])
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout.strip().splitlines()[-1])
    assert told["leaks"]["rows"] == 5
    assert told["aims"]["cost"]["spent"] <= 300
    spoken = CliRunner().invoke(
        app, [*given[:-1], "--keep", "300", "--cost", cost, "-o", str(tmp_path / "paid.csv")]
    )
    assert "; they cost 29" in spoken.stdout
    assert " of 300; " in spoken.stdout
    again = CliRunner().invoke(
        app, [*given, "--keep", "+10", "--include", kept, "-o", str(tmp_path / "more.parquet")]
    )
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout.strip().splitlines()[-1])["kept"] == told["kept"] + 10


def test_a_plan_takes_aims() -> None:
    assert gmmatch.plan(ROWS, LABELS, keep=500, cost=COST).keep == round(500 / COST.mean())
    assert gmmatch.plan(ROWS, LABELS, keep=50, holdout=ROWS[:3], duplicates="drop").keep == 50


def test_a_saved_state_belongs_to_its_aims() -> None:
    data, checked = Dataset(ROWS, "X", "array"), check_input(ROWS, LABELS)
    asked: list[dict[str, Any]] = [
        {},
        {"exclude": [1]},
        {"exclude": [2]},
        {"duplicates": "drop"},
        {"strata": LABELS},
        {"cost": COST},
    ]
    recipes = [open_aims(Aims(**own), data, checked, 0).recipe().get("aims") for own in asked]
    assert recipes[0] is None
    assert len(set(recipes)) == len(recipes)


def test_a_share_is_one_of_all_rows_whatever_their_quality() -> None:
    wished = {"quality": np.arange(len(ROWS)) % 7.0}
    k = len(gmmatch.select(ROWS, LABELS, keep=0.1))
    assert len(gmmatch.select(ROWS, LABELS, keep=0.1, **wished)) == k
    assert len(gmmatch.select(ROWS, keep="10%", **wished)) == k
    paid = gmmatch.select(ROWS, LABELS, keep=0.1, cost=np.ones(len(ROWS)), **wished)
    assert len(paid) == k
    assert paid.info.aims["cost"]["budget"] == pytest.approx(0.1 * len(ROWS))


def test_a_budget_that_one_dear_row_leaves_unspent_is_pointed_out() -> None:
    cost = np.ones(len(ROWS))
    first = gmmatch.select(ROWS, LABELS, keep=40).indices
    cost[first[10]] = 60
    found = gmmatch.select(ROWS, LABELS, keep=40, cost=cost)
    assert len(found) < 40
    assert "of 40 cost were spent, because the next pick costs 60; exclude rows" in str(found.info.hint)
    others = gmmatch.select(ROWS, LABELS, keep=40, cost=cost, exclude=[int(first[10])])
    assert len(others) == 40
    assert "spent" not in str(others.info.hint)


@pytest.mark.parametrize("aim", ["cost", "quality"])
def test_numbers_may_be_tensors_that_track_gradients(aim: str) -> None:
    torch = pytest.importorskip("torch")
    given = torch.ones(len(ROWS), requires_grad=True)
    assert len(gmmatch.select(ROWS, LABELS, keep=40, **{aim: given})) == 40


def test_a_budget_in_the_unit_of_a_cost_need_not_be_whole(tmp_path: Path) -> None:
    found = gmmatch.select(ROWS, LABELS, keep=150.5, cost=COST)
    assert found.info.aims is not None
    assert found.info.aims["cost"]["budget"] == 150.5
    assert 150.5 - COST.max() < COST[found.indices].sum() <= 150.5
    again = gmmatch.select(ROWS, LABELS, keep="150.5", cost=COST)
    assert again.indices.tolist() == found.indices.tolist()
    assert found.settings["keep"] == 150.5
    with pytest.raises(InvalidParameter, match=r"keep must be a fraction in \(0, 1\] or a count"):
        gmmatch.select(ROWS, LABELS, keep=150.5)


def test_as_many_rows_as_are_enough_have_a_cost_as_well() -> None:
    found = gmmatch.select(ROWS, LABELS, keep="auto", cost=COST)
    assert found.indices.tolist() == gmmatch.select(ROWS, LABELS, keep="auto").indices.tolist()
    assert found.info.aims is not None
    assert found.info.aims["cost"]["spent"] == pytest.approx(COST[found.indices].sum())
