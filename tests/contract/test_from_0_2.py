"""Calls of version 0.2 work until 0.4, and warn; mistaken calls get one line with the right one."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import GmmatchError, UnknownParameter

RNG = np.random.default_rng(0)
LABELS = np.repeat(["cat", "dog"], 100)
ROWS = RNG.normal(size=(200, 8)) + 2.0 * (LABELS == "dog")[:, None]
NAMES = [f"row-{number}" for number in range(200)]


def expected():
    return gmmatch.select(ROWS, LABELS, keep=0.1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gmmatch.select(ROWS, 0.1, LABELS),
        lambda: gmmatch.select(ROWS, "10%", LABELS, "gm-matching"),
        lambda: gmmatch.select(ROWS, 20, labels=LABELS),
        lambda: gmmatch.select(X=ROWS, labels=LABELS, keep=0.1),
        lambda: gmmatch.select(ROWS, y=LABELS, keep=0.1),
        lambda: gmmatch.select(ROWS, LABELS, keep=0.1, ids=NAMES),
        lambda: gmmatch.select(ROWS, LABELS, keep=0.1, on_bad_rows="drop"),
    ],
)
def test_calls_of_version_0_2_give_the_same_picks_and_warn(call) -> None:
    with pytest.warns(DeprecationWarning, match="goes with 0.4"):
        found = call()
    assert found.indices.tolist() == expected().indices.tolist()


def test_parameters_of_version_0_2_have_other_names_and_warn() -> None:
    new = {"fourier_features": 8, "clusters": 4}
    for make in (lambda **params: gmmatch.select(ROWS, keep=9, **params), gmmatch.GMMatching):
        with pytest.warns(DeprecationWarning, match="lift is called fourier_features now; .* goes with 0.4"):
            old = make(lift=8, cells=4)
        for found in (old, make(**new)):
            params = found.params if isinstance(found, gmmatch.Selection) else found.get_params()
            assert {name: params[name] for name in new} == new
    with pytest.warns(DeprecationWarning, match="cells is called clusters"):
        assert gmmatch.GMMatching().set_params(cells=4).clusters == 4


def test_outputs_of_version_0_2_are_written_and_warn(tmp_path) -> None:
    paths = {name: tmp_path / file for name, file in (("output", "k.parquet"), ("report", "p.html"))}
    with pytest.warns(DeprecationWarning, match=r"sel\.save"):
        gmmatch.select(ROWS, LABELS, keep=0.1, **paths)
    assert all(path.exists() for path in paths.values())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: gmmatch.select(ROWS, label=LABELS), "it is called labels"),
        (lambda: gmmatch.select(ROWS, LABELS, seed=3), "it is called random_state"),
        (lambda: gmmatch.select(ROWS, LABELS, k=3), "it is called keep"),
        (lambda: gmmatch.select(ROWS, LABELS, 0.1), "the rest by name"),
        (lambda: gmmatch.select(labels=LABELS), "select needs data"),
        (lambda: gmmatch.suspects(ROWS, label=LABELS), "it is called labels"),
        (lambda: gmmatch.suspects(ROWS, LABELS, nonsense=1), "suspects has no nonsense"),
        (lambda: gmmatch.select(ROWS, LABELS, nonsense=1), "nonsense"),
    ],
)
def test_a_mistaken_call_gets_one_line_that_shows_the_right_one(call, said) -> None:
    with pytest.raises(UnknownParameter, match=said) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gmmatch.select(ROWS, keep=LABELS),
        lambda: gmmatch.select(ROWS, LABELS, keep=ROWS),
        lambda: gmmatch.select(ROWS, LABELS, method=LABELS),
        lambda: gmmatch.select(ROWS, LABELS, guard=ROWS),
        lambda: gmmatch.select(ROWS, LABELS, budgets=LABELS),
        lambda: gmmatch.select(ROWS, LABELS, memory=LABELS),
        lambda: gmmatch.select(ROWS, LABELS, random_state=LABELS),
        lambda: gmmatch.select(ROWS, LABELS, fix=LABELS),
        lambda: gmmatch.select(ROWS, LABELS, engine=ROWS),
        lambda: gmmatch.select(ROWS, LABELS, task=LABELS),
        lambda: gmmatch.select(LABELS, ROWS),
        lambda: gmmatch.suspects(LABELS, ROWS),
        lambda: gmmatch.open(ROWS, on_bad_rows=ROWS),
    ],
)
def test_no_message_prints_the_data(call) -> None:
    with pytest.raises(GmmatchError) as raised:
        call()
    assert len(str(raised.value)) < 400
    assert "'cat'" not in str(raised.value)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_tasks_that_are_not_judged_are_refused_with_a_way_out(task) -> None:
    with pytest.raises(GmmatchError, match=task):
        gmmatch.select(ROWS, LABELS, keep=0.1, task=task)


def test_names_of_version_0_2_warn() -> None:
    with pytest.warns(DeprecationWarning, match="RunInfo"):
        assert gmmatch.Facts is gmmatch.RunInfo
    with pytest.warns(DeprecationWarning, match="info"):
        assert expected().facts.kept == 20


def test_dir_shows_public_names_only() -> None:
    assert sorted(gmmatch.__all__) == dir(gmmatch)


def test_the_verbs_of_a_selection(tmp_path) -> None:
    kept = expected()
    kept.save(tmp_path / "kept.parquet")
    loaded = gmmatch.load_selection(tmp_path / "kept.parquet")
    assert kept.report(tmp_path / "page.html").glance.kept == 20
    assert loaded.report(tmp_path / "again.html", ROWS, labels=LABELS).glance.kept == 20
    kept.materialize(tmp_path / "rows")
    loaded.materialize(tmp_path / "others", ROWS)
    rows, others = (np.load(tmp_path / name / "embeddings.npy") for name in ("rows", "others"))
    assert (rows == ROWS[kept.indices]).all()
    assert (others == rows).all()
    assert kept.suspects().suspicion.tolist() == gmmatch.suspects(ROWS, LABELS).suspicion.tolist()
    with pytest.raises(GmmatchError, match="pass it"):
        loaded.report(tmp_path / "third.html")
    with pytest.raises(GmmatchError, match="exists"):
        kept.report(tmp_path / "page.html")


def test_settings_repeat_a_run(tmp_path) -> None:
    kept = gmmatch.select(ROWS, LABELS, keep=0.2, budgets="equal", random_state=7, step="residual")
    kept.save(tmp_path / "kept.parquet")
    for one in (kept, gmmatch.load_selection(tmp_path / "kept.parquet")):
        assert gmmatch.select(ROWS, LABELS, **one.settings).indices.tolist() == kept.indices.tolist()
    paper = gmmatch.select(ROWS, LABELS, keep=0.2, method="gm-matching-paper")
    assert gmmatch.select(ROWS, LABELS, **paper.settings).indices.tolist() == paper.indices.tolist()


def test_some_picks_of_a_selection() -> None:
    kept = expected()
    assert kept[:5].indices.tolist() == kept.head(5).indices.tolist()
    assert kept[5:10].indices.tolist() == kept.indices[5:10].tolist()
    assert kept[3] == kept.indices[3]
    assert kept.to_pandas()["row"].tolist() == kept.indices.tolist()


def test_suspects_have_a_head_and_are_saved(tmp_path) -> None:
    found = gmmatch.suspects(gmmatch.open(ROWS, LABELS, ids=NAMES))
    assert found.head(3).rows.tolist() == found.rows[:3].tolist()
    found.save(tmp_path / "wrong.csv")
    assert (tmp_path / "wrong.csv").read_text().splitlines()[1].startswith(f"row-{found.rows[0]},")
    fixed = found.fix(above=0.5)
    assert fixed.shape == LABELS.shape


def test_a_selection_can_be_sent_and_copied_without_its_data() -> None:
    kept = gmmatch.select(gmmatch.open(ROWS, LABELS, ids=NAMES), keep=0.1)
    for twin in (pickle.loads(pickle.dumps(kept)), copy.deepcopy(kept)):
        assert twin.indices.tolist() == kept.indices.tolist()
        assert twin.made is None
        assert twin.info == kept.info
    assert len(pickle.dumps(kept)) < 50_000
