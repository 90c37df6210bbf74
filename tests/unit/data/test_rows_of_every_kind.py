"""Every kind of file gives the same rows, and damaged ones a sentence."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.compute.blocks import limit_threads
from gmmatch.compute.reads import EachRow
from gmmatch.compute.runner import run_read
from gmmatch.data import ForwardRows, StackedRows, open_dataset, spill, write_rows
from gmmatch.errors import InvalidInput, MissingExtra

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(700, 6)).astype(np.float32)
LABELS = np.array(["cat", "dog", "eel"])[RNG.integers(0, 3, 700)]
IDS = np.array([f"row-{number}" for number in range(700)])


def table(rows=ROWS, kind=None):
    kind = kind or pa.list_(pa.float32())
    vectors = pa.array(rows.tolist(), type=kind)
    return pa.table({"key": IDS[: len(rows)], "vector": vectors, "topic": LABELS[: len(rows)]})


def make_npy(folder):
    np.save(folder / "rows.npy", ROWS)
    return folder / "rows.npy", {}


def make_shards(folder):
    for number, part in enumerate(np.array_split(ROWS, 4)):
        np.save(folder / f"part-{number}.npy", part)
    return folder / "part-*.npy", {}


def make_folder(folder):
    make_shards(folder)
    return folder, {}


def make_npz(folder):
    np.savez(folder / "rows.npz", vectors=ROWS, topic=LABELS, key=IDS)
    return folder / "rows.npz", {"labels": "topic", "ids": "key"}


def make_parquet(folder):
    pq.write_table(table(), folder / "rows.parquet", row_group_size=111)
    return folder / "rows.parquet", {"labels": "topic", "ids": "key"}


def make_parquet_shards(folder):
    whole = table(kind=pa.list_(pa.float32(), 6))
    for number, start in enumerate(range(0, 700, 250)):
        pq.write_table(whole.slice(start, 250), folder / f"part-{number}.parquet")
    return folder, {"embedding": "vector", "labels": "topic", "ids": "key"}


def make_dictionary_labels(folder):
    whole = table(kind=pa.large_list(pa.float32()))
    whole = whole.set_column(2, "topic", whole["topic"].dictionary_encode())
    pq.write_table(whole, folder / "rows.parquet")
    return folder / "rows.parquet", {"labels": "topic", "ids": "key"}


def make_arrow_file(folder):
    with pa.ipc.new_file(folder / "rows.arrow", table().schema) as writer:
        writer.write_table(table(), max_chunksize=99)
    return folder / "rows.arrow", {"labels": "topic", "ids": "key"}


def make_saved_dataset(folder):
    """What `datasets.Dataset.save_to_disk` leaves: Arrow streams and two JSON files."""
    files = []
    for number, start in enumerate((0, 400)):
        name = f"data-{number:05d}-of-00002.arrow"
        with pa.ipc.new_stream(folder / name, table().schema) as writer:
            writer.write_table(table().slice(start, 400))
        files.append({"filename": name})
    (folder / "state.json").write_text(json.dumps({"_data_files": files}))
    (folder / "dataset_info.json").write_text("{}")
    return folder, {"labels": "topic", "ids": "key"}


def make_safetensors(folder):
    from safetensors.numpy import save_file

    codes = np.unique(LABELS, return_inverse=True)[1]
    save_file({"vectors": ROWS, "codes": codes}, folder / "rows.safetensors")
    return folder / "rows.safetensors", {"embedding": "vectors"}


MAKERS = [value for name, value in list(globals().items()) if name.startswith("make_")]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_every_kind_gives_the_same_rows_and_picks(make, tmp_path):
    path, columns = make(tmp_path)
    source = open_dataset(path, **columns)
    assert source.shape == (700, 6)
    np.testing.assert_array_equal(np.asarray(source.rows), ROWS)
    np.testing.assert_array_equal(source.rows[5:9], ROWS[5:9])
    np.testing.assert_array_equal(source.rows[np.array([1, 300, 699])], ROWS[[1, 300, 699]])
    for batch_size in (None, 64):
        picked = gmmatch.select(source, keep=70, labels=LABELS, batch_size=batch_size, guard="off")
        expected = gmmatch.select(ROWS, keep=70, labels=LABELS, batch_size=batch_size, guard="off")
        assert picked.indices.tolist() == expected.indices.tolist()
    if "labels" in columns:
        assert source.labels.tolist() == LABELS.tolist()
        assert picked.ids.tolist() == IDS[picked.indices].tolist()
    (tmp_path / "out").mkdir()
    write_rows(source, np.array([699, 5]), tmp_path / "out")
    written = list((tmp_path / "out").iterdir())
    again = open_dataset(written[0] if len(written) == 1 else tmp_path / "out")
    assert np.sort(np.asarray(again.rows), axis=0).tolist() == np.sort(ROWS[[699, 5]], axis=0).tolist()


@pytest.mark.parametrize("make", [make_parquet, make_parquet_shards, make_arrow_file, make_saved_dataset])
def test_columns_that_do_not_fit_are_read_where_they_are(make, tmp_path):
    path, columns = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    source = open_dataset(path, memory=1 << 10, **columns)
    assert isinstance(source.rows, ForwardRows)
    np.testing.assert_array_equal(np.asarray(source.rows), ROWS)
    for start, stop in ((0, 700), (50, 60), (40, 45), (399, 401), (690, 700), (7, 7)):
        np.testing.assert_array_equal(source.rows[start:stop], ROWS[start:stop])
    chosen = RNG.permutation(700)[:90]
    np.testing.assert_array_equal(source.rows[chosen], ROWS[chosen])
    assert source.rows[699].tolist() == ROWS[699].tolist()
    copy = pickle.loads(pickle.dumps(source.rows))  # what a worker is sent
    np.testing.assert_array_equal(copy[100:500:7], ROWS[100:500:7])
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("group", [3, 10, 64, 700])
def test_stretches_side_by_side_give_blocks_in_order(threads, group, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "_CHUNK_BYTES", 1)
    pq.write_table(table(), tmp_path / "rows.parquet", row_group_size=group)
    rows = open_dataset(tmp_path / "rows.parquet", labels="topic", ids="key", memory=1 << 10).rows
    assert len(rows.undecoded()) == -(-700 // group)
    read = EachRow("reading", lambda at, values: (np.arange(at.start, at.stop), values.copy()), step=9)
    with limit_threads(threads):
        numbers, found = run_read(rows, read)
    assert not rows.undecoded()
    assert numbers.tolist() == list(range(700))
    np.testing.assert_array_equal(found, ROWS)


def packed(kind):
    """Return a table whose vectors are kept in fewer bytes, and the rows that it means."""
    whole = RNG.integers(-100, 100, (300, 4))
    scales = RNG.random(300).astype(np.float32) + 0.5
    lists = pa.list_(pa.int8(), 4)
    values = pa.array(whole.tolist(), lists)
    if kind == "int8 with a scale":
        field = pa.field("v", lists, metadata={"scale": "0.25"})
        return pa.table([values], pa.schema([field])), (whole * 0.25).astype(np.float32)
    if kind == "int8 with a scale per row":
        return pa.table({"v": values, "v_scale": scales}), whole.astype(np.float32) * scales[:, None]
    exact = (whole / 8).astype(np.float32)  # seven bits, which bfloat16 holds
    halves = (exact.view(np.uint32) >> 16).astype(np.uint16)
    if kind == "bfloat16":
        field = pa.field("v", pa.list_(pa.uint16(), 4), metadata={"dtype": "bfloat16"})
        return pa.table([pa.array(halves.tolist(), field.type)], pa.schema([field])), exact
    name = kind.split()[1]
    raw = halves if name == "bfloat16" else exact.astype(name)
    field = pa.field("v", pa.binary(4 * raw.itemsize), metadata={"dtype": name})
    return pa.table([pa.array([row.tobytes() for row in raw], field.type)], pa.schema([field])), exact


@pytest.mark.parametrize("memory", [1 << 10, None])
@pytest.mark.parametrize("kind", ["int8 with a scale", "int8 with a scale per row", "bfloat16",
                                  "binary bfloat16", "binary float16", "binary float32",
                                  "binary float64"])  # fmt: skip
def test_numbers_in_few_bytes(kind, memory, tmp_path):
    made, rows = packed(kind)
    pq.write_table(made, tmp_path / "rows.parquet", row_group_size=70)
    found = open_dataset(tmp_path / "rows.parquet", embedding="v", memory=memory).rows
    assert found.dtype == (np.float64 if kind.endswith("64") else np.float32)
    np.testing.assert_array_equal(np.asarray(found), rows)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_one_column_per_feature(kind, tmp_path):
    values = ROWS.astype(kind)
    columns = {f"f{place}": pa.array(values[:, place]) for place in range(6)}
    pq.write_table(pa.table(columns | {"topic": LABELS}), tmp_path / "rows.parquet", row_group_size=99)
    for memory in (1 << 10, None):
        source = open_dataset(tmp_path / "rows.parquet", labels="topic", memory=memory)
        assert isinstance(source.rows, ForwardRows) == (memory is not None)
        np.testing.assert_array_equal(np.asarray(source.rows), values.astype(source.rows.dtype))
        assert source.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("first", "named"),
    [("0,1,2", True), ("2019,2020,2021", True), ("3,1,2", False), ("1,1,2", False), ("-1,0,2.5", False)],
)
def test_whole_numbers_that_ascend_name_columns(first, named, tmp_path):
    (tmp_path / "rows.csv").write_text(f"{first}\n4,5,6\n7,8,9\n")
    found = open_dataset(tmp_path / "rows.csv")
    assert found.columns == (tuple(first.split(",")) if named else ("0", "1", "2"))
    assert len(found) == (2 if named else 3)


def test_a_first_line_of_numbers_is_a_row_unless_it_counts_the_columns(tmp_path):
    bare, counted = tmp_path / "bare.csv", tmp_path / "counted.tsv"
    np.savetxt(bare, ROWS[:20], delimiter=",")
    np.savetxt(counted, ROWS[:20], delimiter="\t", header="0\t1\t2\t3\t4\t5", comments="")
    for path in (bare, counted):
        found = open_dataset(path)
        assert found.columns == ("0", "1", "2", "3", "4", "5")
        np.testing.assert_array_equal(found.rows, ROWS[:20].astype(float))
        write_rows(found, np.array([4, 0]), tmp_path)
        np.testing.assert_array_equal(open_dataset(tmp_path / f"kept{path.suffix}").rows, found.rows[[4, 0]])


def test_two_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b,a\n1,2,3\n4,5,6\n")
    with pytest.raises(InvalidInput, match=r"rows\.csv has several columns called 'a'; expected a name for"):
        open_dataset(tmp_path / "rows.csv")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_rows_without_numbers_that_are_found_when_they_are_read(ending, tmp_path):
    vectors = ROWS[:300].tolist()
    vectors[123], vectors[200] = None, [1.0, None, 2.0, 3.0, 4.0, 5.0]
    made = pa.table({"vector": pa.array(vectors, pa.list_(pa.float32()))})
    file = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        pq.write_table(made, file, row_group_size=50)
    else:
        with pa.ipc.new_file(file, made.schema) as writer:
            writer.write_table(made, max_chunksize=50)
    source = open_dataset(file, memory=1 << 10)
    with pytest.raises(InvalidInput, match="row 123: no value in column 'vector'"):
        gmmatch.select(source, keep=10)
    found = gmmatch.select(
        open_dataset(file, memory=1 << 10, on_bad_rows="drop"), keep=10, on_bad_rows="drop"
    )
    assert found.info.bad_rows == 2


@pytest.mark.parametrize("ending", ["parquet", "arrow", "stream"])
def test_damaged_files_are_read_or_refused_whole_and_in_pieces(ending, tmp_path):
    """Twelve bytes changed anywhere, in a process of its own: it must not crash."""
    made = table(kind=pa.list_(pa.float32(), 6))
    file = tmp_path / f"rows.{'arrow' if ending == 'stream' else ending}"
    if ending == "parquet":
        pq.write_table(made, file, row_group_size=111)
    else:
        with (pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream)(file, made.schema) as writer:
            writer.write_table(made, max_chunksize=99)
    (tmp_path / "whole").write_bytes(file.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", DAMAGING, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 20


DAMAGING = """
import sys, numpy as np
from gmmatch.data import open_dataset
from gmmatch.errors import InvalidInput
file = sys.argv[1]
whole = np.frombuffer(open(file.rsplit('/', 1)[0] + '/whole', 'rb').read(), np.uint8)
refused = 0
for seed in range(60):
    rng = np.random.default_rng(seed)
    damaged = whole.copy()
    damaged[rng.integers(0, len(whole), 12)] = rng.integers(0, 256, 12)
    with open(file, 'wb') as handle:
        handle.write(damaged.tobytes())
    for memory in (None, 1 << 10):
        try:
            data = open_dataset(file, labels='topic', ids='key', memory=memory)
            np.asarray(data.rows)
        except InvalidInput as error:
            assert '\\n' not in str(error) and len(str(error)) < 1000
            refused += 1
print(refused)
"""


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.int8()])
def test_number_types_of_a_column(kind, tmp_path):
    rows = RNG.integers(-5, 5, (20, 3)).astype(np.float32)
    values = pa.array(rows.astype(kind.to_pandas_dtype()).ravel(), type=kind)
    vectors = pa.FixedSizeListArray.from_arrays(values, 3)
    pq.write_table(pa.table({"vector": vectors}), tmp_path / "rows.parquet")
    source = open_dataset(tmp_path / "rows.parquet")
    assert source.rows.dtype == (np.float64 if kind in (pa.float64(), pa.int8()) else np.float32)
    np.testing.assert_array_equal(np.asarray(source.rows), rows)


def test_half_precision_and_whole_numbers_are_read_as_floats(tmp_path):
    for dtype, expected in (("float16", "float32"), ("int16", "float64"), (">f4", "float32")):
        rows = np.arange(12).reshape(4, 3).astype(dtype)
        np.save(tmp_path / "rows.npy", rows)
        view = open_dataset(tmp_path / "rows.npy").rows
        assert isinstance(view, StackedRows)
        assert view.dtype == expected
        assert view[1].tolist() == [3.0, 4.0, 5.0]
        assert view[::2].tolist() == [[0.0, 1.0, 2.0], [6.0, 7.0, 8.0]]
        assert view[np.array([True, False, False, True])].tolist() == [[0.0, 1.0, 2.0], [9.0, 10.0, 11.0]]


def test_bfloat16_tensors(tmp_path):
    import torch
    from safetensors.torch import save_file

    rows = torch.randn(9, 4).to(torch.bfloat16)
    save_file({"x": rows}, tmp_path / "rows.safetensors")
    source = open_dataset(tmp_path / "rows.safetensors")
    np.testing.assert_array_equal(np.asarray(source.rows), rows.float().numpy())


def test_a_dataset_object(tmp_path):
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    dataset = datasets.Dataset(table())
    source = open_dataset(dataset, labels="topic", ids="key")
    np.testing.assert_array_equal(np.asarray(source.rows), ROWS)
    shuffled = open_dataset(dataset.select([5, 3, 1]), labels="topic")
    np.testing.assert_array_equal(np.asarray(shuffled.rows), ROWS[[5, 3, 1]])
    dataset.save_to_disk(tmp_path / "saved")
    saved = open_dataset(tmp_path / "saved", labels="topic")
    np.testing.assert_array_equal(np.asarray(saved.rows), ROWS)


def test_remote_paths_go_through_fsspec():
    fsspec = pytest.importorskip("fsspec", reason="the package fsspec is not installed")
    with fsspec.open("memory://bucket/rows.parquet", "wb") as file:
        pq.write_table(table(), file)
    source = open_dataset("memory://bucket/rows.parquet", labels="topic")
    np.testing.assert_array_equal(np.asarray(source.rows), ROWS)
    with pytest.raises(InvalidInput, match=r"there is no file of \.parquet.* at memory://bucket/nothing"):
        open_dataset("memory://bucket/nothing.parquet")


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"gmmatch\[remote\]"):
        open_dataset("hf://bucket/rows.parquet")


@pytest.mark.parametrize("name", ["labels.npy", "labels.csv", "labels.txt", "labels.parquet"])
def test_labels_beside_the_rows(name, tmp_path):
    path, _ = make_npy(tmp_path)
    file = tmp_path / name
    codes = np.unique(LABELS, return_inverse=True)[1]
    if name.endswith("npy"):
        np.save(file, codes)
    elif name.endswith("csv"):
        file.write_text("id,label\n" + "".join(f"{i},{c}\n" for i, c in enumerate(codes)))
    elif name.endswith("txt"):
        file.write_text("".join(f"{code}\n" for code in codes))
    else:
        pq.write_table(pa.table({"label": codes}), file)
    assert open_dataset(path, labels=str(file)).labels.tolist() == codes.tolist()


def damage(name, folder):
    """Make one kind of bad input; return what to open and what the sentence must say."""
    path, words, columns = folder / "bad.parquet", "", {}
    if name == "missing":
        return folder / "none.npy", "there is no file", {}
    if name == "no match":
        return folder / "*.npy", "no file matches", {}
    if name == "empty folder":
        return folder, "has no file of embeddings", {}
    if name == "unknown kind":
        (folder / "rows.doc").write_text("x")
        return folder / "rows.doc", "of a kind that is not known", {}
    if name == "truncated npy":
        np.save(folder / "rows.npy", ROWS)
        data = (folder / "rows.npy").read_bytes()
        (folder / "rows.npy").write_bytes(data[: len(data) // 2])
        return folder / "rows.npy", "is not a readable .npy file", {}
    if name == "pickled npy":
        np.save(folder / "rows.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        return folder / "rows.npy", "is not a readable .npy file", {}
    if name == "text npy":
        np.save(folder / "rows.npy", np.array([["a", "b"]]))
        return folder / "rows.npy", "expected numbers", {}
    if name == "flat npy":
        np.save(folder / "rows.npy", np.arange(5.0))
        return folder / "rows.npy", "two dimensions", {}
    if name == "mixed widths":
        np.save(folder / "a.npy", ROWS)
        np.save(folder / "b.npy", ROWS[:, :4])
        return folder, "has rows of 4 numbers", {}
    if name == "mixed kinds":
        np.save(folder / "a.npy", ROWS)
        pq.write_table(table(), folder / "b.parquet")
        return folder, "mixes files of several kinds", {}
    if name == "truncated parquet":
        pq.write_table(table(), path)
        path.write_bytes(path.read_bytes()[:-50])
        words = "is not a readable Parquet file"
    elif name == "missing column":
        pq.write_table(table(), path)
        words, columns = (
            "has no column 'vectr' (",
            {"embedding": "vectr"},
        )
    elif name == "text column":
        pq.write_table(table(), path)
        words, columns = "expected lists of numbers", {"embedding": "topic"}
    elif name == "ragged lists":
        rows = ROWS[:10].tolist()
        rows[7] = [1.0]
        pq.write_table(pa.table({"vector": rows}), path)
        words = "row 7: 1 numbers in column 'vector', expected 6"
    elif name == "null list":
        pq.write_table(pa.table({"vector": [[1.0, 2.0], None]}), path)
        words = "row 1: no value in column 'vector'; "
    elif name == "null number":
        pq.write_table(pa.table({"vector": [[1.0, 2.0], [3.0, None]]}), path)
        words = "row 1: a missing number in column 'vector'"
    elif name == "null label":
        pq.write_table(pa.table({"vector": [[1.0], [2.0]], "topic": ["a", None]}), path)
        words, columns = "row 1: no label in column 'topic'; ", {"labels": "topic"}
    elif name == "two vector columns":
        pq.write_table(pa.table({"a": [[1.0]], "b": [[2.0]]}), path)
        words = "has several columns of lists of numbers"
    elif name == "no rows":
        pq.write_table(table().slice(0, 0), path)
        words = "has no rows"
    elif name == "bad safetensors":
        path = folder / "rows.safetensors"
        path.write_bytes(b"\xff" * 64)
        words = "is not a readable safetensors file"
    elif name == "short safetensors":
        from safetensors.numpy import save_file

        path = folder / "rows.safetensors"
        save_file({"x": ROWS}, path)
        path.write_bytes(path.read_bytes()[:-100])
        words = "truncated"
    elif name == "short labels":
        make_npy(folder)
        np.save(folder / "labels.npy", np.arange(3))
        path, words = folder / "rows.npy", "labels has 3 entries for 700 rows"
        columns = {"labels": str(folder / "labels.npy")}
    elif name == "column of npy":
        path, _ = make_npy(folder)
        words, columns = "has no columns", {"labels": "topic"}
    elif name == "splits":
        (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        path, words = folder, "holds the splits train, test"
    return path, words, columns


KINDS = """missing, no match, empty folder, unknown kind, truncated npy, pickled npy, text npy, flat npy,
mixed widths, mixed kinds, truncated parquet, missing column, text column, ragged lists, null list,
null number, null label, two vector columns, no rows, bad safetensors, short safetensors, short labels,
column of npy, splits""".replace("\n", " ").split(", ")


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_gets_a_sentence_exit_code_3_and_no_output(kind, tmp_path):
    from typer.testing import CliRunner

    from gmmatch.cli import app

    folder = tmp_path / "input"
    folder.mkdir()
    path, words, columns = damage(kind.strip(), folder)
    with pytest.raises(InvalidInput) as caught:
        open_dataset(path, **columns)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    options = [word for name, value in columns.items() for word in (f"--{name}", value)]
    output = tmp_path / "kept.parquet"
    done = CliRunner().invoke(app, ["select", str(path), "--keep", "1", "-o", str(output), *options])
    assert done.exit_code == 3, done.output
    assert words in done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["input"]


def test_headers_that_are_damaged_anywhere_are_read_or_refused(tmp_path):
    file = tmp_path / "rows.npy"
    np.save(file, ROWS[:20])
    whole = np.frombuffer(file.read_bytes(), np.uint8)
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        damaged = whole.copy()
        damaged[rng.integers(0, 128, 3)] = rng.integers(0, 256, 3)
        file.write_bytes(damaged.tobytes())
        try:
            assert open_dataset(file).shape[0] > 0
        except InvalidInput:
            refused += 1
    assert refused > 100


def test_a_single_row_of_joined_parts_is_counted_from_the_end_too() -> None:
    view = StackedRows([np.zeros((2, 3)), np.ones((1, 3))], ["a", "b"])
    np.testing.assert_array_equal(view[-1], np.ones(3))
    np.testing.assert_array_equal(view[0], np.zeros(3))
    with pytest.raises(IndexError):
        view[3]
