"""What an enemy hands to a selection is refused in one sentence, and never half believed."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import gmmatch
from gmmatch import cli
from gmmatch.errors import GmmatchError
from gmmatch.files import remove_partials_in

N = 90
LABELS = np.arange(N) % 3
ROWS = (np.random.default_rng(0).normal(size=(N, 6)) + 3 * np.eye(6)[LABELS]).astype(np.float32)
CHANCES = np.where(np.eye(3)[LABELS] > 0, 0.8, 0.1)
ONES = np.ones(N)
MASKED = np.ma.masked_array(ONES, np.arange(N) < 3)
BY_CLASS = dict(enumerate(CHANCES.T))

REFUSED = {
    "keep of 5,000 digits": {"keep": "9" * 5000},
    "keep of a huge number": {"keep": 10**5000},
    "keep of a share beyond others": {"keep": "+50%"},
    "keep of a share beyond others, by a fraction": {"keep": "+0.5"},
    "cost that overflows": {"cost": np.full(N, 1e308), "keep": 0.1},
    "cost of huge numbers": {"cost": [10**400] * N},
    "cost of complex numbers": {"cost": ONES * 1j},
    "cost of dates": {"cost": np.full(N, "2020-01-01", "datetime64[D]"), "keep": 0.1},
    "masked cost": {"cost": MASKED},
    "quality of huge numbers": {"quality": [10**400] * N},
    "quality of complex numbers": {"quality": ONES * 1j},
    "quality of dates": {"quality": np.full(N, "2020-01-01", "datetime64[D]")},
    "masked quality": {"quality": MASKED},
    "strata of nothing": {"strata": {}},
    "match_to with an infinite share": {"match_to": {"rows.npy": float("inf")}},
    "match_to by number": {"match_to": {1: 0.5}},
    "holdout beyond float32": {"holdout": np.full((3, 6), 1e300)},
    "ragged probabilities": {"probabilities": [[0.5, 0.5], [1]]},
    "masked probabilities": {"probabilities": np.ma.masked_array(CHANCES, CHANCES > 0.5)},
    "a short column of probabilities": {"probabilities": BY_CLASS | {0: CHANCES[:5, 0]}},
    "probabilities of text": {"probabilities": BY_CLASS | {0: ["a"] * N}},
    "probabilities of nothing": {"probabilities": dict.fromkeys(range(3))},
    "one number as probabilities": {"probabilities": dict.fromkeys(range(3), 1.0)},
    "two columns of one class": {"probabilities": {"0": CHANCES[:, 1], **BY_CLASS}},
    "a file of text as probabilities": {"probabilities": "text.csv"},
    "a file with two columns of one class": {"probabilities": "twice.csv"},
    "a pipe as probabilities": {"probabilities": "pipe.npy"},
    "a pipe of a table as probabilities": {"probabilities": "pipe.parquet"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    Path("text.csv").write_text("0,1,2\n" + "a,b,c\n" * N)
    Path("twice.csv").write_text("0,0,1,2\n" + "0,1,0,0\n" * N)
    for name in ("pipe.npy", "pipe.parquet", "pipe.csv"):
        os.mkfifo(name)
    return tmp_path


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_is_refused_in_one_sentence(folder, given):
    with pytest.raises(GmmatchError) as refused:
        gmmatch.select(ROWS, LABELS, **{"keep": 9} | given)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200
    assert "set_int_max" not in str(refused.value)


def test_numbers_too_large_for_any_array_are_refused():
    with pytest.raises(GmmatchError, match="whole numbers that are too large for float64"):
        gmmatch.select([[10**400, 1], [2, 3]], keep=1)


def test_whole_numbers_of_128_bits_are_refused():
    pl = pytest.importorskip("polars")
    column = pl.Series("v", range(N), dtype=pl.Int128)
    with pytest.raises(GmmatchError, match=r"labels cannot be read as an array: .*128"):
        gmmatch.select(ROWS, column, keep=9)
    with pytest.raises(GmmatchError, match="the table cannot be read"):
        gmmatch.select(column.to_frame(), keep=9)


def test_text_of_any_width_is_text():
    names = np.array(["ant", "bee", "cat"], np.dtypes.StringDType())[LABELS]
    assert gmmatch.open(ROWS, names).labels.tolist() == names.tolist()


def test_one_row_to_match_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(gmmatch.select(ROWS, LABELS, keep=9, match_to=ROWS[:1])) == 9


@pytest.mark.parametrize("what", ["labels", "ids", "groups"])
def test_a_pipe_is_called_one(folder, what):
    with pytest.raises(GmmatchError, match=r"pipe\.csv is a pipe, a socket or a device; expected a file"):
        gmmatch.open(ROWS, **{what: "pipe.csv"})


@pytest.mark.parametrize("text", ['{"label": %s}', '{"id": %s, "label": 1}'])
def test_numbers_of_thousands_of_digits_are_named_without_advice_for_programmers(folder, text):
    Path("long.jsonl").write_text(
        "".join(text % ("9" * 5000 if row == 5 else row) + "\n" for row in range(N))
    )
    with pytest.raises(GmmatchError, match="line 6 is not JSON: it has a number of more than 4,300 digits"):
        gmmatch.open(ROWS, "long.jsonl")


def test_what_is_left_anywhere_in_a_folder_is_removed(tmp_path):
    left = tmp_path / "cache" / "picks" / ".random-1.npz.0123456789abcdef.partial"
    left.mkdir(parents=True)
    (tmp_path / "cache" / ".mine.partial").mkdir()
    remove_partials_in(tmp_path)
    assert not left.exists()
    assert (tmp_path / "cache" / ".mine.partial").exists()


@pytest.mark.parametrize(("interrupt", "code"), [(KeyboardInterrupt(), 130), (cli.Terminated(), 143)])
def test_what_fails_because_of_an_interrupt_is_no_bug(monkeypatch, interrupt, code):
    def fail() -> None:
        raise RuntimeError("half imported")

    monkeypatch.setattr(cli, "_passed_on", [interrupt])
    monkeypatch.setattr("gmmatch.cli.commands.app", fail)
    monkeypatch.setattr(cli.signal, "signal", lambda *given: None)
    monkeypatch.setattr("sys.unraisablehook", None)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == code
