"""Parquet files: what Arrow finds in them, and a sentence for those that are damaged."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.data.formats import arrow
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


@pytest.mark.parametrize("form", TYPES)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
def test_rows_between_two_are_those_that_were_written(tmp_path, form, version, codec):
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(3).normal(size=(1500, 3)).astype(np.float32)
    write(path, rows, TYPES[form](3, pa.float32()), data_page_version=version, compression=codec)
    file = arrow.ParquetFile(str(path), 1500, str(path))
    assert file.begins == [0, 700, 1400]
    for start, stop in ((0, 1500), (1, 2), (699, 701), (700, 1400), (1399, 1400), (1450, 1500)):
        found = pa.Table.from_batches(file.batches(["vector"], start, stop, 100))["vector"].to_pylist()
        np.testing.assert_array_equal(np.array(found, np.float32)[: stop - start], rows[start:stop])
        assert len(found) < stop - start + 700  # row groups behind are not read


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
        file = arrow.ParquetFile(str(own), 300, str(own))
        try:
            found = pa.Table.from_batches(list(file.batches(["vector"], 0, 300, 100)))
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


def test_a_page_larger_than_its_file_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path, np.ones((64, 2), np.float32), pa.list_(pa.float32(), 2), compression="none")
    stored = path.read_bytes()
    unpacked = stored[stored.index(b"\x15") + 3 : stored.index(b"\x15") + 5]  # of the first page's header
    at = stored.index(b"\x15" + unpacked, stored.index(b"\x15" + unpacked) + 1) + 1  # its size in the file
    for size in (b"\xfe\xff", b"\xfe\xff\xff\xff\x0f"):
        path.write_bytes(stored[:at] + size + stored[at + 2 :])
        with pytest.raises(InvalidInput, match=r"rows\.parquet is not a readable Parquet file"):
            gmmatch.open(path)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 0), pa.list_(pa.float32())])
def test_lists_of_no_numbers_are_refused(tmp_path, kind):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"vector": pa.array([None] * 5, kind)}), path)
    with pytest.raises(InvalidInput, match=r"'vector' of .* has no values"):
        gmmatch.open(path)
