"""What is in memory already: arrays, tensors, tables, datasets, lists."""

import sys
import types

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gmmatch
from gmmatch.data import Dataset, Format, MappedRows, Rows, StackedRows, open_dataset
from gmmatch.data.open import FORMATS
from gmmatch.data.request import Place
from gmmatch.errors import InvalidInput, InvalidInputType, InvalidParameter
from gmmatch.trust.judge import UsableRows

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 4)).astype(np.float32)
LABELS = np.array(["a", "b", "c"])[np.arange(30) % 3]


class Masked:
    mask = np.zeros(ROWS.shape, bool)
    mask[7, 1] = True


VECTORS = {
    "list": ROWS.tolist(),
    "subclass": ROWS.view(np.recarray),
    "tensor": torch.tensor(ROWS, requires_grad=True),
    "fortran": np.asfortranarray(ROWS),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_arrays(kind):
    found = open_dataset(VECTORS[kind], labels=LABELS)
    assert type(found.rows) is np.ndarray
    np.testing.assert_array_equal(found.rows, ROWS)
    assert found.labels.tolist() == LABELS.tolist()


def test_bfloat16():
    tensor = torch.tensor(ROWS).to(torch.bfloat16)
    np.testing.assert_array_equal(open_dataset(tensor).rows, tensor.float().numpy())
    assert len(gmmatch.select(tensor, keep=5)) == 5


def test_masked_values_are_missing():
    masked = np.ma.array(ROWS, mask=Masked.mask)
    with pytest.raises(InvalidInput, match=r"1 row \(first: 7\)"):
        gmmatch.select(masked, keep=5)
    kept = gmmatch.select(masked, keep=1.0, on_bad_rows="drop")
    assert sorted(kept.indices.tolist()) == [row for row in range(30) if row != 7]
    whole = np.ma.array(np.arange(6).reshape(3, 2), mask=[[0, 0], [0, 0], [1, 1]])
    assert np.isnan(open_dataset(whole).rows[2]).all()


def tables(**more):
    columns = {"vector": [row.tolist() for row in ROWS], "topic": LABELS.tolist(), **more}
    return {
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "lazy": pl.DataFrame(columns).lazy(),
        "arrow": pa.table(columns),
        "batch": pa.RecordBatch.from_pydict(columns),
    }


@pytest.mark.parametrize("kind", tables())
def test_tables_with_a_column_of_vectors(kind):
    found = open_dataset(tables(key=list(range(100, 130)))[kind], labels="topic", ids="key")
    np.testing.assert_array_equal(found.rows.astype(np.float32), ROWS)
    assert found.labels.tolist() == LABELS.tolist()
    assert found.ids.tolist() == list(range(100, 130))
    assert found.kind == "table"


@pytest.mark.parametrize("library", [pd, pl])
def test_tables_of_numbers(library):
    frame = library.DataFrame({f"x{column}": ROWS[:, column] for column in range(4)} | {"topic": LABELS})
    found = open_dataset(frame, labels="topic")
    np.testing.assert_array_equal(found.rows, ROWS)
    assert found.rows.dtype == np.float32
    with pytest.raises(InvalidInput, match="must be numbers; got topic"):
        open_dataset(frame)
    assert len(gmmatch.select(frame, labels="topic", keep=3)) == 3


@pytest.mark.parametrize("kind", tables())
def test_vectors_that_are_missing_are_refused_or_left_out(kind):
    vectors = [None if row in (2, 11) else [1.0] if row == 3 else ROWS[row].tolist() for row in range(30)]
    labels = [None if row == 5 else word for row, word in enumerate(LABELS.tolist())]
    table = tables(vector=vectors, topic=labels)[kind]
    with pytest.raises(InvalidInput, match=r"3 of 30 rows .*row 2: no value in column 'vector'; row 3: 1"):
        open_dataset(table, labels="topic")
    found = open_dataset(table, labels="topic", on_bad_rows="drop")
    assert sorted(found.bad) == [2, 3, 5, 11]
    assert np.isnan(found.rows[[2, 3, 11]]).all()
    kept = gmmatch.select(table, labels="topic", keep=1.0, on_bad_rows="drop")
    assert sorted(kept.indices.tolist()) == [row for row in range(30) if row not in (2, 3, 5, 11)]
    assert kept.info.bad_rows == 4


def test_texts_and_images_of_tables():
    frame = pd.DataFrame({"body": ["one", "two", None], "n": [1, 2, 3]})
    found = open_dataset(frame, text="body", labels="n")
    assert (found.rows, found.content.kind, found.labels.tolist()) == (None, "text", [1, 2, 3])
    assert found.content.read(0, 2) == ["one", "two"]
    assert str(found.content.all()[2]) == "no text in column 'body'"
    pictures = pa.table({"image": [{"bytes": b"A", "path": None}, {"bytes": b"B", "path": None}]})
    assert open_dataset(pictures, image="image").content.all() == [b"A", b"B"]


def test_a_hugging_face_dataset_of_images(tmp_path):
    datasets = pytest.importorskip("datasets")
    from PIL import Image

    pictures = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (10, 20, 30)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["x", "y"])})
    made = datasets.Dataset.from_dict({"image": pictures, "label": [0, 1, 0]}, features=features)
    made.save_to_disk(tmp_path / "saved")
    for given in (made, tmp_path / "saved"):
        found = gmmatch.open(given, labels="label", image="image", encoder="pixels")
        assert found.shape == (3, 192)
        np.testing.assert_allclose(found.rows[:, 0] * 255, [10, 20, 30], atol=1)
        assert found.labels.tolist() == [0, 1, 0]
    with pytest.raises(InvalidInput, match="holds the splits train"):
        open_dataset(datasets.DatasetDict({"train": made}))


class Pairs(torch.utils.data.Dataset):
    def __init__(self, values, labels):
        self.values, self.labels = values, labels

    def __len__(self):
        return len(self.values)

    def __getitem__(self, row):
        return self.values[row], self.labels[row]


def test_torch_datasets():
    tensors = torch.utils.data.TensorDataset(torch.tensor(ROWS), torch.arange(30) % 3)
    found = open_dataset(tensors)
    np.testing.assert_array_equal(found.rows, ROWS)
    assert found.labels.tolist() == (np.arange(30) % 3).tolist()
    pixels = RNG.integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
    scaled = open_dataset(Pairs(torch.tensor(pixels) / 255, list("abcabc")))
    np.testing.assert_array_equal(np.stack(scaled.content.all()), pixels.transpose(0, 2, 3, 1))
    assert scaled.labels.tolist() == list("abcabc")
    texts = open_dataset(Pairs(["one", "two"], [0, 1]))
    assert (texts.content.kind, texts.content.all()) == ("text", ["one", "two"])


def test_lists(tmp_path):
    assert open_dataset(["one text", "another"]).content.kind == "text"
    (tmp_path / "a.png").write_bytes(b"A")
    paths = open_dataset([tmp_path / "a.png"])
    assert (paths.content.kind, paths.content.all()) == ("image", [b"A"])
    pixels = [np.zeros((8, 8), np.uint8), np.ones((9, 9, 3), np.uint8)]
    assert [image.shape for image in open_dataset(pixels).content.all()] == [(8, 8, 1), (9, 9, 3)]
    images = open_dataset(np.zeros((5, 8, 8, 3), np.uint8))
    assert (images.content.kind, len(images)) == ("image", 5)
    with pytest.raises(InvalidInput, match="holds images; name an encoder"):
        _ = images.shape
    with pytest.raises(InvalidInputType, match="list of texts; got int"):
        open_dataset(3, holds="text")


def test_a_dataset_that_is_open_takes_other_labels():
    found = open_dataset(ROWS, labels=LABELS)
    again = open_dataset(found, labels=np.arange(30) % 2)
    assert again.rows is found.rows
    assert again.labels.tolist() == (np.arange(30) % 2).tolist()
    assert found.fingerprint() != again.fingerprint()


def test_rows_of_all_kinds_satisfy_one_protocol():
    def first(rows: Rows) -> list[float]:
        return [rows.shape, rows.dtype, rows.ndim, rows.itemsize, len(rows), rows[:1].tolist()]

    every = np.arange(30)
    for view in (
        StackedRows([ROWS[:10], ROWS[10:]], ["a", "b"]),
        MappedRows(ROWS, np.positive),
        UsableRows(ROWS, every >= 0),
    ):
        assert first(view) == first(ROWS)
        np.testing.assert_array_equal(view[np.array([1, 5, 29])], ROWS[[1, 5, 29]])


def test_a_format_of_ones_own(tmp_path):
    def opened(place, request):
        rows = np.array(
            [[float(word) for word in line.split("|")] for line in place.path.read_text().split()]
        )
        return Dataset(rows, place.name, "bars", files=place.files)

    def written(dataset, rows, folder):
        lines = ["|".join(map(str, row)) for row in dataset.take(rows)]
        (folder / "kept.bars").write_text("\n".join(lines))

    def recognised(x, request):
        return isinstance(x, Place) and x.endings == {".bars"}

    gmmatch.register_format(Format("bars", recognised, opened, written))
    try:
        (tmp_path / "rows.bars").write_text("1|2\n3|4\n5|6\n")
        gmmatch.select(tmp_path / "rows.bars", keep=2, materialize=tmp_path / "kept")
        again = open_dataset(tmp_path / "kept" / "kept.bars")
        assert set(map(tuple, again.rows.tolist())) <= {(1, 2), (3, 4), (5, 6)}
        assert len(again) == 2
        with pytest.raises(InvalidParameter, match="'bars' is there already"):
            gmmatch.register_format(Format("bars", recognised, opened, written))
    finally:
        del FORMATS["bars"]


@pytest.mark.parametrize("name", ["pipe", "socket"])
def test_what_is_neither_a_file_nor_a_folder_is_refused_at_once(tmp_path, name):
    import os
    import socket

    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    with pytest.raises(InvalidInput, match="is neither a file nor a folder"):
        open_dataset(path)


def test_a_module_of_the_user_called_datasets_is_none_of_hugging_face(monkeypatch):
    module = types.ModuleType("datasets")
    module.Dataset = Pairs
    monkeypatch.setitem(sys.modules, "datasets", module)
    for name in [name for name in sys.modules if name.startswith("datasets.")]:
        monkeypatch.delitem(sys.modules, name)
    assert open_dataset(Pairs(torch.eye(3), [0, 1, 0])).kind == "torch"


def test_labels_of_another_index_than_the_table_are_refused():
    table = pd.DataFrame(ROWS).sample(frac=1.0, random_state=0)
    labels = pd.Series(np.arange(len(table)) % 2)
    with pytest.raises(InvalidInput, match=r"another index than the table .* labels\.loc\[table\.index\]"):
        open_dataset(table, labels)
    joined = open_dataset(table, labels.loc[table.index]).labels
    assert joined.tolist() == (table.index.to_numpy() % 2).tolist()
    assert open_dataset(table, labels.to_numpy()).labels.tolist() == labels.tolist()
    assert open_dataset(ROWS, labels.iloc[::-1]).labels.tolist() == labels.iloc[::-1].tolist()


COLUMNS = {
    "labels": {"labels": np.arange(60) % 3},
    "ids": {"ids": np.array([f"id {row}" for row in range(60)])},
    "groups": {"groups": np.arange(60) % 20},
    "cost": {"cost": 1.0 + np.arange(60), "keep": 0.5},
    "quality": {"quality": np.arange(60) / 60},
    "strata": {"strata": np.arange(60) % 2},
    "scores": {"scores": np.arange(60) / 60, "method": "top-scores"},
    "include": {"include": np.arange(60) < 5},
    "exclude": {"exclude": np.arange(60) < 5},
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("index", ["numbers", "names"])
def test_whatever_is_said_of_rows_has_the_index_of_the_table(name, index):
    """A column in another order than the table is refused, whichever parameter takes it."""
    rng = np.random.default_rng(0)
    names = np.arange(60) if index == "numbers" else [f"row {row}" for row in range(60)]
    table = pd.DataFrame(rng.normal(size=(60, 4)), index=names)

    def select(column, **others):
        given = {name: column} | others
        if name in ("ids", "groups"):
            return gmmatch.select(gmmatch.open(table, np.arange(60) % 3, **given), keep=9)
        return gmmatch.select(table, **({"labels": np.arange(60) % 3, "keep": 9} | given))

    others = {key: value for key, value in COLUMNS[name].items() if key != name}
    column = pd.Series(COLUMNS[name][name], index=names)
    expected = select(column.to_numpy(), **others).indices.tolist()
    assert select(column, **others).indices.tolist() == expected
    with pytest.raises(InvalidInput, match=rf"{name} has another index than the table .* {name}\.loc"):
        select(column.iloc[::-1], **others)


@pytest.mark.parametrize("name", ["labels", "cost", "quality", "strata", "exclude"])
def test_a_column_of_pandas_that_has_the_ids_of_the_rows_has_them_in_their_order(name):
    rng = np.random.default_rng(0)
    ids = [f"row {row}" for row in range(60)]
    data = gmmatch.open(rng.normal(size=(60, 4)), np.arange(60) % 3, ids=ids)
    others = {key: value for key, value in COLUMNS[name].items() if key != name}
    column = pd.Series(COLUMNS[name][name], index=ids)

    def select(column):
        return gmmatch.select(data, **({"keep": 9} | {name: column} | others)).indices.tolist()

    assert select(column) == select(column.to_numpy()) == select(column.reset_index(drop=True))
    with pytest.raises(
        InvalidInput, match=rf"{name} has another index than the data .* {name}\.loc\[data\.ids\]"
    ):
        select(column.iloc[::-1])


def test_probabilities_have_the_index_of_the_table():
    labels = np.arange(60) % 3
    table = pd.DataFrame(np.eye(3)[labels] + np.random.default_rng(0).normal(size=(60, 3)))
    chances = pd.DataFrame(np.where(np.eye(3)[labels] > 0, 0.8, 0.1))
    for given in (chances.iloc[::-1], {str(name): chances[name].iloc[::-1] for name in chances}):
        with pytest.raises(InvalidInput, match="probabilities has another index than the table"):
            gmmatch.select(table, labels, keep=9, probabilities=given)
    assert len(gmmatch.select(table, labels, keep=9, probabilities=chances)) == 9


def test_labels_of_a_dataset_that_is_open_have_the_index_of_its_table():
    opened = gmmatch.open(pd.DataFrame(ROWS))
    labels = pd.Series(np.arange(len(ROWS)) % 2)
    with pytest.raises(InvalidInput, match="labels has another index than the table"):
        gmmatch.select(opened, labels.iloc[::-1], keep=2)


class LazyRows:
    """Rows as h5py and the like have them: no array, and read when they are indexed."""

    ndim = 2

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.read = values, values.shape, values.dtype, 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        assert not isinstance(key, np.ndarray) or (np.diff(key) > 0).all()
        found = self.values[key]
        self.read += len(np.atleast_2d(found))
        return found


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_rows_that_are_read_like_an_array_are_read_where_they_are(dtype):
    values = (10 * np.random.default_rng(0).normal(size=(400, 20))).astype(dtype)
    labels = np.arange(400) % 2
    rows = LazyRows(values)
    found = gmmatch.select(rows, labels, keep=40, guard="off")
    assert found.indices.tolist() == gmmatch.select(values, labels, keep=40, guard="off").indices.tolist()
    assert rows.read <= found.info.reads * len(values) + 1
    np.testing.assert_array_equal(found.apply(rows), values[found.indices])
    assert gmmatch.open(rows).rows.shape == (400, 20)


def test_rows_columns_and_records_in_objects_of_python():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(90, 3)), np.arange(90) % 3
    expected = gmmatch.select(rows, labels, keep=9).indices.tolist()
    columns = {"a": rows[:, 0], "b": rows[:, 1].tolist(), "c": rows[:, 2], "topic": labels}
    records = [{"vector": row.tolist(), "topic": int(topic)} for row, topic in zip(rows, labels, strict=True)]
    for data in (columns, records, {"vector": rows, "topic": labels}):
        assert gmmatch.select(data, "topic", keep=9).indices.tolist() == expected
    one_by_one = gmmatch.select((row for row in rows), (label for label in labels), keep=9)
    assert one_by_one.indices.tolist() == expected
    with pytest.raises(InvalidInput, match=r"^the dict is no table of columns: "):
        gmmatch.open({"a": [1.0, 2.0], "b": [1.0]})


@pytest.mark.parametrize("given", [None, 3, object(), {1.0, 2.0}, {1: 2.0}, {}])
def test_what_is_no_rows_is_told_what_rows_are_and_nothing_of_it_is_shown(given):
    with pytest.raises(InvalidInputType) as caught:
        gmmatch.select(given, keep=1)
    assert str(caught.value) == (
        "X must be rows of numbers: an array of shape (rows, features), a table, a dataset or a path; got"
        f" {type(given).__name__}"
    )


def test_a_pair_of_rows_and_labels_gets_the_right_call():
    with pytest.raises(InvalidInputType, match=r"pass rows and labels one after the other: \(data, labels"):
        gmmatch.select((np.eye(3), np.arange(3)))
