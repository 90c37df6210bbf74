"""Pages of Parquet files that are read directly hold what Arrow finds in them."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmmatch.data.formats import parquet
from gmmatch.data.pages import plain_column
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
    with open(path, "rb") as handle:
        return plain_column(handle, pq.read_metadata(path), group, "vector")


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
    for end, known in ((last.begin + last.size, True), (last.begin + last.size - 1, False)):
        handle = io.BytesIO(path.read_bytes()[:end])
        assert (plain_column(handle, facts, 0, "vector") is not None) == known


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
