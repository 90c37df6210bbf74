"""Rows, labels and parameters at the edges of what there is: the right result, or one sentence."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gmmatch
from gmmatch.errors import GmmatchError, InvalidInput, InvalidInputType, InvalidParameter
from gmmatch.lab.training.config import load_config
from gmmatch.validation import label_values

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 300)
ROWS = RNG.normal(size=(300, 6)) + 4 * np.eye(3, 6)[LABELS]
SIGNS = np.sign(RNG.normal(size=(300, 6)))


@pytest.mark.parametrize("method", ["gm-matching", "k-center", "facility-location", "herding"])
@pytest.mark.parametrize("largest", [np.float32(3e38), 1e139])
def test_the_largest_numbers(method, largest):
    found = gmmatch.select(SIGNS * largest, keep=9, labels=LABELS, method=method)
    assert len(np.unique(found.indices)) == 9
    assert np.isfinite(found.objective)


def test_suspects_of_the_largest_numbers():
    found = gmmatch.suspects(SIGNS.astype(np.float32) * np.float32(3e38), LABELS)
    assert sorted(found.rows.tolist()) == list(range(300))


@pytest.mark.parametrize("far", [1e15, 1e25, 1e130])
@pytest.mark.parametrize("count", [1, 40])
class TestRowsThatAreFarOff:
    """However far some rows are off, all others are judged and picked as if they were just far."""

    def rows(self, count, far):
        rows = ROWS.copy()
        rows[:count] = SIGNS[:count] * far * np.linspace(1, 2, count)[:, None]
        return rows

    def test_the_picks(self, count, far):
        near, beyond, farther = (
            set(gmmatch.select(self.rows(count, off), keep=30, labels=LABELS).indices.tolist())
            for off in (1e5, 1e9, far)
        )
        assert near == beyond == farther
        assert min(near) >= count

    def test_the_suspects(self, count, far):
        found = gmmatch.suspects(self.rows(count, far), LABELS)
        place = np.argsort(found.rows)
        assert (found.duplicate == 0).all()
        assert (found.outlier[place][:count] > 0.99).all()
        assert (found.outlier[place][count:] < 0.9).all()


def test_copies_of_a_row_without_end_are_copies():
    rows = np.r_[ROWS, np.full((2, 6), 3e38)].astype(np.float32)
    found = gmmatch.suspects(rows, np.r_[LABELS, 0, 0])
    group = found.group[np.argsort(found.rows)]
    assert group[-1] == group[-2] >= 0
    assert (group[:-2] == -1).all()


def test_a_tensor_of_any_kind_of_number():
    expected = gmmatch.select(ROWS, keep=20, labels=LABELS).indices
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(ROWS, requires_grad=True)
    np.testing.assert_array_equal(
        gmmatch.select(tensor, keep=20, labels=torch.tensor(LABELS)).indices, expected
    )
    few_bits = torch.tensor(LABELS, dtype=torch.bfloat16)
    np.testing.assert_array_equal(gmmatch.select(ROWS, keep=20, labels=few_bits).indices, expected)
    assert len(gmmatch.select(tensor.to(torch.float8_e5m2), keep=20)) == 20
    with pytest.raises(InvalidInputType, match="labels is a tensor that cannot be read"):
        gmmatch.select(ROWS, keep=20, labels=torch.empty(300, device="meta"))


class TestLabels:
    def test_halves_are_whole_numbers(self):
        values, missing = label_values(np.array([1, 2, np.nan], np.float16))
        assert values[:2].tolist() == [1, 2]
        assert missing.tolist() == [2]
        with pytest.raises(InvalidInput, match="got inf at row 1"):
            label_values(np.array([1, np.inf], np.float16))

    def test_texts_in_lists_of_one(self):
        assert label_values([["a"], ["b"]])[0].tolist() == ["a", "b"]
        with pytest.raises(InvalidInputType, match="got int and str"):
            label_values([["1"], [1]])

    def test_lists_of_several_lengths(self):
        for given in ([["a"], ["a", "b"]], [[1], [1, 2]]):
            with pytest.raises(GmmatchError, match="labels must"):
                label_values(given)

    def test_one_long_text_does_not_take_the_memory_of_all(self):
        names = ["a", "b" * 10_000] * 20_000
        with pytest.raises(InvalidInput, match="a text of 10,000 letters at row 1"):
            label_values(names)


def test_a_column_that_is_there_twice():
    table = pa.Table.from_arrays([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], names=["x", "x"])
    with pytest.raises(InvalidInput, match="has 2 columns called 'x'"):
        gmmatch.select(table, keep=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fourier_features": 10**9}, "fourier_features must be at most 16,384"),
        ({"center": np.full(6, 1e300)}, "center must be finite"),
        (
            {"start": np.full(6, 1e200)},
            "start must be a finite vector of shape (6,); got values beyond 1e+140",
        ),
        ({"budgets": {0: 5e-324, 1: 1, 2: 1}}, "budgets must be counts"),
    ],
)
def test_parameters_without_end_are_refused(options, message):
    with pytest.raises(GmmatchError, match=re.escape(message)):
        gmmatch.select(ROWS, keep=30, labels=LABELS, **options)


def test_a_centre_that_float32_cannot_hold():
    found = gmmatch.select(ROWS.astype(np.float32), keep=30, labels=LABELS, center=np.full(6, 1e100))
    assert found.objective == pytest.approx(np.sqrt(6) * 1e100)


def test_a_weight_beside_which_nothing_is_seen_is_refused():
    with pytest.raises(InvalidParameter, match="weight must be a number from 0 to 1e\\+06"):
        gmmatch.label_aware(ROWS, LABELS, weight=1e308)


def test_other_labels_are_not_fixed():
    found = gmmatch.suspects(ROWS, np.array(["a", "bb", "ccc"])[LABELS])
    with pytest.raises(InvalidInput, match="expected one label for each of 300 rows"):
        found.fix(["a", "bb"], above=0.9)
    assert found.fix(np.full(300, "a"), above=0.9).dtype == "<U3"


def test_suggestions_are_put_into_labels_that_can_hold_them():
    """As they are: '300' is not cut to '3', and is not True."""
    given = 300 + np.where(np.arange(300) < 9, (LABELS + 1) % 3, LABELS)
    found = gmmatch.suspects(ROWS + 9 * np.eye(ROWS.shape[1])[LABELS], given)
    changed = [change["row"] for change in found.changes(0.9)]
    assert changed
    for kind in (np.uint16, np.int64, np.float64, object):
        fixed = found.fix((given - 300).astype(np.int8).astype(kind), above=0.9)
        assert (fixed[changed] == 300 + LABELS[changed]).all()
    fixed = found.fix((given - 300).astype(np.int8), above=0.9)
    assert (fixed[changed] == 300 + LABELS[changed]).all()
    texts, flags = np.array(["a", "b", "c"])[LABELS], LABELS > 0
    for other in (texts, texts.astype(object), texts.astype("S1"), flags, np.full(300, "2020", "M8[D]")):
        with pytest.raises(InvalidInput, match=r"expected labels of one kind|whole numbers or text"):
            found.fix(other, above=0.9)
    names = np.array(["ant", "bee", "z\u00e8bre"])
    found = gmmatch.suspects(ROWS + 9 * np.eye(ROWS.shape[1])[LABELS], names[given - 300])
    fixed = found.fix(np.char.encode(names[given - 300], "utf-8"), above=0.9)
    assert (fixed[changed] == names[LABELS[changed]]).all()


@pytest.mark.parametrize("k", [-1, 1.5, "x", None, True])
def test_a_head_of_suspects_is_a_whole_number_of_rows(k):
    with pytest.raises(InvalidParameter, match="head takes a whole number of rows"):
        gmmatch.suspects(ROWS, LABELS).head(k)


def test_names_with_nul_are_refused(tmp_path):
    kept = gmmatch.select(ROWS, keep=5)
    for write in (kept.save, kept.report, kept.materialize):
        with pytest.raises(InvalidParameter, match="has a NUL character"):
            write(tmp_path / "kept\0.parquet")
    assert not list(tmp_path.iterdir())


def test_a_state_where_there_is_no_folder_is_refused_before_any_work(tmp_path):
    for state in (tmp_path / "gone" / "state", tmp_path, "", "."):
        with pytest.raises(InvalidInput, match="cannot write"):
            gmmatch.select(ROWS, keep=5, state=state)


LABELS_OF_BYTES = {
    "numbers of another machine": LABELS.astype(">i8"),
    "text of another machine": np.array(["a", "bb", "c"])[LABELS].astype(">U2"),
    "bytes": np.array([b"a", "b\u00e9".encode(), b"c"])[LABELS],
}


@pytest.mark.parametrize("name", LABELS_OF_BYTES)
@pytest.mark.parametrize("what", ["labels", "ids"])
def test_labels_and_ids_in_other_bytes_reach_every_file(tmp_path, name, what):
    given = LABELS_OF_BYTES[name]
    plain = np.char.decode(given, "utf-8") if given.dtype.kind == "S" else given
    data = gmmatch.open(ROWS, given) if what == "labels" else gmmatch.open(ROWS, LABELS, ids=given)
    kept = gmmatch.select(data, keep=30)
    kept.save(tmp_path / "kept.parquet")
    kept.report(tmp_path / "page.html")
    kept.materialize(tmp_path / "rows")
    kept.suspects().save(tmp_path / "wrong.jsonl")
    found = gmmatch.load_selection(tmp_path / "kept.parquet")
    assert (found.labels if what == "labels" else found.ids).tolist() == plain[kept.indices].tolist()


def test_bytes_that_are_not_utf_8_are_read_as_latin_1():
    kept = gmmatch.select(ROWS, np.array([b"a", b"\xe9", b"c"])[LABELS], keep=30)
    assert set(kept.labels.tolist()) == {"a", "\xe9", "c"}


class TestOutputs:
    """What is read is never what is written, whatever name leads there."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        np.save("rows.npy", ROWS)
        (tmp_path / "labels.csv").write_text("label\n" + "\n".join(map(str, LABELS)))
        (tmp_path / "link.csv").symlink_to("labels.csv")

    @pytest.mark.parametrize("name", ["labels.csv", "link.csv", "./labels.csv"])
    @pytest.mark.parametrize("labels", ["labels.csv", "labels.csv:label"])
    def test_are_not_the_labels(self, name, labels, tmp_path):
        with pytest.raises(InvalidParameter, match=r"labels\.csv is the input|link\.csv is the input"):
            gmmatch.select("rows.npy", keep=30, labels=labels, output=name, overwrite=True)
        with pytest.raises(InvalidParameter, match="is the input"):
            gmmatch.suspects("rows.npy", labels, fix=name, overwrite=True)
        assert len((tmp_path / "labels.csv").read_text().splitlines()) == 301

    def test_are_not_each_other(self, tmp_path):
        with pytest.raises(InvalidParameter, match="two outputs have the same name"):
            gmmatch.suspects("rows.npy", "labels.csv", output="wrong.csv", fix=tmp_path / "wrong.csv")


def test_empty_cells_in_quotes_at_the_end_are_rows_without_a_label(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("label\na\nb\n" + '""\n""\n' + "\n\n")
    found = gmmatch.open(ROWS[:4], labels=file, on_bad_rows="drop")
    assert found.bad == {2: "no label", 3: "no label"}


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_settings_without_end(tmp_path, ending):
    file = tmp_path / f"train.{ending}"
    file.write_text(("a = " if ending == "toml" else "") + "[" * 100_000)
    with pytest.raises(InvalidInput, match="is not valid"):
        load_config(file)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_what_is_said_never_goes_into_a_file_that_took_the_place_of_a_closed_stream(tmp_path, closed):
    np.save(tmp_path / "rows.npy", ROWS)
    words = f"{sys.executable} -m gmmatch select rows.npy --keep 10% --method random -o"
    for end, output in (("", "open.csv"), (closed, "closed.csv")):
        done = subprocess.run(f"{words} {output} {end}", shell=True, cwd=tmp_path, capture_output=True)
        assert done.returncode == 0
    assert (tmp_path / "closed.csv").read_bytes() == (tmp_path / "open.csv").read_bytes()


def test_help_that_cannot_be_written_is_one_sentence():
    done = subprocess.run(
        f"{sys.executable} -m gmmatch methods --help > /dev/full", shell=True, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (3, "gmmatch: cannot write: No space left on device\n")


def test_a_selection_is_named_by_a_path():
    with pytest.raises(InvalidParameter, match="selection must be the path of a file; got None"):
        gmmatch.report(None, ROWS, "page.html")
    with pytest.raises(InvalidParameter, match="path must be the path of a file; got 3"):
        gmmatch.select(ROWS, keep=3).save(3)


def messy(tmp_path):
    """Write a table whose first column counts rows, with labels that people typed."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    rows = 4 * rng.normal(size=(3, 6))[truth] + rng.normal(size=(300, 6))
    names = np.array(["Billing", "billing ", "N/A"])[truth]
    lines = [f"{1000 + 7 * row},{','.join(map(str, rows[row].round(3)))},{names[row]}" for row in range(300)]
    path = tmp_path / "table.csv"
    path.write_text("customer,a,b,c,d,e,f,kind\n" + "\n".join(lines) + "\n")
    return path


def test_columns_that_count_rows_and_classes_of_nearly_one_name_are_pointed_out(tmp_path):
    path = messy(tmp_path)
    found = gmmatch.select(path, keep=30, labels="kind")
    hints = found.info.hint.splitlines()
    assert hints[0].startswith("column 'customer' counts up row by row, as ids do")
    assert "'Billing' and 'billing '" in hints[1]
    assert "class 'N/A' reads like a missing label" in hints[2]
    assert gmmatch.suspects(path, "kind").notes == tuple(hints[:3])
    tidy = gmmatch.select(path, keep=30, labels="kind", ids="customer")
    assert "customer" not in tidy.info.hint
    assert gmmatch.select(ROWS, keep=30, labels=LABELS).info.hint is None


def test_the_command_prints_a_line_for_each_note(tmp_path):
    from typer.testing import CliRunner

    from gmmatch.cli import app

    path = messy(tmp_path)
    for command in (["select", "--keep", "10%"], ["suspects"]):
        words = [
            command[0],
            str(path),
            "--labels",
            "kind",
            "-o",
            str(tmp_path / f"{command[0]}.csv"),
            *command[1:],
        ]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert sum(line.startswith("note: ") for line in done.output.splitlines()) >= 3


@pytest.mark.parametrize("labels", [np.array(3), iter(())])
def test_labels_that_are_no_list_end_in_a_sentence(labels):
    with pytest.raises(gmmatch.errors.InvalidInput, match="labels has 0 entries for 20 rows"):
        gmmatch.select(np.eye(20), keep=5, labels=labels)


def test_semicolons_may_stand_between_cells(tmp_path):
    comma = messy(tmp_path)
    semicolon = tmp_path / "semicolon.csv"
    semicolon.write_text(comma.read_text().replace(",", ";"))
    found = [gmmatch.select(path, keep=30, labels="kind", ids="customer") for path in (comma, semicolon)]
    assert found[0].indices.tolist() == found[1].indices.tolist()
    gmmatch.select(semicolon, keep=30, labels="kind", ids="customer", materialize=tmp_path / "kept")
    kept = next((tmp_path / "kept").glob("*.csv")).read_text().splitlines()
    assert kept[0] == "customer;a;b;c;d;e;f;kind"
    assert len(kept) == 31


def test_columns_of_far_other_units_are_pointed_out(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) * [0.01, 1.0, 50.0]
    table = pd.DataFrame(rows, columns=["pedigree", "age", "insulin"])
    hint = gmmatch.select(table, LABELS[:200], keep=30).info.hint
    assert re.search(r"column 'insulin' spreads [45],\d\d\d times as wide as 'pedigree' and decides", hint)
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    assert gmmatch.open(path).notes[-1].startswith("column 'insulin' spreads")
    for same in (table / table.std(), rows):  # an array has no columns with units
        assert "spreads" not in gmmatch.select(same, LABELS[:200], keep=30).info.hint


@pytest.mark.parametrize("call", [gmmatch.open, lambda rows, **words: gmmatch.leaks(rows, rows, **words)])
def test_a_misspelt_word_of_opening_is_named_with_the_right_one(call):
    with pytest.raises(TypeError, match=r"gmmatch\.open has no .*'on_bad_row' \(did you mean 'on_bad_rows'"):
        call(np.eye(8), on_bad_row="drop")
