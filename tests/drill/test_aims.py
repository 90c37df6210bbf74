"""What is said of rows beside their labels meets its rows, and what is asked for is met, or said not to be.

Costs, qualities, strata, groups, scores and probabilities in files of every kind; rows that files name; and
several wishes at once, of which every one is counted again here.
"""

import collections
import itertools
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import gmmatch
from gmmatch.aims.include import find_rows
from gmmatch.data import values_of_rows
from gmmatch.errors import GmmatchError
from gmmatch.inputs import gather_known
from gmmatch.selectors import find_method
from gmmatch.validation import check_input

from .test_doors import IDS, LABELS, RNG, ROWS, N, _may_have, _reads, _spelled, write_labels

ENDINGS = {"scores": (".csv", ".tsv", ".jsonl", ".parquet", ".arrow", ".npz")}
ENDINGS |= dict.fromkeys(("strata", "groups"), ENDINGS["scores"]) | {"probabilities": (".csv", ".parquet")}
CODES = np.arange(N) % 7  # the value of each row, which says whose it is: one in every class


def said_of_rows(what, path, data):
    """Return the value that each row was given by a file."""
    if what != "probabilities":
        return values_of_rows(data, f"{path}:label", what)
    known, _ = gather_known(data, check_input(data.rows, CODES), probabilities=path)
    return known.probabilities.argmax(axis=1)


def write_values(what, path, keys, values):
    if what != "probabilities":
        write_labels(path, keys, values.tolist())
        return
    table = {"id": keys, **{str(name): np.where(values == name, 0.94, 0.01) for name in range(7)}}
    write = csv.write_csv if path.suffix == ".csv" else pq.write_table
    write(pa.table(table), path)


@pytest.mark.drill
@pytest.mark.parametrize(
    ("what", "ending"), [(what, ending) for what, endings in ENDINGS.items() for ending in endings]
)
def test_values_are_on_their_rows_or_refused(what, ending, tmp_path, monkeypatch, told):
    monkeypatch.chdir(tmp_path)
    path, joined, refused = Path(f"values{ending}"), 0, []
    for theirs in IDS:
        order = RNG.permutation(N)
        write_values(what, path, [IDS[theirs](row) for row in order.tolist()], LABELS[order])
        for ours in IDS:
            try:
                data = gmmatch.open(ROWS, ids=[IDS[ours](row) for row in range(N)])
                found = said_of_rows(what, path, data)
            except GmmatchError as error:
                refused.append((ours, theirs, str(error)))
                continue
            joined += 1
            wrong = [row for row in range(N) if not _may_have(ours, theirs, row, found[row])]
            assert not wrong, (theirs, ours, wrong)
    assert joined >= len(IDS) - 2
    for ours, theirs, sentence in refused:
        assert ours != theirs or ours in ("like names", "fractions"), (ours, sentence)
        assert len(sentence.splitlines()) == 1
    where = f"{what} in files that end in `{ending}`"
    cases = joined + len(refused)
    told("ids of every kind on both sides", where, cases, f"{joined} joined, none wrong; the others refused")


@pytest.mark.drill
@pytest.mark.parametrize("ending", [".csv", ".txt", ".parquet", ".npy"])
def test_rows_that_a_file_names(ending, tmp_path, monkeypatch, told):
    monkeypatch.chdir(tmp_path)
    path, named, refused = Path(f"rows{ending}"), 0, []
    checked = check_input(ROWS)
    for ours, theirs, carrier in itertools.product(IDS, IDS, ("named", "a column")):
        rows = RNG.choice(N, 5, replace=False).tolist()
        keys = [IDS[theirs](row) for row in rows]
        if ending == ".npy":
            np.save(path, np.array(keys))
        elif ending == ".parquet":
            pq.write_table(pa.table({"id": keys}), path)
        else:
            path.write_text(
                "id\n" * (ending == ".csv") + "".join(f"{key}\n" for key in keys), encoding="utf-8"
            )
        ids = [IDS[ours](row) for row in range(N)]
        pq.write_table(pa.table({"v": ROWS.tolist(), "id": ids}), "data.parquet")
        try:
            data = gmmatch.open("data.parquet") if carrier == "a column" else gmmatch.open(ROWS, ids=ids)
            found = find_rows(path, data, checked, "exclude").tolist()
        except GmmatchError as error:
            refused.append((ours, theirs, carrier, str(error)))
            continue
        named += 1
        meant = set().union(*map(_reads, keys))
        if list(map(str, found)) != list(
            map(_spelled, keys)
        ):  # which are the numbers of rows, where none of them is an id
            assert all(_reads(ids[row]) & meant for row in found), (ours, theirs, carrier)
        assert len(found) >= 5 or ours == "like names" or theirs == "like names", (ours, theirs, carrier)
    for ours, theirs, carrier, sentence in refused:
        assert (ours, carrier) != (theirs, "named") or ours == "fractions", (ours, sentence)
        assert len(sentence.splitlines()) == 1
    where, cases = f"rows that a file names that ends in `{ending}`", named + len(refused)
    told("ids of every kind on both sides", where, cases, f"{named} found, none wrong; the others refused")


# ---- several wishes at once ----


def make_data(rng):
    n_rows, n_classes = int(rng.choice([60, 150, 400])), int(rng.choice([2, 3, 6]))
    true = rng.integers(0, n_classes, n_rows)
    width = int(rng.choice([2, 8, 40]))
    rows = rng.normal(size=(n_rows, width)) + 3 * rng.normal(size=(n_classes, width))[true]
    given = np.where(rng.random(n_rows) < 0.2 * rng.random(), rng.integers(0, n_classes, n_rows), true)
    if rng.random() < 0.3:
        rows[: n_rows // 10] = rows[n_rows // 10 : 2 * (n_rows // 10)]
    return rows.astype(rng.choice(["f4", "f8"])), given, true


def make_wishes(rng, rows, given, true):
    """Return up to four wishes at once, and how much to keep."""
    n_rows, n_classes = len(rows), len(np.unique(given))

    def choose(most):
        return rng.choice(n_rows, int(rng.integers(1, most)), replace=False)

    sure = np.full((n_rows, n_classes), 0.2 / max(1, n_classes - 1))
    sure[np.arange(n_rows), np.minimum(true, n_classes - 1)] = 0.8
    some = choose(n_rows // 5)
    makers = {
        "reference": lambda: (rows[some] + 0.1, given[some]),
        "probabilities": lambda: sure,
        "fix": lambda: float(rng.choice([0, 0.5, 0.9, 1])),
        "match_to": lambda: rows[choose(n_rows // 6)] + 0.05,
        "include": lambda: choose(10),
        "exclude": lambda: choose(n_rows // 2),
        "holdout": lambda: rows[choose(n_rows // 10)],
        "duplicates": lambda: "drop",
        "cost": lambda: rng.integers(0, 20, n_rows).astype(float),
        "strata": lambda: rng.integers(0, 3, n_rows),
        "quality": lambda: (rng.integers(0, 9, n_rows) / 8, float(rng.choice([0.3, 0.5, 0.9]))),
        "budgets": lambda: str(rng.choice(["sqrt", "equal", "proportional"])),
        "guard": lambda: str(rng.choice(["auto", "off"])),
        "method": lambda: str(rng.choice(["random", "easy", "herding", "k-center", "moderate", "hard"])),
    }
    names = rng.choice([*makers], int(rng.integers(2, 5)), replace=False).tolist()
    wishes = {name: makers[name]() for name in names}
    wishes["keep"] = [0.1, 0.5, 1.0, 20, n_rows, "10%", "+15"][int(rng.integers(7))]
    return wishes


def check_wishes(rows, given, wishes, found):
    """Count again what was asked for."""
    picks, info = found.indices, found.info
    members, first = set(picks.tolist()), np.asarray(wishes.get("include", ()), int).tolist()
    assert len(members) == len(picks) == info.kept == len(found.weights) == len(found.scores)
    assert picks[: len(first)].tolist() == first
    assert not members & set(np.asarray(wishes.get("exclude", ()), int).tolist())
    held = {row.tobytes() for row in np.asarray(wishes.get("holdout", rows[:0]))}
    assert not [row for row in members - set(first) if rows[row].tobytes() in held]
    if "duplicates" in wishes:
        counts = collections.Counter(rows[row].tobytes() for row in members - set(first))
        assert max(counts.values(), default=1) == 1
        assert not counts.keys() & {rows[row].tobytes() for row in first}
    if "cost" in wishes:
        told = info.aims["cost"]
        assert told["spent"] == pytest.approx(wishes["cost"][picks].sum())
        assert told["spent"] <= told["budget"] * (1 + 1e-9)
        if isinstance(wishes["keep"], int):
            assert told["budget"] == wishes["keep"]
    elif isinstance(wishes["keep"], int) or wishes["keep"] == "+15":
        asked = wishes["keep"] if isinstance(wishes["keep"], int) else 15 + len(first)
        assert len(picks) == asked or info.hint, "fewer rows than asked for, and nothing said"
    if "fix" in wishes:
        assert found.given_labels.tolist() == given[picks].tolist()
        assert "labels were changed" in info.hint
    else:
        assert found.labels.tolist() == given[picks].tolist()
    if found.tiers is not None:
        counts = np.bincount(found.tiers[found.tiers >= 0], minlength=len(info.tiers)).tolist()
        assert counts == list(info.tiers.values())
    assert np.isfinite(found.weights).all()
    assert (found.weights >= 0).all()


def same_again(rng, rows, given, wishes):
    """Return another way to ask for the same, by name."""
    way = ["memory order", "less memory", "files", "row order"][int(rng.integers(4))]
    if way == "memory order":
        return way, gmmatch.select(np.asfortranarray(rows), given, **wishes).indices
    if way == "less memory":
        return way, gmmatch.select(rows, given, memory="300MB", **wishes).indices
    # Of near-duplicates that are believed alike the first stays.
    ordered = "duplicates" in wishes or not find_method(wishes.get("method", "gm-matching")).equivariant
    if way == "row order" and not ordered and len(np.unique(rows, axis=0)) == len(rows):
        order = rng.permutation(len(rows))
        moved = dict(wishes)
        for name in ("cost", "strata", "probabilities"):
            moved |= {name: wishes[name][order]} if name in wishes else {}
        for name in ("include", "exclude"):
            moved |= {name: np.argsort(order)[wishes[name]]} if name in wishes else {}
        if "quality" in wishes:
            moved["quality"] = wishes["quality"][0][order], wishes["quality"][1]
        return way, order[gmmatch.select(rows[order], given[order], **moved).indices]
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", rows)
        np.save(f"{folder}/labels.npy", given)
        return way, gmmatch.select(f"{folder}/rows.npy", f"{folder}/labels.npy", **wishes).indices


@pytest.mark.drill
@pytest.mark.parametrize("part", range(4))
def test_several_wishes_at_once(part, told):
    cases, refused = 0, []
    for number in range(150):
        rng = np.random.default_rng([part, number])
        rows, given, true = make_data(rng)
        wishes = make_wishes(rng, rows, given, true)
        cases += 1
        try:
            found = gmmatch.select(rows, given, **wishes)
        except GmmatchError as error:
            refused.append(str(error))
            continue
        try:
            check_wishes(rows, given, wishes, found)
            way, again = same_again(rng, rows, given, wishes)
            moved = set(found.indices.tolist()) - set(again.tolist())
            assert len(again) == len(found), way
            assert not moved or (way == "row order" and len(moved) <= max(2, len(found) // 10)), way
        except (AssertionError, GmmatchError) as error:
            raise AssertionError(part, number, sorted(wishes), wishes["keep"]) from error
    assert len(refused) < cases / 3
    assert all(len(sentence.splitlines()) == 1 for sentence in refused)
    told(
        "two to four wishes at once",
        f"`select`, part {part + 1} of 4",
        cases,
        f"{cases - len(refused)} met, or said not to be, and the same in another order, memory or file;"
        f" {len(refused)} refused in one sentence",
    )
