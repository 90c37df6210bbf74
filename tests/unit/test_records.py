import dataclasses
import json
import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.errors import InvalidInput, InvalidParameter


@pytest.fixture
def selection():
    rng = np.random.default_rng(0)
    return gmmatch.select(
        rng.normal(size=(50, 4)), keep=10, labels=np.array(["x", "y"])[rng.integers(0, 2, 50)], random_state=3
    )


def as_0_2(table):
    """Return the table of a selection file as version 0.2 wrote it, without a digest."""
    told = json.loads(table.schema.metadata[b"gmmatch"]) | {"format": 2}
    return table.replace_schema_metadata({b"gmmatch": json.dumps(told)})


def test_a_saved_selection_comes_back_whole(selection, tmp_path):
    selection.save(tmp_path / "kept.parquet")
    back = gmmatch.load_selection(tmp_path / "kept.parquet")
    for name in ("indices", "scores", "distances", "labels"):
        assert getattr(back, name).tolist() == getattr(selection, name).tolist()
    for name in ("objective", "method", "n_rows", "random_state", "epsilon", "fingerprint", "versions"):
        assert getattr(back, name) == getattr(selection, name)
    assert back.params["step"] == "teaching"
    assert (back.centers == selection.centers).all()
    assert (back.mask() == selection.mask()).all()
    assert (gmmatch.Selection.load(tmp_path / "kept.parquet").indices == selection.indices).all()


def test_files_leave_out_centres_that_are_very_many(selection, tmp_path):
    many = dataclasses.replace(selection, centers=np.zeros((600, 500)))
    many.save(tmp_path / "kept.parquet")
    assert gmmatch.load_selection(tmp_path / "kept.parquet").centers is None


def test_the_file_has_the_promised_columns(selection, tmp_path):
    selection.save(tmp_path / "kept.parquet")
    table = pq.read_table(tmp_path / "kept.parquet")
    assert table.column_names == ["id", "row", "label", "rank", "score", "distance", "tier", "weight"]
    assert table.column("rank").to_pylist() == list(range(10))
    assert table.column("id").to_pylist() == table.column("row").to_pylist() == selection.indices.tolist()
    facts = json.loads(table.schema.metadata[b"gmmatch"])
    assert facts["versions"]["gmmatch"] == gmmatch.__version__
    assert facts["fingerprint"] == selection.fingerprint != ""


def test_nothing_half_written_stays_behind(selection, tmp_path):
    with pytest.raises(InvalidInput, match="cannot write"):
        selection.save(tmp_path / "no such folder" / "kept.parquet")
    blocked = tmp_path / "blocked.parquet"
    blocked.mkdir()
    with pytest.raises(InvalidInput, match="cannot write"):
        selection.save(blocked)
    assert list(tmp_path.iterdir()) == [blocked]


def test_other_files_are_refused_in_one_sentence(tmp_path):
    import pyarrow as pa

    (tmp_path / "text.parquet").write_text("not parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    for name, words in (("text.parquet", "cannot read the selection"), ("other.parquet", "not a selection"),
                        ("missing.parquet", "cannot read the selection")):  # fmt: skip
        with pytest.raises(InvalidInput, match=words):
            gmmatch.load_selection(tmp_path / name)


def test_arrays_among_the_parameters_are_recorded_by_shape(tmp_path):
    picked = gmmatch.select(np.eye(5), keep=2, center=np.zeros(5))
    picked.save(tmp_path / "kept.parquet")
    assert gmmatch.load_selection(tmp_path / "kept.parquet").params["center"] == "array of shape (5,)"


def test_the_tiers_and_the_evidence_come_back_from_the_file(selection, tmp_path):
    selection.save(tmp_path / "kept.parquet")
    back = gmmatch.load_selection(tmp_path / "kept.parquet")
    assert back.tiers.tolist() == selection.tiers.tolist()
    assert back.info == selection.info
    for name in ("tiers", "suggested", "unlikely", "far", "clumped"):
        assert getattr(back.evidence, name).tolist() == getattr(selection.evidence, name).tolist()
    for name in ("wrong", "likely", "outside", "outlier", "estimate", "doubt"):
        np.testing.assert_array_equal(getattr(back.evidence, name), getattr(selection.evidence, name))
    tiers = pq.read_table(tmp_path / "kept.parquet")["tier"].to_pylist()
    assert tiers == selection.tiers[selection.indices].tolist()


def test_the_head_of_a_selection_is_what_a_smaller_budget_keeps():
    rows = np.random.default_rng(1).normal(size=(300, 6))
    some, all_of_them = (gmmatch.select(rows, keep=keep, clusters="off") for keep in (30, 90))
    head = all_of_them.head(30)
    assert head.indices.tolist() == some.indices.tolist()
    assert (len(head), head.info.kept) == (30, 30)
    assert head.objective == pytest.approx(some.objective)
    with pytest.raises(InvalidInput, match="from 1 to 90 picks; got 91"):
        all_of_them.head(91)


def test_weights_say_how_many_believed_rows_of_its_class_a_pick_stands_for(tmp_path):
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], [400, 50])
    rows = rng.normal(size=(450, 6)) + 6.0 * labels[:, None]
    found = gmmatch.select(rows, keep=60, labels=labels, budgets="equal")
    believed = np.bincount(labels[found.tiers == 0])
    expected = (believed / np.bincount(found.labels))[found.labels]
    np.testing.assert_allclose(found.weights, expected / expected.mean())
    np.testing.assert_allclose(
        found.head(11).weights, gmmatch.select(rows, keep=11, labels=labels, budgets="equal").weights
    )
    found.save(tmp_path / "kept.parquet")
    np.testing.assert_array_equal(gmmatch.load_selection(tmp_path / "kept.parquet").weights, found.weights)
    given = np.where(rng.random(450) < 0.4, 1 - labels, labels)  # doubtful rows follow within a class's share
    most = gmmatch.select(rows, keep=0.8, labels=given, budgets="equal")
    assert most.weights.mean() == pytest.approx(1.0)
    assert np.isfinite(most.weights).all()
    clusters = gmmatch.select(rows, keep=30)
    assert clusters.weights.mean() == pytest.approx(1.0)
    assert clusters.weights.min() > 0.0


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([0, -1], "column row has -1; expected numbers from 0 to 49"),
        ([0, 50], "column row has 50; expected numbers from 0 to 49"),
        ([7, 7], "row 7 is there more than once; expected every row once"),
        ([0.5, 1.0], "column row holds float64; expected whole numbers"),
    ],
)
def test_rows_that_no_selection_can_have_are_refused(selection, tmp_path, column, words):
    file = tmp_path / "kept.parquet"
    selection.head(2).save(file)
    table = as_0_2(pq.read_table(file))
    place = table.column_names.index("row")
    pq.write_table(table.set_column(place, "row", pa.array(column)), file)
    with pytest.raises(InvalidInput) as caught:
        gmmatch.load_selection(file)
    assert str(caught.value) == f"the selection {file} is damaged: {words}"


def test_a_selection_is_read_from_a_file_and_nothing_else(selection, tmp_path):
    selection.save(tmp_path / "kept.parquet")
    for path in (tmp_path, tmp_path / "missing.parquet"):
        with pytest.raises(InvalidInput, match=r"there is no such file$"):
            gmmatch.load_selection(path)
    with pytest.raises(InvalidParameter, match="writes Parquet"):
        selection.save(tmp_path / "kept.csv")
    assert [file.name for file in tmp_path.iterdir()] == ["kept.parquet"]


@pytest.mark.parametrize("k", [0, 11, 2.5, "3", True, None])
def test_a_head_is_a_whole_number_of_picks(selection, k):
    with pytest.raises(InvalidInput, match=f"head takes from 1 to 10 picks; got {k!r}"):
        selection.head(k)


@pytest.mark.parametrize("key", ["rows", "method", "params", "n_rows", "has_ids", "centers", "format"])
def test_a_selection_without_something_that_it_must_have_is_refused(selection, tmp_path, key):
    file = tmp_path / "kept.parquet"
    selection.save(file)
    table = as_0_2(pq.read_table(file))
    told = json.loads(table.schema.metadata[b"gmmatch"])
    del told[key]
    pq.write_table(table.replace_schema_metadata({b"gmmatch": json.dumps(told)}), file)
    with pytest.raises(InvalidInput, match=r"not those of a selection|selection format None"):
        gmmatch.load_selection(file)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".npy", ".txt"])
def test_names_of_files_need_not_be_text(tmp_path, ending):
    if sys.platform == "darwin":
        pytest.skip("file names are text on this system")
    source, output = (tmp_path / os.fsdecode(name) for name in (b"\xffrows.npy", b"\xffkept"))
    np.save(source, np.eye(10))
    output = output.with_suffix(ending)
    gmmatch.select(source, keep=2, output=output)
    assert output.exists()
    if ending == ".parquet":
        assert len(gmmatch.load_selection(output)) == 2


def same(one, other):
    """Return True if two selections say the same."""
    arrays = ("indices", "scores", "distances", "labels", "ids", "tiers", "centers")
    parts = (
        "tiers",
        "wrong",
        "suggested",
        "unlikely",
        "far",
        "clumped",
        "outside",
        "outlier",
        "likely",
    )
    plain = ("objective", "method", "params", "n_rows", "random_state", "epsilon", "info")
    pairs = [(getattr(one, name), getattr(other, name)) for name in arrays]
    pairs += [(getattr(one.evidence, name), getattr(other.evidence, name)) for name in parts]
    return all(np.array_equal(a, b) for a, b in pairs) and all(
        getattr(one, name) == getattr(other, name) for name in plain
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_selection_with_flipped_bits_is_refused_or_says_the_same(selection, tmp_path, seed):
    file = tmp_path / "kept.parquet"
    selection.save(file)
    whole, expected = file.read_bytes(), gmmatch.load_selection(file)
    rng = np.random.default_rng(seed)
    for count in (1, 1, 1, 1, 4):
        content = bytearray(whole)
        for place in rng.integers(0, len(content), count):
            content[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
        try:
            back = gmmatch.load_selection(file)
        except InvalidInput:
            continue
        assert same(back, expected)


def test_a_selection_that_was_changed_is_refused(selection, tmp_path):
    file = tmp_path / "kept.parquet"
    selection.save(file)
    table = pq.read_table(file)
    pq.write_table(table.slice(0, 3), file)
    with pytest.raises(InvalidInput, match="its content is not what was written; select again"):
        gmmatch.load_selection(file)


def packed(values, **declared):
    return gmmatch.facts.pack_array(np.asarray(values)) | declared


BOMB = packed(np.zeros(1 << 26, np.int8), shape=[1 << 26])  # 64 MB in 64 kB
FORGED = {
    "n_rows": [50.0, "50", True, -1, 10**400, None],
    "params": [[1], None],
    "random_state": [[1], "0"],
    "settings": [[1], "x"],
    "fingerprint": [3, None],
    "method": [7],
    "versions": [[]],
    "centers": [BOMB, packed(np.zeros(8)), packed([1.0], shape=[-1]), packed([1.0], dtype="|O")],
    "carried": [{"labels": {}, **dict.fromkeys(("counts", "totals", "targets", "rows"), BOMB)}],
    "tiers in evidence": [BOMB, packed(np.zeros(3, np.int8)), packed(np.full(50, 9, np.int8))],
    "far in evidence": [BOMB, packed(np.zeros(49, bool))],
    "wrong in evidence": [BOMB, packed(np.zeros(49, "<f4"))],
    "suggested in evidence": [packed(np.full(50, -1, "<i4")), packed(np.zeros(3, "<i4"))],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_selection_that_somebody_forged_is_refused(selection, tmp_path, name):
    """Its digest is right; what it declares is looked at before it is unpacked."""
    file, (key, _, inside) = tmp_path / "kept.parquet", name.partition(" in ")
    selection.save(file)
    table, about = pq.read_table(file), pq.ParquetFile(file).metadata.metadata
    for value in FORGED[name]:
        info, evidence = (json.loads(about[part]) for part in (b"gmmatch", b"gmmatch.evidence"))
        (evidence if inside else info)[key] = value
        told, beside = json.dumps(info), json.dumps(evidence)
        forged = table.replace_schema_metadata({"gmmatch": told})
        digest = gmmatch.facts.digest_of_table(forged, told.encode(), beside.encode())
        with pq.ParquetWriter(file, forged.schema) as writer:
            writer.write_table(forged)
            writer.add_key_value_metadata({"gmmatch.evidence": beside, "gmmatch.digest": digest})
        tracemalloc.start()
        with pytest.raises(InvalidInput, match="damaged"):
            gmmatch.load_selection(file)
        assert tracemalloc.get_traced_memory()[1] < 16e6
        tracemalloc.stop()


def test_a_selection_of_more_rows_than_memory_holds_is_refused(selection, tmp_path, monkeypatch):
    """Equal rows take no room in a file, so that a small one may declare any number of them."""
    selection.save(tmp_path / "kept.parquet")
    monkeypatch.setattr(gmmatch.records, "machine_memory", lambda: 8 * 10 * 8 - 1)
    with pytest.raises(InvalidInput, match="declares more rows than memory holds"):
        gmmatch.load_selection(tmp_path / "kept.parquet")


def test_a_real_file_of_0_2_opens():
    """The file was written by 0.2.0 from 60 rows of two classes."""
    found = gmmatch.load_selection(Path(__file__).parent / "data_0_2" / "kept.parquet")
    assert found.indices.tolist() == [28, 20, 29, 8, 54, 7, 21, 30, 27, 2, 56, 10]
    assert found.ids.tolist() == [f"row-{row:02d}" for row in found.indices]
    assert found.versions["gmmatch"] == "0.2.0"
    assert (found.n_rows, found.objective) == (60, pytest.approx(0.3071135342894234))
    assert len(found.evidence.wrong) == len(found.tiers) == 60
    assert sorted(set(found.labels)) == ["cat", "dog"]


def test_the_same_selection_is_the_same_bytes(tmp_path):
    """However long it took, wherever it is written."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(90, 4)), np.arange(90) % 3
    for name in ("one.parquet", "other.parquet"):
        gmmatch.select(rows, labels, keep=9).save(tmp_path / name)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "other.parquet").read_bytes()


def test_picks_are_taken_by_places_and_by_a_mask(selection):
    places, mask = [3, 0, 7], np.arange(len(selection)) % 3 == 0
    assert selection[places].indices.tolist() == selection.indices[places].tolist()
    assert selection[np.array(places)].to_pandas()["row"].tolist() == selection.indices[places].tolist()
    assert selection[mask].indices.tolist() == selection.indices[mask].tolist()
    assert len(selection[[]]) == 0
    assert selection[np.int64(2)] == selection.indices[2]
    for wrong in (len(selection), [99], "a", 1.5, np.ones(3, bool)):
        with pytest.raises(IndexError, match="a selection of 10 picks takes a slice, places, or a mask"):
            selection[wrong]


def test_a_part_of_a_selection_counts_its_own_tiers():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4)) + 3.0 * np.eye(4)[np.arange(60) % 3]
    whole = gmmatch.select(rows, np.roll(np.arange(60), 1) // 20, keep=1.0)
    part = whole[:45]
    tiers = np.bincount(whole.tiers[part.indices], minlength=3).tolist()
    assert list(part.info.guard["picked"].values()) == tiers != list(whole.info.guard["picked"].values())


def test_a_loaded_selection_shows_how_its_verbs_take_the_data(selection, tmp_path):
    selection.save(tmp_path / "kept.parquet")
    loaded = gmmatch.load_selection(tmp_path / "kept.parquet")
    calls = {
        "suspects(data=...)": (),
        "report(path, data=...)": ("x",),
        "materialize(folder, data=...)": ("x",),
    }
    for call, given in calls.items():
        with pytest.raises(InvalidInput) as caught:
            getattr(loaded, call.partition("(")[0])(*given)
        assert f"pass it: sel.{call} (" in str(caught.value)


@pytest.mark.parametrize(
    ("ours", "asked", "words"),
    [
        (0.72, 1024, "gets 72 % of the labels of other rows right; trained on 200 random rows, 60 %."),
        (0.72, 50, "trained on 200 random rows, 60 % (the difference may be chance)."),
        (0.61, 1024, "trained on 200 random rows, 60 % (the difference may be chance)."),
    ],
)  # fmt: skip
def test_what_was_learned_is_called_chance_where_it_may_be(selection, ours, asked, words):
    accuracy = {"rows": {"linear": [0.3, ours]}, "random": {"linear": [0.3, 0.6]}}
    strategy = {"strategy": "rows", "picks": [20, 200], "asked": asked, "accuracy": accuracy}
    info = dataclasses.replace(selection.info, kept=150, strategy=strategy)
    assert words in info.learned()
    assert info.learned().endswith("Wrong labels count against both.")
