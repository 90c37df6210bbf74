from __future__ import annotations

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidInput, InvalidInputType

ROWS = 40


@pytest.fixture(scope="module")
def selection():
    return gmmatch.select(np.random.default_rng(0).normal(size=(ROWS, 6)), keep=7)


def test_lists_and_arrays(selection):
    kept = selection.indices.tolist()
    assert selection.apply(list(range(ROWS))) == kept
    assert selection.apply(range(ROWS)) == kept
    np.testing.assert_array_equal(selection.apply(np.arange(ROWS) * 2), selection.indices * 2)


def test_what_gmmatch_opened(selection):
    rows = np.random.default_rng(0).normal(size=(ROWS, 6))
    labels = np.array(["cat", "dog"])[np.arange(ROWS) % 2]
    data = gmmatch.open(rows, labels=labels, ids=[f"row-{row}" for row in range(ROWS)])
    assert repr(data) == "Dataset(X: 40 rows of 6 numbers, labelled)"
    kept = selection.apply(data)
    np.testing.assert_array_equal(kept.rows, rows[selection.indices])
    assert kept.labels.tolist() == labels[selection.indices].tolist()
    assert kept.ids.tolist() == [f"row-{row}" for row in selection.indices]
    assert len(gmmatch.select(kept, keep=3)) == 3


def test_what_gmmatch_opened_in_another_order_is_refused(tmp_path):
    rows, order = np.random.default_rng(0).normal(size=(ROWS, 6)), np.arange(ROWS)[::-1]
    names = np.array([f"row-{row}" for row in range(ROWS)])
    kept = gmmatch.select(gmmatch.open(rows, ids=names), keep=7)
    other = gmmatch.open(rows[order], ids=names[order])
    with pytest.raises(InvalidInput, match="the rows are in another order"):
        kept.apply(other)
    with pytest.raises(InvalidInput, match="the rows are in another order"):
        kept.materialize(tmp_path / "kept", other)
    assert not (tmp_path / "kept").exists()
    assert len(kept.apply(gmmatch.open(rows[order], ids=[f"other-{row}" for row in range(ROWS)]))) == 7


def test_texts_that_gmmatch_opened(selection):
    data = gmmatch.open([f"text {row}" for row in range(ROWS)])
    assert repr(data) == "Dataset(the list: 40 rows)"
    kept = selection.apply(data)
    assert kept.content.all() == [f"text {row}" for row in selection.indices]


def test_pandas(selection):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"number": range(ROWS)}, index=range(1000, 1000 + ROWS))
    assert selection.apply(frame)["number"].tolist() == selection.indices.tolist()
    assert selection.apply(frame["number"]).index.tolist() == (selection.indices + 1000).tolist()


def test_polars(selection):
    polars = pytest.importorskip("polars", reason="needs polars")
    frame = polars.DataFrame({"number": range(ROWS)})
    assert selection.apply(frame)["number"].to_list() == selection.indices.tolist()
    assert selection.apply(frame["number"]).to_list() == selection.indices.tolist()
    with pytest.raises(InvalidInputType, match="LazyFrame"):
        selection.apply(frame.lazy())


def test_arrow(selection):
    import pyarrow as pa

    table = pa.table({"number": range(ROWS)})
    assert selection.apply(table)["number"].to_pylist() == selection.indices.tolist()
    assert selection.apply(table["number"]).to_pylist() == selection.indices.tolist()


def test_hugging_face(selection):
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    data = datasets.Dataset.from_dict({"number": list(range(ROWS))})
    kept = selection.apply(data)
    assert isinstance(kept, datasets.Dataset)
    assert list(kept["number"]) == selection.indices.tolist()


def test_torch(selection):
    torch = pytest.importorskip("torch", reason="needs torch")
    data = torch.utils.data.TensorDataset(torch.arange(ROWS))
    kept = selection.apply(data)
    assert isinstance(kept, torch.utils.data.Subset)
    assert [int(number) for (number,) in kept] == selection.indices.tolist()
    assert selection.apply(torch.arange(ROWS)).tolist() == selection.indices.tolist()


def test_a_sampler_draws_the_kept_rows_in_every_epoch(selection):
    torch = pytest.importorskip("torch", reason="needs torch")
    data = torch.utils.data.TensorDataset(torch.arange(ROWS))

    def epochs(sampler):
        loader = torch.utils.data.DataLoader(data, batch_size=3, sampler=sampler)
        return [[int(number) for (batch,) in loader for number in batch] for _ in range(2)]

    first, second = epochs(selection.sampler(random_state=5))
    assert sorted(first) == sorted(second) == sorted(selection.indices.tolist())
    assert first != second
    assert epochs(selection.sampler(random_state=5)) == [first, second]
    assert epochs(selection.sampler(shuffle=False)) == [selection.indices.tolist()] * 2
    assert len(selection.sampler()) == len(selection)


def test_data_of_another_length_is_refused(selection):
    with pytest.raises(InvalidInput, match="made from 40 rows; got list of 3"):
        selection.apply([1, 2, 3])


@pytest.mark.parametrize("thing", [5, "a text" * 10, iter([1]), {"a": 1}])
def test_other_things_are_refused(selection, thing):
    with pytest.raises(InvalidInputType, match="expected a list, an array"):
        selection.apply(thing)


def test_a_table_in_another_order_is_refused():
    pd = pytest.importorskip("pandas")
    names = [f"row {row}" for row in range(9)]
    table = pd.DataFrame(np.eye(9), index=names)
    kept = gmmatch.select(table, keep=4)
    assert kept.apply(table).index.tolist() == kept.ids.tolist()
    for other in (table.iloc[::-1], table[0].iloc[::-1]):
        with pytest.raises(InvalidInput, match=r"in another order .* x\.loc\[selection\.ids\]"):
            kept.apply(other)
    # An index that has nothing to do with the ids says nothing of the order.
    assert kept.apply(table.reset_index(drop=True)).index.tolist() == kept.indices.tolist()


def test_sparse_matrices(selection):
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.eye(ROWS)
    for kind in (sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix):
        np.testing.assert_array_equal(selection.apply(kind(dense)).toarray(), dense[selection.indices])
    with pytest.raises(InvalidInput, match="made from 40 rows; got csr_matrix of 3"):
        selection.apply(sparse.csr_matrix(dense[:3]))
