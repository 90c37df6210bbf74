"""Keys, samples and quantiles are properties of the rows' values."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.compute.keys import draw_order, group_samples, row_keys
from gmmatch.compute.runner import gather
from gmmatch.location.distances import group_quantiles


def test_keys_are_those_of_the_values_in_any_type_and_order():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 3)).astype(np.float32)
    keys = row_keys(rows)
    order = rng.permutation(1000)
    assert len(np.unique(keys)) == 1000
    assert (row_keys(rows.astype(np.float64)) == keys).all()
    assert (row_keys(rows[order]) == keys[order]).all()
    assert not (row_keys(rows, seed=1) == keys).any()


def test_minus_zero_is_zero():
    assert row_keys(np.array([[0.0]])) == row_keys(np.array([[-0.0]]))


def test_a_draw_takes_copies_of_a_row_like_any_other_rows():
    rng = np.random.default_rng(1)
    rows = np.r_[np.zeros((900, 2)), rng.normal(size=(1100, 2))]
    first = draw_order(row_keys(rows))[:500]
    assert 0.38 < (first < 900).mean() < 0.52


def test_samples_hold_the_same_rows_in_any_order():
    rng = np.random.default_rng(2)
    rows, codes = rng.normal(size=(500, 2)), rng.integers(-1, 3, 500)
    order = rng.permutation(500)
    plain = group_samples(row_keys(rows), codes, 3, 50)
    moved = group_samples(row_keys(rows[order]), codes[order], 3, 50)
    for code in range(3):
        assert (codes[plain[code]] == code).all()
        assert order[moved[code]].tolist() == plain[code].tolist()


def test_gathered_rows_come_in_the_order_asked_for():
    rows = np.arange(10.0)[:, None]
    assert gather(rows, np.array([7, 2, 9])).ravel().tolist() == [7, 2, 9]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-1e9, 1e9)), min_size=1, max_size=60))
def test_quantiles_are_order_statistics_of_each_group(pairs):
    codes, values = (np.array(column) for column in zip(*pairs, strict=True))
    found = group_quantiles(values.astype(float), codes, 4, (0.25, 0.5, 1.0))
    for code in range(4):
        mine = np.sort(values[codes == code])
        for column, share in enumerate((0.25, 0.5, 1.0)):
            if len(mine):
                assert found[code, column] == mine[max(0, int(np.ceil(share * len(mine))) - 1)]
            else:
                assert np.isnan(found[code, column])
