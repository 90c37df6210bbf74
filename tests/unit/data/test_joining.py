"""Labels meet rows by id or by position, in the order that is said, or the run stops."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from typer.testing import CliRunner

import gmmatch
from gmmatch.checkpoints import FileCheckpoint
from gmmatch.cli import app
from gmmatch.data import open_dataset, values_of_rows
from gmmatch.data.joining import id_column
from gmmatch.data.request import natural_order
from gmmatch.errors import InvalidInput, InvalidParameter

N = 30
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(N, 4))
LABELS = RNG.integers(0, 5, N)
ORDER = RNG.permutation(N)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    return tmp_path


def write_labels(ids, name="labels.csv", column="id", order=ORDER):
    """Write the labels of all rows under these ids, in another order than the rows'."""
    pairs = [(ids[row], int(LABELS[row])) for row in order]
    if name.endswith(".csv"):
        text = "".join(f"{key},{label}\n" for key, label in pairs)
        Path(name).write_text(f"{column},label\n{text}")
    elif name.endswith(".jsonl"):
        Path(name).write_text(
            "".join(json.dumps({column: key, "label": label}) + "\n" for key, label in pairs)
        )
    elif name.endswith(".npz"):
        np.savez(name, **{column: [key for key, _ in pairs], "label": [label for _, label in pairs]})
    else:
        pq.write_table(
            pa.table({column: [key for key, _ in pairs], "label": [label for _, label in pairs]}), name
        )
    return name


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.jsonl", "labels.npz"])
@pytest.mark.parametrize("make", [lambda n: n + 1, lambda n: f"{n:03d}", lambda n: f"img_{n}.png"])
def test_ids_of_rows_that_have_none_are_refused(here, name, make):
    ids = [make(row) for row in range(N)]
    with pytest.raises(
        InvalidInput, match=r"the rows of rows\.npy have none but their numbers, 0 to 29; give"
    ):
        open_dataset("rows.npy", write_labels(ids, name))
    # The way out that the sentence names: the file is in the order of the rows.
    write_labels(ids, name, order=range(N))
    assert open_dataset("rows.npy", name, ids=f"{name}:id").labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.jsonl", "labels.npz"])
@pytest.mark.parametrize("make", [int, str, float], ids=["whole", "text", "float"])
def test_row_numbers_are_ids_of_rows_that_have_none(here, name, make):
    if name.endswith(".csv") and make is float:
        pytest.skip("'0.0' is text in a CSV")
    found = open_dataset("rows.npy", write_labels([make(row) for row in range(N)], name))
    assert found.labels.tolist() == LABELS.tolist()


def test_rows_of_one_name_in_two_folders_are_not_told_apart(here):
    os.makedirs("photos/a"), os.makedirs("photos/b")
    for name in ("a/1.png", "b/1.png", "b/2.png"):
        Path(f"photos/{name}").touch()
    Path("labels.csv").write_text("file,label\n1.png,3\n")
    with pytest.raises(InvalidInput, match=r"'1\.png' could be 'a/1\.png' and 'b/1\.png'; expected ids like"):
        open_dataset("photos", "labels.csv", on_bad_rows="drop")
    Path("labels.csv").write_text("file,label\na/1.png,3\nb/1.png,4\nb/2.png,5\n")
    assert open_dataset("photos", "labels.csv").labels.tolist() == [3, 4, 5]
    Path("labels.csv").write_text("file,label\nx/2.png,3\ny/2.png,4\n")
    with pytest.raises(InvalidInput, match=r"'x/2\.png' and 'y/2\.png' could be 'b/2\.png'"):
        open_dataset("photos", "labels.csv", on_bad_rows="drop")


def test_duplicate_missing_and_surplus_ids_are_counted_and_named(here):
    ids = [f"doc-{row}" for row in range(N)]
    write_labels(ids)
    text = Path("labels.csv").read_text()
    Path("labels.csv").write_text(text + "doc-3,1\ndoc-5,1\n")
    with pytest.raises(InvalidInput, match=r"has 2 ids more than once: '.*' and '.*'; expected each id once"):
        open_dataset("rows.npy", "labels.csv", ids)
    Path("labels.csv").write_text(text + ",1\n")
    with pytest.raises(InvalidInput, match=r"has no id in 1 of its 31 rows \(first: 30\)"):
        open_dataset("rows.npy", "labels.csv", ids)
    Path("labels.csv").write_text(text.replace("doc-7,", "doc-x,") + "doc-y,1\ndoc-z,1\n")
    surplus = "has labels for 3 ids that no row has: 'doc-x', 'doc-y' and 1 more"
    with pytest.raises(
        InvalidInput, match=f"1 of 30 rows .* row 7: no label for its id 'doc-7'; .*{surplus}"
    ):
        open_dataset("rows.npy", "labels.csv", ids)
    found = open_dataset("rows.npy", "labels.csv", ids, on_bad_rows="drop")
    assert found.bad == {7: "no label for its id 'doc-7'"}
    assert any(surplus in note for note in found.notes)


def test_ids_that_are_others_are_refused_with_two_of_each_side(here):
    write_labels([f"no-{row}" for row in range(N)])
    ids = [f"doc-{row}" for row in range(N)]
    with pytest.raises(
        InvalidInput, match=r"are not the rows' ids: it has '.*' and '.*', rows\.npy has 'doc-0' and 'doc-1'"
    ):
        open_dataset("rows.npy", "labels.csv", ids)


def test_rows_of_one_id_are_counted(here):
    write_labels([f"doc-{row}" for row in range(N)])
    found = open_dataset("rows.npy", "labels.csv", [f"doc-{row // 2}" for row in range(N)])
    assert found.labels.tolist() == LABELS[np.arange(N) // 2].tolist()
    assert any(
        "15 ids of rows.npy are those of several rows, whose labels are the same" in note
        for note in found.notes
    )


@pytest.mark.parametrize("given", ["labels.npy", np.arange(12)], ids=["a file", "an array"])
def test_labels_of_images_by_position_are_pointed_out(here, given):
    os.mkdir("photos")
    np.save("labels.npy", np.arange(12))
    for row in range(12):
        Path(f"photos/{row}.png").touch()
    (note,) = open_dataset("photos", given).notes
    assert "by position, and these are in the order of their letters: 10.png before 2.png" in note
    write_labels([f"{row}.png" for row in range(12)], order=range(12))
    found = open_dataset("photos", "labels.csv")
    assert not found.notes
    assert dict(zip(found.ids, found.labels, strict=True)) == {f"{row}.png": LABELS[row] for row in range(12)}


def test_a_table_has_ids_of_its_own(here):
    ids = [f"doc-{row}" for row in range(N)]
    table = {"embedding": pa.array(ROWS.tolist()), "key": ids}
    pq.write_table(pa.table(table | {"id": ids}), "rows.parquet")
    assert open_dataset("rows.parquet", write_labels(ids)).labels.tolist() == LABELS.tolist()
    pq.write_table(pa.table(table), "rows.parquet")
    with pytest.raises(InvalidInput, match="have none but their numbers"):
        open_dataset("rows.parquet", "labels.csv")
    assert open_dataset("rows.parquet", "labels.csv", "key").labels.tolist() == LABELS.tolist()


def test_vectors_have_the_ids_that_were_written_beside_them(here):
    pictures = RNG.integers(0, 256, (N, 4, 4), dtype=np.uint8)
    ids = [f"img_{row}.png" for row in range(N)]
    gmmatch.embed(pictures, "pixels", ids=ids, labels=LABELS, output="vectors.npy", cache_dir=here / "cache")
    assert open_dataset("vectors.npy", "vectors.parquet").labels.tolist() == LABELS.tolist()
    assert open_dataset("vectors.npy", write_labels(ids)).labels.tolist() == LABELS.tolist()


def test_scores_belong_to_rows_by_id(here):
    scores = RNG.normal(size=N)
    Path("scores.csv").write_text(
        "id,score\n" + "".join(f"{row},{float(scores[row])!r}\n" for row in ORDER.tolist())
    )
    kept = gmmatch.select("rows.npy", keep=5, method="top-scores", scores="scores.csv")
    assert sorted(kept.indices.tolist()) == sorted(np.argsort(-scores)[:5].tolist())
    Path("scores.csv").write_text(
        "id,score\n" + "".join(f"{row + 1},{float(scores[row])!r}\n" for row in range(N))
    )
    with pytest.raises(InvalidInput, match="have none but their numbers"):
        gmmatch.select("rows.npy", keep=5, method="top-scores", scores="scores.csv")


@pytest.mark.parametrize("given", ["file.csv", "file.parquet", "table", "mapping"])
def test_probabilities_belong_to_rows_by_id(here, given):
    labels = LABELS % 2
    sure = np.where(labels[:, None] == [0, 1], 0.9, 0.1)
    ids = [f"img_{row}.png" for row in range(N)]
    table = pa.table({"id": [ids[row] for row in ORDER], "0": sure[ORDER, 0], "1": sure[ORDER, 1]})
    forms = {"table": table, "mapping": table.to_pydict()}
    if given == "file.csv":
        csv.write_csv(table, given)
    elif given == "file.parquet":
        pq.write_table(table, given)
    data = gmmatch.open(ROWS, labels, ids=ids)
    found = gmmatch.select(data, keep=9, probabilities=forms.get(given, given))
    assert found.indices.tolist() == gmmatch.select(data, keep=9, probabilities=sure).indices.tolist()
    assert found.info.tiers == gmmatch.select(data, keep=9, probabilities=sure).info.tiers
    with pytest.raises(InvalidInput, match="have none but their numbers"):
        gmmatch.select(ROWS, labels, keep=9, probabilities=forms.get(given, given))


def test_probabilities_of_other_ids_are_counted_and_named(here):
    labels = LABELS % 2
    data = gmmatch.open(ROWS, labels, ids=[f"r{row}" for row in range(N)])

    def select(rows):
        columns = {"id": [f"r{row}" for row in rows], "0": [0.5] * len(rows), "1": [0.5] * len(rows)}
        pq.write_table(pa.table(columns), "sure.parquet")
        return gmmatch.select(data, keep=9, probabilities="sure.parquet")

    assert "for 2 ids that no row has: 'r30', 'r31'" in select(range(N + 2)).info.hint.replace(" and ", ", ")
    with pytest.raises(InvalidInput, match=r"sure\.parquet has no row for 3 of 30 rows \(first: 0, 1, 2\)"):
        select(range(3, N))
    with pytest.raises(InvalidInput, match="1 ids more than once: 'r5'"):
        select([*range(N), 5])
    table = {"0": [0.5] * N, "1": [0.5] * N}
    csv.write_csv(pa.table(table | {"id": [f"{row:03d}" for row in range(N)]}), "sure.csv")
    with pytest.raises(InvalidInput, match="has ids \\('000', '001' and 28 more\\)"):  # which are no numbers
        gmmatch.select(ROWS, labels, keep=9, probabilities="sure.csv")
    table["doc"] = [f"r{N - 1 - row}" for row in range(N)]
    hint = gmmatch.select(data, keep=9, probabilities=table).info.hint
    assert "column 'doc' of probabilities has the ids of the rows, and not as they are there" in hint


@pytest.mark.parametrize("what", ["strata", "groups"])
def test_strata_and_groups_belong_to_rows_by_id(here, what):
    values = RNG.integers(0, 3, N)
    text = "".join(f"r{row},{values[row]},0\n" for row in ORDER)
    Path("beside.csv").write_text(f"id,{what},other\n{text}")
    ids = [f"r{row}" for row in range(N)]
    found = gmmatch.open(ROWS, LABELS, ids=ids)
    assert values_of_rows(found, "beside.csv", what).tolist() == values.tolist()
    Path("beside.csv").write_text(f"id,mine,other\n{text}")
    with pytest.raises(InvalidInput, match=f"which column of beside.csv holds the {what}"):
        values_of_rows(found, "beside.csv", what)


def test_which_column_holds_ids():
    columns = {"label": [1, 1], "doc_id": ["a", "b"], "class_id": [7, 7], "row": [0, 1], "n": [5, 6]}
    read = columns.__getitem__
    assert id_column(list(columns)[1:], read) == "doc_id"
    assert id_column(["class_id", "row"], read) == "row"
    assert id_column(["class_id", "n"], read) is None
    assert id_column(["doc_id", " File"], read) == " File"
    assert id_column(["key"], {"key": [None, None]}.__getitem__) is None


USUAL_NAMES = (
    "image", "images", "img", "name", "image_name", "filepath", "file_path", "image_path", "paths",
    "Filenames", "index", "idx", "key", "uuid", "Unnamed: 0", "__index_level_0__", "",
)  # fmt: skip


@pytest.mark.parametrize("column", USUAL_NAMES)
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "npz"])
def test_a_column_of_ids_by_any_usual_name_is_obeyed(here, column, kind):
    """Also an index that pandas wrote: labels that were shuffled are not taken in the order of the file."""
    if kind == "npz" and not column:
        return  # an archive has no array without a name
    name = write_labels(list(range(N)), f"labels.{kind}", column)
    assert open_dataset("rows.npy", name).labels.tolist() == LABELS.tolist()
    write_labels([f"{row}.png" for row in range(N)], name, column)
    with pytest.raises(InvalidInput, match="have none but their numbers") as caught:
        open_dataset("rows.npy", name)
    assert f"(ids='{name}:{column}')" in str(caught.value)
    ordered = open_dataset("rows.npy", name, f"{name}:{column}")  # the way out
    assert sorted(ordered.ids.tolist()) == sorted(f"{row}.png" for row in range(N))
    assert ordered.labels.tolist() == LABELS[ORDER].tolist()


def test_columns_of_images_and_of_classes_are_no_ids(here):
    images = [{"bytes": bytes([row]), "path": None} for row in range(N)]
    names = [f"class {label}" for label in LABELS.tolist()]
    table = pa.table({"image": images, "class_name": names, "label": LABELS})
    pq.write_table(table, "labels.parquet")
    assert open_dataset("rows.npy", "labels.parquet:label").labels.tolist() == LABELS.tolist()


def test_a_column_of_row_numbers_is_obeyed(here):
    """As in what `gmmatch suspects` and the report's page write, put in another order by a spreadsheet."""
    write_labels(list(range(N)), column="row")
    assert (
        open_dataset("rows.npy", "labels.csv", ids=[f"doc-{n}" for n in range(N)]).labels.tolist()
        == LABELS.tolist()
    )
    write_labels(list(range(1, N + 1)), column="row")
    with pytest.raises(InvalidInput, match="have none but their numbers"):
        open_dataset("rows.npy", "labels.csv")


class TestOrderOfFiles:
    def test_of_like_names_in_folders_is_said_by_their_paths(self, here):
        for part in range(12):
            os.makedirs(f"shards/day{part}")
            np.save(f"shards/day{part}/rows.npy", ROWS[:2] + part)
        found = open_dataset("shards/*/rows.npy")
        assert found.rows[20:22].tolist() == (ROWS[:2] + 10).tolist()
        assert "shards/day9/rows.npy before shards/day10/rows.npy" in found.notes[0]
        with pytest.raises(
            InvalidInput, match=r"shards/\* matches the folder shards/day0; expected files, as"
        ):
            open_dataset("shards/*")

    @pytest.fixture
    def shards(self, here):
        os.mkdir("shards"), os.mkdir("labels")
        for part in range(12):
            span = slice(2 * part, 2 * part + 2)
            np.save(f"shards/part{part}.npy", ROWS[span])
            np.save(f"labels/part{part}.npy", LABELS[span])
            pq.write_table(
                pa.table({"embedding": pa.array(ROWS[span].tolist())}), f"shards/part{part}.parquet"
            )
        np.save("labels.npy", LABELS[:24])
        return here

    @pytest.mark.parametrize("given", ["shards/*.npy", "shards/*.parquet"])
    def test_is_natural_and_said(self, shards, given):
        found = open_dataset(given, "labels.npy")
        np.testing.assert_array_equal(np.asarray(found.rows), ROWS[:24])
        assert found.notes == (
            "the 12 files are read in the order of their numbers: part9.npy before part10.npy".replace(
                "npy", given.rpartition(".")[2]
            ),
        )
        assert not open_dataset("shards/part?.npy").notes

    def test_does_not_depend_on_zeros(self):
        assert natural_order(["b2", "b10", "b01", "b1", "a"]) == ["a", "b01", "b1", "b2", "b10"]

    @pytest.mark.parametrize("given", ["labels", "labels/*.npy"])
    def test_labels_in_shards_belong_to_files_of_the_same_name(self, shards, given):
        found = open_dataset("shards/*.npy", given)
        assert found.labels.tolist() == LABELS[:24].tolist()

    def test_labels_in_shards_belong_to_files_of_the_same_number(self, shards):
        for part in range(12):
            os.rename(f"labels/part{part}.npy", f"labels/y-{part:03d}.npy")
        assert open_dataset("shards/*.parquet", "labels").labels.tolist() == LABELS[:24].tolist()

    def test_labels_with_ids_may_be_in_any_shards(self, shards):
        os.mkdir("named")
        for part, rows in enumerate(np.array_split(ORDER, 3)):
            write_labels([f"doc-{row}" for row in range(N)], f"named/{part}.csv", order=rows.tolist())
        ids = [f"doc-{row}" for row in range(24)]
        found = open_dataset("shards/*.npy", "named", ids)
        assert found.labels.tolist() == LABELS[:24].tolist()
        np.save("named/3.npy", LABELS)
        with pytest.raises(InvalidInput, match="some files of named have ids, and some have none"):
            open_dataset("shards/*.npy", "named", ids)

    def test_whole_numbers_are_ids_in_shards_of_parquet(self, shards):
        os.mkdir("numbered")
        for part, rows in enumerate(np.array_split(ORDER, 3)):
            columns = {"id": 1000 + rows, "label": LABELS[rows]}
            pq.write_table(pa.table(columns), f"numbered/{part}.parquet")
        found = open_dataset("shards/*.npy", "numbered", np.arange(1000, 1024))
        assert found.labels.tolist() == LABELS[:24].tolist()

    def test_words_in_shards_have_headers_or_none(self, shards):
        os.mkdir("words")
        for part in range(12):
            Path(f"words/part{part}.csv").write_text("species\n" * (part % 2) + f"cat{part}\ndog\n")
        found = open_dataset("shards/*.npy", "words").labels.tolist()
        assert found == [word for part in range(12) for word in (f"cat{part}", "dog")]

    def test_shards_that_do_not_fit_are_refused(self, shards):
        np.save("labels/part3.npy", LABELS[:3])
        with pytest.raises(
            InvalidInput,
            match=r"labels has 3 entries for 2 rows of shards/part3\.npy; .* \(labels/part3\.npy\)",
        ):
            open_dataset("shards/*.npy", "labels")
        os.remove("labels/part3.npy")
        with pytest.raises(
            InvalidInput, match=r"the 11 files of labels .* are not those of shards/\*\.npy, 12"
        ):
            open_dataset("shards/*.npy", "labels")

    def test_what_an_earlier_version_chose_is_refused(self, shards, monkeypatch):
        """0.2 read these files in the order of their letters."""
        with monkeypatch.context() as earlier:
            earlier.setattr("gmmatch.data.request.natural_order", sorted)
            gmmatch.select("shards/*.npy", keep=6, labels="labels.npy", output="kept.parquet")
            fingerprint = open_dataset("shards/*.npy", "labels.npy").fingerprint()
        FileCheckpoint(Path("x.state"), fingerprint, {}).save({"theta": ROWS})
        resumed = FileCheckpoint(
            Path("x.state"), open_dataset("shards/*.npy", "labels.npy").fingerprint(), {}, resume=True
        )
        with pytest.raises(InvalidInput, match="belongs to another input or other parameters"):
            resumed.load()
        with pytest.raises(InvalidInput, match="order of their letters"):
            gmmatch.report("kept.parquet", "shards/*.npy", "page.html", labels="labels.npy")


class TestHeader:
    BELOW = "0.1,0.5,0.3\n0.4,0.2,0.9\n0.7,0.1,0.2\n0.3,0.3,0.8\n"
    WHOLE = "5,4,2\n9,80,3\n1,2,7\n12,7,90\n"

    def test_a_row_with_a_class_that_recurs_is_no_header(self, here):
        Path("rows.csv").write_text("6,148,33.6,yes\n1,85,26.6,no\n8,183,23.3,yes\n0,137,43.1,no\n")
        found = open_dataset("rows.csv", "3")
        assert (len(found), found.labels.tolist()) == (4, ["yes", "no", "yes", "no"])
        assert any(
            "has 'yes' in a column that holds it below, too; it was taken as a row" in n for n in found.notes
        )
        Path("named.csv").write_text("a,yes\n1,no\n2,yes\n")
        assert open_dataset("named.csv", "yes").labels.tolist() == ["no", "yes"]  # all words: names

    @pytest.mark.parametrize("first", [",,", "a,,", '"",b,""'])
    def test_columns_without_a_name_are_not_lost(self, here, first):
        Path("rows.csv").write_text(f"{first}\n{self.BELOW}")
        with pytest.raises(InvalidInput, match="several columns without a name; expected a name for each"):
            open_dataset("rows.csv")
        Path("rows.csv").write_text(",b,c\n0,0.1,0.5\n1,0.4,0.2\n2,0.7,0.3\n")  # as pandas writes an index
        assert len(open_dataset("rows.csv")) == 3

    @pytest.mark.parametrize(
        ("first", "below", "named"),
        [
            ("400.5,401.0,401.5", BELOW, True),
            ("0_0,0_1,0_2", BELOW, True),
            ("3,40,77", WHOLE, False),
            ("3,40,77", BELOW, True),
            ("0,1,2", WHOLE, True),
            ("2019,2020,2021", WHOLE, True),
            ("0.2,0.4,0.6", BELOW, False),
            ("1.5,,2.5", BELOW, False),
            (",a,b", BELOW, True),
            ("901.5,402.5,401.0", BELOW, True),
            ("901.5,402.5,701.0", BELOW, False),
        ],
    )
    def test_is_told_by_what_is_below_it(self, here, first, below, named):
        Path("rows.csv").write_text(f"{first}\n{below}")
        found = open_dataset("rows.csv", on_bad_rows="drop")
        assert len(found) == 4 + (not named)
        assert found.columns == (tuple(first.split(",")) if named else ("0", "1", "2"))
        told = [note for note in found.notes if "the first line of rows.csv is all numbers" in note]
        letters = any(letter in first for letter in "ab_")
        assert len(told) == (not letters)
        if told:
            assert ("taken as the names of the columns" in told[0]) == named
        for header, rows in (("yes", 4), ("no", 5)):
            asked = open_dataset("rows.csv", on_bad_rows="drop", header=header) if not letters else None
            assert asked is None or (
                len(asked) == rows and not any("first line" in note for note in asked.notes)
            )

    @pytest.mark.parametrize(
        "words",
        [
            "select rows.csv --labels label --keep 6 -o kept.parquet",
            "suspects rows.csv --labels label -o wrong.csv",
            "compare rows.csv --labels label --methods random --keep 50% --seeds 1 --workers 1 -o compared",
        ],
    )
    def test_is_said_by_every_command(self, here, words):
        lines = [f"{a},{b},{a + b > 0:d}" for a, b in np.round(ROWS[:, :2], 3)]
        Path("rows.csv").write_text("400.5,401.0,label\n" + "\n".join(lines) + "\n")
        said = "the first line of rows.csv has numbers in it; it was taken as the names of the columns"
        done = CliRunner().invoke(app, words.split())
        assert done.exit_code == 0, done.output
        assert said in done.output
        again = CliRunner().invoke(app, [*words.replace("-o ", "-o again-").split(), "--header", "yes"])
        assert again.exit_code == 0, again.output
        assert "the first line" not in again.output

    def test_is_for_lines_of_numbers(self, here):
        with pytest.raises(
            InvalidParameter, match=r"header is for \.csv and \.tsv files; rows\.npy has no lines"
        ):
            open_dataset("rows.npy", header="no")
        with pytest.raises(InvalidParameter, match="header must be 'auto', 'yes' or 'no'"):
            open_dataset("rows.npy", header="maybe")

    def test_a_word_that_comes_again_is_no_header(self, here):
        words = ["cat", *["dog", "cat"] * 15]
        Path("labels.csv").write_text("\n".join(words) + "\n")
        with pytest.raises(InvalidInput, match="labels has 31 entries for 30 rows"):
            open_dataset("rows.npy", "labels.csv")


class TestText:
    @pytest.mark.parametrize("text", ["a\0x", "a\0", "\ud800", "caf\udce9"])
    @pytest.mark.parametrize("what", ["labels", "ids"])
    def test_that_no_file_can_hold_is_refused(self, here, text, what):
        values = ["a"] * (N - 1) + [text]
        for given in (values, np.array(values, object), np.array(values)):
            if text.endswith("\0") and isinstance(given, np.ndarray) and given.dtype.kind == "U":
                continue  # NumPy has cut it already
            with pytest.raises(
                InvalidInput, match=r"has text with a NUL character or half of a letter .* at row 29"
            ):
                open_dataset("rows.npy", **{what: given})

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "txt"])
    def test_in_files_is_refused_too(self, here, ending):
        values = ["a\0x", "a\0y"] * (N // 2)
        path = f"labels.{ending}"
        if ending == "parquet":
            pq.write_table(pa.table({"label": values}), path)
        elif ending == "jsonl":
            Path(path).write_text("".join(json.dumps({"label": value}) + "\n" for value in values))
        else:
            Path(path).write_text("label\n" * (ending == "csv") + "".join(f"{value}\n" for value in values))
        with pytest.raises(InvalidInput, match="NUL character"):
            open_dataset("rows.npy", path)

    @pytest.mark.parametrize("what", ["labels", "ids"])
    def test_as_bytes_with_nul_inside_is_refused(self, here, what):
        values = np.array([b"a\0x", b"a\0y", b"a"] * (N // 3))
        with pytest.raises(InvalidInput, match=r"a NUL character .* at row 0"):
            open_dataset("rows.npy", **{what: values})
        kept = gmmatch.select(ROWS, keep=6, labels=np.array([b"a", b"caf\xe9"] * (N // 2)), guard="off")
        kept.save("kept.parquet")
        assert gmmatch.load_selection("kept.parquet").labels.tolist() == kept.labels.tolist()

    @pytest.mark.parametrize(
        "other",
        [
            "cafe\u0301",
            "caf\u00e9\u200b",
            "ca\u00adf\u00e9",
            "caf\u00e9\ufe0f",
            "c\u034faf\u00e9",
            "\u3164caf\u00e9",
        ],
    )
    def test_of_classes_that_look_alike_is_pointed_out(self, here, other):
        hint = gmmatch.select(
            ROWS, keep=6, labels=np.array(["caf\u00e9", other, "tea"] * 10), guard="off"
        ).info.hint
        assert "classes that differ in spaces, accents, invisible letters or capitals only" in hint
        assert "'caf\\xe9'" in hint
        names = np.array(["caf\u00e9", other, "tea"] * 10)
        hint = gmmatch.select(ROWS, keep=6, strata=names, guard="off").info.hint
        assert "strata (strata) that differ in spaces, accents, invisible letters or capitals only" in hint
        data = gmmatch.open(ROWS, LABELS % 2, groups=names)
        hint = gmmatch.select(data, keep=6).info.hint
        assert "groups that differ in spaces, accents, invisible letters or capitals only" in hint


def test_the_index_that_pandas_wrote_holds_ids_whatever_it_is_called(here):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"label": LABELS[ORDER]}, index=pd.Index(ORDER, name="whatever"))
    table.to_parquet("labels.parquet")
    assert open_dataset("rows.npy", "labels.parquet").labels.tolist() == LABELS.tolist()
    table.reset_index().to_parquet("columns.parquet")  # a column like others
    found = open_dataset("rows.npy", "columns.parquet")
    assert found.labels.tolist() == LABELS[ORDER].tolist()
    assert "column 'whatever' of columns.parquet counts the rows in another order" in found.notes[0]


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.jsonl"])
def test_a_column_that_counts_rows_in_another_order_is_pointed_out(here, name):
    write_labels(list(range(N)), name, column="sample")
    assert sum("'sample' of" in note for note in open_dataset("rows.npy", name).notes) == 1
    write_labels(list(range(N)), name, column="sample", order=range(N))
    assert open_dataset("rows.npy", name).notes == ()


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.jsonl", "labels.npz"])
def test_a_column_that_has_the_ids_of_the_rows_is_pointed_out(here, name):
    """Its name says nothing, and what it holds says all."""
    ids = [f"r{row}" for row in range(N)]

    def notes(keys, column="sample", order=ORDER):
        if name.endswith(".npz"):
            np.savez(name, **{column: np.array(keys)[order], "label": LABELS[order]})
        else:
            write_labels(keys, name, column=column, order=order)
        return open_dataset("rows.npy", name, ids).notes

    (note,) = notes(ids)
    assert "column 'sample' of labels" in note
    assert "has the ids of the rows, and not as they are there" in note
    assert notes(ids, order=range(N)) == ()
    assert notes([f"other {key}" for key in ids]) == ()
    (note,) = notes([*ids[:-1], ids[0]], "doc_id")
    assert "has the ids of the rows" in note
    (note,) = notes([*[f"other {key}" for key in ids[:-1]], "other r0"], "doc_id")
    assert "column 'doc_id' of labels" in note
    assert "has 1 ids more than once" in note


def test_tabs_may_stand_between_the_cells_of_a_csv(here):
    Path("labels.csv").write_text("id\tlabel\n" + "".join(f"{row}\t{LABELS[row]}\n" for row in ORDER))
    assert open_dataset("rows.npy", "labels.csv").labels.tolist() == LABELS.tolist()


def test_ids_of_an_archive_may_be_a_column(here):
    np.savez("labels.npz", id=ORDER[:, None], label=LABELS[ORDER][:, None])
    assert open_dataset("rows.npy", "labels.npz").labels.tolist() == LABELS.tolist()
