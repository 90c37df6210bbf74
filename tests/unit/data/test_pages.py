"""Pages of Parquet files that are read directly hold what Arrow finds in them."""

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.data.formats import parquet
from gmmatch.data.pages import _data_page, _decompressed, column_chunks, plain_column
from gmmatch.data.thrift import I32, STRUCTURE, Odd, structure
from gmmatch.errors import InvalidInput

TYPES = {
    "fixed": lambda width, kind: pa.list_(kind, width),
    "list": lambda width, kind: pa.list_(kind),
    "large": lambda width, kind: pa.large_list(kind),
}


def write(path, rows, type_, **options):
    """Write rows as a column of lists, with numbers beside it."""
    column = pa.array(list(rows), type_)
    settings = {"row_group_size": 700, "data_page_size": 4096, "use_dictionary": False, **options}
    pq.write_table(pa.table({"vector": column, "label": np.arange(len(column))}), path, **settings)


def column(path, start=0, rows=100):
    """Return the column as it is read, and as Arrow reads it."""
    file = parquet.ParquetFile(
        str(path), pq.read_metadata(path).num_rows, f"{path} {path.stat().st_mtime_ns}"
    )
    batches = list(file.batches(["vector"], start, rows))
    assert all(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches), pq.read_table(path, columns=["vector"]).slice(start)


def plain(path, group=0):
    facts = pq.read_metadata(path)
    with open(path, "rb") as handle:
        chunks = column_chunks(handle, facts.serialized_size)
        return plain_column(handle, facts, chunks[group], facts.row_group(group).num_rows, "vector")


@pytest.mark.parametrize("form", TYPES)
@pytest.mark.parametrize("width", [1, 3, 8, 256, 300])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
def test_plain_numbers_are_those_that_arrow_reads(tmp_path, form, width, version, codec):
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(width).normal(size=(1500, width)).astype(np.float32)
    write(path, rows, TYPES[form](width, pa.float32()), data_page_version=version, compression=codec)
    assert plain(path) is not None
    assert plain(path, 2) is not None
    for start in (0, 1, 699, 700, 1111):
        found, expected = column(path, start)
        assert found.equals(expected)
    again = np.concatenate([chunk.flatten().to_numpy() for chunk in column(path)[0]["vector"].chunks])
    np.testing.assert_array_equal(again.reshape(-1, width), rows)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_precisions_and_large_pages(tmp_path, kind):
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(0).normal(size=(2000, 33)).astype(kind)
    type_ = pa.list_(pa.from_numpy_dtype(kind), 33)
    write(path, rows, type_, data_page_size=1 << 24, row_group_size=2000)
    assert len(plain(path).pages) == 1
    assert column(path, 5, 128)[0].equals(column(path, 5)[1])


def test_after_a_dictionary_that_grew_too_large_the_plain_pages_are_read(tmp_path):
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
    options = {"use_dictionary": True, "dictionary_pagesize_limit": 8192, "row_group_size": 1000}
    write(path, rows, pa.list_(pa.float32(), 16), **options)
    assert 0 < plain(path).first < 1000
    for start in (0, plain(path).first - 1, plain(path).first, 999, 1000):
        found, expected = column(path, start)
        assert found.equals(expected)


def test_rows_behind_uneven_ones_are_not_mistaken_for_others(tmp_path):
    path = tmp_path / "rows.parquet"
    rows = [list(row) for row in np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)]
    rows[100:101] = [rows[100][:4], rows[100][4:]]  # one row more ...
    rows[900:902] = [[*rows[900], *rows[901]]]  # ... and, behind it, one less: as many numbers as before
    for options in ({}, {"use_dictionary": True, "dictionary_pagesize_limit": 8192}):
        write(path, rows, pa.list_(pa.float32()), row_group_size=1000, **options)
        assert plain(path) is not None
        for start in (0, 99, 101, 300, 700, 901, 950):
            parquet._plain.cache_clear()
            found, expected = column(path, start)
            assert found.equals(expected)


@pytest.mark.parametrize(
    "odd", ["few numbers", "a gap", "no list", "lengths", "two lengths", "whole numbers", "codec"]
)
def test_what_is_not_plain_is_left_to_arrow(tmp_path, odd):
    path = tmp_path / "rows.parquet"
    rng = np.random.default_rng(0)
    rows = [list(row) for row in rng.normal(size=(1500, 8)).astype(np.float32)]
    kind, options = pa.list_(pa.float32()), {}
    if odd == "few numbers":
        rows, options = [[float(number % 3)] * 8 for number in range(1500)], {"use_dictionary": True}
    elif odd == "a gap":
        rows[900][3] = None
    elif odd == "no list":
        rows[900] = None
    elif odd == "lengths":
        rows[900], rows[901] = rows[900][:7], [*rows[901], 1.0]  # as many numbers as before
    elif odd == "two lengths":
        rows[700:] = [row[:4] for row in rows[700:]]
    elif odd == "whole numbers":
        rows, kind = [[number] * 8 for number in range(1500)], pa.list_(pa.int32())
    else:
        options = {"compression": "brotli"}
    write(path, rows, kind, **options)
    for start in (0, 650, 899, 902, 1400):
        found, expected = column(path, start)
        assert found.equals(expected)


def test_other_columns_are_not_mistaken_for_lists(tmp_path):
    path = tmp_path / "rows.parquet"
    inner = pa.array(list(np.ones((50, 4), np.float32)), pa.list_(pa.float32()))
    pq.write_table(
        pa.table({"vector": pa.StructArray.from_arrays([inner], ["a"])}), path, use_dictionary=False
    )
    assert plain(path) is None
    assert column(path)[0].equals(column(path)[1])


def test_pages_beyond_the_end_of_the_file_are_not_believed(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path, np.random.default_rng(0).normal(size=(300, 16)), pa.list_(pa.float64(), 16))
    last, facts = plain(path).pages[-1], pq.read_metadata(path)
    chunks = column_chunks(io.BytesIO(path.read_bytes()), facts.serialized_size)[0]
    for end, known in ((last.begin + last.size, True), (last.begin + last.size - 1, False)):
        handle = io.BytesIO(path.read_bytes()[:end])
        assert (plain_column(handle, facts, chunks, 300, "vector") is not None) == known


def test_damaged_pages_end_in_a_sentence_or_in_numbers(tmp_path):
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(0).normal(size=(300, 16)).astype(np.float32)
    write(path, rows, pa.list_(pa.float32(), 16), data_page_version="1.0", compression="snappy")
    whole = path.read_bytes()
    end = pq.read_metadata(path).row_group(0).column(0).total_compressed_size + 4
    rng = np.random.default_rng(1)
    refused = 0
    for trial in range(600):
        damaged = bytearray(whole)
        at = int(rng.integers(4, 60 if trial % 2 else end))
        damaged[at] ^= 1 << int(rng.integers(8))
        own = tmp_path / f"{trial}.parquet"
        own.write_bytes(damaged)
        file = parquet.ParquetFile(str(own), 300, str(own))
        try:
            found = pa.Table.from_batches(list(file.batches(["vector"], 0, 100)))
            assert found.num_rows <= 300
            assert found.schema.equals(pq.read_schema(path).remove(1))
        except InvalidInput:
            refused += 1
        own.unlink()
    assert 0 < refused < 600


FLIPS = """
import sys
import numpy as np, pyarrow.parquet as pq
import gmmatch, gmmatch.errors
path, begin, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
whole = open(path, "rb").read()
refused = same = 0
for bit in range(8 * begin, 8 * len(whole), step):
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    own = f"{path}.{bit}.parquet"
    open(own, "wb").write(damaged)
    try:
        found = gmmatch.open(own, embedding="vector").rows[:]
    except gmmatch.errors.GmmatchError:
        refused += 1
        continue
    try:
        known = pq.ParquetFile(own).read(columns=["vector"])["vector"].combine_chunks().flatten()
    except Exception:
        continue
    assert np.array_equal(found.ravel(), known.to_numpy()), bit
    same += 1
print(refused, same)
"""


def test_a_damaged_footer_is_refused_or_read_as_arrow_does_and_never_ends_the_process(tmp_path):
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    write(path, rows, pa.list_(pa.float32(), 8), store_schema=False)
    begin = path.stat().st_size - 8 - pq.read_metadata(path).serialized_size
    told = [sys.executable, "-c", FLIPS, str(path), str(begin), "7"]
    done = subprocess.run(told, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, same = map(int, done.stdout.split())
    assert refused > 50
    assert same > 50


def test_rows_that_a_footer_claims_and_does_not_hold_are_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path, np.ones((300, 4), np.float32), pa.list_(pa.float32(), 4))
    stored = path.read_bytes()
    begin = stored.rindex(b"\x16\xd8\x04", 0, stored.index(b"\x16\xd8\x04", len(stored) // 2) + 3)
    path.write_bytes(stored[:begin] + b"\x16\xda\x04" + stored[begin + 3 :])  # 301 rows in place of 300
    with pytest.raises(InvalidInput, match="301 rows are claimed, and it holds 300"):
        gmmatch.open(path)


def test_levels_that_are_not_stored_in_runs_are_left_to_arrow(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path, np.ones((48, 1), np.float32), pa.list_(pa.float32()), data_page_version="1.0")
    assert plain(path) is not None
    stored = path.read_bytes()
    at = stored.index(b"\x15\x06\x15\x06")
    path.write_bytes(stored[: at + 3] + b"\x08" + stored[at + 4 :])
    assert plain(path) is None


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd"])
def test_what_is_shorter_or_longer_than_it_is_said_to_be_is_not_believed(codec):
    whole = np.random.default_rng(0).normal(size=500).tobytes()
    packed = pa.Codec(codec).compress(whole)
    assert bytes(_decompressed(codec, memoryview(packed), len(whole))) == whole
    for size in (len(whole) - 1, len(whole) + 1, 2 * len(whole)):
        with pytest.raises((Odd, OSError)):
            _decompressed(codec, memoryview(packed), size)


def test_a_page_larger_than_its_file_is_refused_before_there_is_room_made_for_it(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path, np.ones((64, 2), np.float32), pa.list_(pa.float32(), 2), compression="none")
    stored, page = path.read_bytes(), plain(path).pages[0]
    size = page.size << 1
    small = bytes([size & 127 | 128, size >> 7])
    at = stored.index(b"\x15" + small, stored.index(b"\x15" + small) + 1) + 1  # after the unpacked size
    path.write_bytes(stored[:at] + b"\xfe\xff" + stored[at + 2 :])
    with pytest.raises((InvalidInput, pa.ArrowInvalid)):
        gmmatch.open(path)
    path.write_bytes(stored[:at] + b"\xfe\xff\xff\xff\x0f" + stored[at + 2 :])
    with pytest.raises(InvalidInput, match="a page of 2147483647 bytes begins"):
        gmmatch.open(path)


def test_counts_that_no_page_can_hold_are_not_counted_out(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path, np.ones((300, 4), np.float32), pa.list_(pa.float32(), 4), compression="none")
    stored = path.read_bytes()
    chunk = column_chunks(io.BytesIO(stored), pq.read_metadata(path).serialized_size)[0][0]
    header, _ = structure(stored, chunk.begin)
    assert _data_page(header, 0, 0, 4).count == 1024
    for count in (0, -1, 1 << 25):
        facts = header.get(5, STRUCTURE)
        facts._fields[1] = (I32, count)
        with pytest.raises(Odd):
            _data_page(header, 0, 0, 4)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 0), pa.list_(pa.float32())])
def test_lists_of_no_numbers_are_refused(tmp_path, kind):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"vector": pa.array([None] * 5, kind)}), path)
    with pytest.raises(InvalidInput, match=r"'vector' of .* has no values"):
        gmmatch.open(path)
