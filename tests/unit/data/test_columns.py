"""Labels, ids and scores: one reader, the same labels or the same sentence for every command."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.data import columns, open_dataset, read_values
from gmmatch.data import open as door
from gmmatch.errors import InvalidInput, InvalidInputType

N = 40
CODES = (np.arange(N) * 7 % 3) + 4
WORDS = np.array(["cat", "dog", "eel"])[CODES - 4]


def lines(values, head=None, ending="\n"):
    return ending.join([*([head] if head else []), *map(str, values), ""])


def make_npy(path, values):
    np.save(path.with_suffix(".npy"), values)
    return path.with_suffix(".npy")


def make_npz(path, values):
    np.savez(path.with_suffix(".npz"), labels=values, other=np.zeros((3, 3)))
    return path.with_suffix(".npz")


def make_txt(path, values):
    path.with_suffix(".txt").write_text(lines(values))
    return path.with_suffix(".txt")


def make_one_column_with_a_header(path, values):
    path.with_suffix(".csv").write_text(lines(values, "label"))
    return path.with_suffix(".csv")


def make_one_column_without_a_header(path, values):
    path.with_suffix(".csv").write_text(lines(values))
    return path.with_suffix(".csv")


def make_one_column_with_another_header(path, values):
    path.with_suffix(".csv").write_text(lines(values, "species"))
    return path.with_suffix(".csv")


def make_csv_with_windows_line_ends(path, values):
    body = [f'{row},"{value}"' for row, value in enumerate(values)]
    path.with_suffix(".csv").write_bytes(lines(body, "\ufeffid,label", "\r\n").encode())
    return path.with_suffix(".csv")


def make_csv_in_another_order(path, values):
    order = np.random.default_rng(0).permutation(len(values))
    path.with_suffix(".csv").write_text(lines([f"{row},{values[row]}" for row in order], "id,label"))
    return path.with_suffix(".csv")


def make_a_column_by_name(path, values):
    body = [f"{row},{value},x" for row, value in enumerate(values)]
    path.with_suffix(".csv").write_text(lines(body, "id,species,note"))
    return f"{path.with_suffix('.csv')}:species"


def make_tsv(path, values):
    body = [f"{row}\t{value}" for row, value in enumerate(values)]
    path.with_suffix(".tsv").write_text(lines(body, "number\tlabel"))
    return path.with_suffix(".tsv")


def make_parquet(path, values):
    pq.write_table(
        pa.table({"label": values, "number": np.arange(len(values))}), path.with_suffix(".parquet")
    )
    return path.with_suffix(".parquet")


def make_arrow(path, values):
    feather.write_feather(pa.table({"label": values}), path.with_suffix(".arrow"), compression="uncompressed")
    return path.with_suffix(".arrow")


def make_jsonl(path, values):
    body = [json.dumps({"label": value}) for value in values.tolist()]
    path.with_suffix(".jsonl").write_text(lines(body))
    return path.with_suffix(".jsonl")


MAKERS = [value for name, value in list(globals().items()) if name.startswith("make_")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Rows, and images of them, without labels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    np.save("rows.npy", rng.normal(size=(N, 4)) + 3 * CODES[:, None])
    images = rng.integers(0, 60, (N, 8, 8)) + 40 * (CODES - 4)[:, None, None]
    np.save("images.npy", images.astype(np.uint8))
    return tmp_path


TRAIN = "--epochs 1 --batch-size 20 --recipe cpu-plain --device cpu -o net.pt"
COMMANDS = {
    "select": "select rows.npy --keep 9 -o kept.parquet --overwrite",
    "select --encoder": "select images.npy --encoder pixels --keep 9 -o kept.parquet --overwrite",
    "suspects": "suspects rows.npy -o suspects.parquet --overwrite",
    "embed": "embed images.npy --encoder pixels -o e.npy --overwrite",
    "corrupt": "corrupt rows.npy --kind other-class -o corrupted.npy --overwrite",
    "train": f"train images.npy --overwrite {TRAIN}",
    "compare": "compare rows.npy --methods random --keep 50% --seeds 1 --workers 1 -o compared",
}


def invoke(command, labels):
    return CliRunner().invoke(app, [*COMMANDS[command].split(), "--labels", str(labels)])


@pytest.fixture
def seen(monkeypatch):
    """What every dataset that is opened has as labels."""
    found = []

    def spy(*args, **options):
        found.append(columns.attach(*args, **options))
        return found[-1]

    monkeypatch.setattr(door, "attach", spy)
    return found


@pytest.mark.parametrize("values", [CODES, WORDS], ids=["numbers", "words"])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__.removeprefix("make_"))
def test_every_kind_of_file_gives_the_same_labels(here, make, values):
    path = make(here / "labels", values)
    assert open_dataset("rows.npy", labels=path).labels.tolist() == values.tolist()
    assert open_dataset("images.npy", labels=str(path)).labels.tolist() == values.tolist()
    if not str(path).endswith(":species") and "another_order" not in make.__name__:
        assert read_values(path, "labels", N).tolist() == values.tolist()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_every_kind_of_label_file(here, seen, command):
    if command == "train":
        pytest.importorskip("torch")
    for make in MAKERS:
        seen.clear()
        done = invoke(command, make(here / "labels", WORDS))
        assert done.exit_code == 0, f"{make.__name__}: {done.output}"
        assert seen[0].labels.tolist() == WORDS.tolist(), make.__name__


def wrong(name, folder):
    """Write a file of labels that cannot be used; return what to name."""
    path = folder / "labels.csv"
    if name == "missing labels":
        path.write_text(lines(["" if row in (3, 5) else word for row, word in enumerate(WORDS)], "label"))
    elif name == "too few":
        path.write_text(lines(WORDS[:-1], "label"))
    elif name == "several columns":
        path.write_text(lines([f"1,{word}" for word in WORDS], "a,b"))
    elif name == "fractions":
        path = make_npy(path, np.linspace(0.5, 4.5, N))
    elif name == "a table without rows":
        path.write_text("label\n")
    elif name == "broken":
        path.write_text(lines([*[f"{row},{word}" for row, word in enumerate(WORDS[1:])], "1"], "id,label"))
    elif name == "another kind":
        path = folder / "labels.doc"
        path.write_text("x")
    elif name == "nowhere":
        return "nowhere"
    return path


WRONG = {
    "missing labels": "2 of 40 rows of INPUT cannot be used: row 3: no label; row 5: no label",
    "too few": "labels has 39 entries for 40 rows of INPUT; expected one per row (",
    "several columns": "which column of LABELS holds the labels? It has: a, b",
    "fractions": "labels (LABELS) must be classes (whole numbers or text); got 0.5 at row 0",
    "a table without rows": "LABELS holds no labels",
    "broken": "row 39 of LABELS cannot be read as labels: 1 values for 2 columns",
    "another kind": "LABELS is of a kind that holds no labels; expected .npy",
    "nowhere": "there is no column and no file 'LABELS' to take as labels (--labels); INPUT has no columns",
}


@pytest.mark.parametrize("kind", WRONG)
def test_every_command_says_the_same_sentence(here, kind):
    path = wrong(kind, here)
    sentences = set()
    for command in COMMANDS:
        done = invoke(command, path)
        assert done.exit_code == 3, f"{command}: {done.output}"
        told = (str(done.exception) if not done.stderr else done.stderr).strip().replace(str(path), "LABELS")
        told = re.sub(r"^gmmatch: |rows\.npy: ", "", told)
        sentences.add(re.sub(r"(rows|images)\.npy", "INPUT", told))
    assert len(sentences) == 1, sentences
    assert sentences.pop().startswith(WRONG[kind])


def test_rows_without_a_label_are_left_out_or_a_class_of_their_own(here):
    path = wrong("missing labels", here)
    dropped = open_dataset("rows.npy", labels=path, on_bad_rows="drop")
    assert dropped.bad == {3: "no label", 5: "no label"}
    assert np.delete(dropped.labels, [3, 5]).tolist() == np.delete(WORDS, [3, 5]).tolist()
    picks = gmmatch.select("rows.npy", labels=path, keep=1.0, on_bad_rows="drop")
    assert len(picks) == 38
    assert not {3, 5} & set(picks.indices.tolist())
    own = open_dataset("rows.npy", labels=path, unlabelled="class")
    assert own.labels[[3, 5]].tolist() == ["unlabelled", "unlabelled"]
    numbers = [4, None, -1, 7]
    assert open_dataset(np.eye(4), labels=numbers, unlabelled="class").labels.tolist() == [4, -2, -1, 7]
    done = CliRunner().invoke(
        app, f"select rows.npy --labels {path} --keep 10 --all-rows --on-bad-rows drop".split()
    )
    assert done.exit_code == 0, done.output
    written = pq.read_table("kept.parquet")["label"].to_pylist()
    assert (written[3], written[4]) == (None, WORDS[4])


def test_labels_belong_to_rows_by_id(here):
    ids = [f"doc-{row}" for row in range(N)]
    order = np.random.default_rng(1).permutation(N)
    (here / "labels.csv").write_text(lines([f"doc-{row},{WORDS[row]}" for row in order], "id,label"))
    assert open_dataset("rows.npy", "labels.csv", ids).labels.tolist() == WORDS.tolist()
    (here / "labels.csv").write_text(lines([f"doc-{row},{WORDS[row]}" for row in order[1:]], "id,label"))
    part = open_dataset("rows.npy", "labels.csv", ids, on_bad_rows="drop")
    assert part.bad == {int(order[0]): f"no label for its id 'doc-{order[0]}'"}
    (here / "labels.csv").write_text(lines([f"no-{row},{WORDS[row]}" for row in order], "id,label"))
    with pytest.raises(InvalidInput, match=r"the ids in labels\.csv are not the rows' ids"):
        open_dataset("rows.npy", "labels.csv", ids)


def test_images_are_labelled_by_the_names_of_their_files(tmp_path):
    for name in ("b.png", "a.png", "c.png"):
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(b"x")
    (tmp_path / "labels.csv").write_text("file,label\nc,3\na,1\nb,2\n")
    assert open_dataset(tmp_path / "photos", tmp_path / "labels.csv").labels.tolist() == [1, 2, 3]


BIG = 2**53


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array([BIG, BIG + 1, BIG], dtype=object), [BIG, BIG + 1]),
        ([2**63, 2**63 + 1, 2**63], [2**63, 2**63 + 1]),
        (np.array([2**70, 2**70 + 1, 2**70], dtype=object), [str(2**70), str(2**70 + 1)]),
        (np.array([True, False, True], dtype=object), [False, True]),
        ([2.0, 1, 2], [1, 2]),
    ],
)
def test_labels_keep_their_identity(labels, classes):
    found = open_dataset(np.eye(3), labels=labels)
    assert np.unique(found.labels).tolist() == classes
    assert found.labels[0] == found.labels[2] != found.labels[1]


@pytest.mark.parametrize(
    ("labels", "error", "sentence"),
    [
        (["a", float("nan"), "b"], InvalidInput, "row 1: no label"),
        (["1", 1, "2"], InvalidInputType, "all whole numbers or all text; got int and str"),
        (["a", "a\0", "b"], InvalidInput, "expected text that UTF-8 can hold, without NUL"),
        ([float(BIG), float(BIG), 1.0], InvalidInput, "must be classes"),
        (np.ma.array([1, 2, 3], mask=[0, 0, 1]), InvalidInput, "row 2: no label"),
        ([True, 2.5, 1], InvalidInput, "must be classes"),
        (["a", "", "b"], InvalidInput, "row 1: no label"),
    ],
)
def test_labels_that_would_merge_are_refused(labels, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        open_dataset(np.eye(3), labels=labels)


def test_scores_are_numbers(tmp_path):
    (tmp_path / "scores.csv").write_text("id,score\n0,0.5\n1,2\n")
    assert read_values(tmp_path / "scores.csv", "scores").tolist() == [0.5, 2.0]
    (tmp_path / "scores.csv").write_text("id,score\n0,0.5\n1,high\n")
    with pytest.raises(InvalidInputType, match="must hold numbers, one score per row"):
        read_values(tmp_path / "scores.csv", "scores")
    (tmp_path / "scores.txt").write_text("0.5\n\n1\n")
    with pytest.raises(InvalidInput, match=r"has no score in 1 of 3 rows \(first: 1\)"):
        read_values(tmp_path / "scores.txt", "scores")


@pytest.mark.parametrize("values", [WORDS, CODES], ids=["names", "numbers"])
def test_a_column_of_labels_that_were_corrected_elsewhere_is_no_feature(tmp_path, values):
    rows = np.random.default_rng(0).normal(size=(N, 3)).round(3)
    table = [f"{a},{b},{c},{label}" for (a, b, c), label in zip(rows.tolist(), values.tolist(), strict=True)]
    (tmp_path / "table.csv").write_text(lines(table, "a,b,c,kind"))
    better = values.copy()
    better[:5] = values[0]
    (tmp_path / "better.csv").write_text(lines([f"{n},{v}" for n, v in enumerate(better)], "id,label"))
    found = open_dataset(tmp_path / "table.csv", labels=str(tmp_path / "better.csv"))
    np.testing.assert_allclose(found.rows[:], rows, rtol=1e-6)
    assert found.labels.tolist() == better.tolist()
    assert any("kind" in note and "left out" in note for note in found.notes)
    # What is no label stays: other categories, and columns of two numbers.
    flags = [f"{line.rpartition(',')[0]},{n % 2}" for n, line in enumerate(table)]
    (tmp_path / "flags.csv").write_text(lines(flags, "a,b,c,flag"))
    assert open_dataset(tmp_path / "flags.csv", labels=np.arange(N) % 2).shape == (N, 4)
