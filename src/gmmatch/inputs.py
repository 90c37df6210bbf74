"""What users hand in: rows, or images and texts that become rows; and what they know of the labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from .arrays import FloatArray, IntArray, Labels, Vector
from .compute.keys import look_at_rows
from .data import Dataset, open_dataset, values_of_rows
from .data.columns import notes_on_alike
from .data.dataset import PLURALS
from .data.formats.base import check_room
from .data.joining import Values, id_column, join, notes_on_others
from .encoders import Embedded, choose_encoder, embed_input
from .errors import InvalidInput, InvalidInputType, InvalidParameter
from .files import names_of
from .records import Selection
from .trust import Known
from .validation import (
    CheckedRows,
    check_input,
    check_parameters,
    describe_bad_rows,
    first_rows,
    without_torch,
)

_OPENING = (
    "labels", "ids", "groups", "encoder", "text", "image", "embedding", "on_bad_rows", "unlabelled", "header",
    "split", "memory",
)  # fmt: skip
_SUM_ERROR = 1e-2  # of the probabilities of a row
_SEEN = 0.999  # share of labels that a model predicts only if it learned from them, or all are right


def open_data(
    x: object,
    labels: object = None,
    ids: object = None,
    encoder: Any = None,
    *,
    groups: object = None,
    text: str | None = None,
    image: str | None = None,
    embedding: str | None = None,
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    split: str = "train",
    header: str = "auto",
    memory: int | str | None = None,
    engine: object = "local",
    encode: bool | None = False,
    before_encoding: Callable[[Dataset], None] | None = None,
    **options: Any,
) -> Dataset:
    """Open whatever holds rows, images or texts; see `gmmatch.open`.

    `encode`: images and texts become rows by the usual encoder where none is named, and a note says so; None:
    not even where one is. `engine`: `ray` leaves columns in their files, so that other processes can read
    them. `before_encoding`: called with the images or texts, which can refuse them before they are encoded.
    `options`: of `gmmatch.embed` where an encoder, texts or images are named; elsewhere `mapped`, see
    `gmmatch.data.open_dataset`.
    """
    named = encoder is not None or text is not None or image is not None
    if isinstance(x, Dataset) and x.drop and (named or encode):
        on_bad_rows = "drop"
    if named:
        if encode is not None:
            _check_engine(engine)
        chosen, kind = choose_encoder(x, encoder, text, image)
        opening: dict[str, Any] = {"text": text, "image": image, "holds": kind}
        options.pop("mapped", None)
    else:
        mapped = options.pop("mapped", False) or engine == "ray"
        check_parameters(options.keys() - signature(open_dataset).parameters.keys(), _OPENING, "gmmatch.open")
        opening, options = {"embedding": embedding, "mapped": mapped, **options}, {}
    opening |= {"split": split, "memory": memory, "on_bad_rows": on_bad_rows, "header": header}
    found = open_dataset(x, labels, ids, unlabelled=unlabelled, **opening)
    if groups is not None:
        values = values_of_rows(found, groups, "groups")
        column = isinstance(groups, str) and groups in found.columns
        found = found.replace(groups=values, beside=(*found.beside, *names_of(() if column else [groups])))
    done = not named and (not encode or found.rows is not None or found.content is None)
    if done or encode is None:
        return found
    _check_engine(engine)
    if not named:
        chosen, kind = choose_encoder(found, None)
    if before_encoding is not None:
        before_encoding(found)
    if encoder is None:
        told = f"the {PLURALS[kind]} were encoded by {chosen}; encoder=... chooses another"
        found = found.replace(notes=(*found.notes, told))
    return _encoded(found, embed_input(found, chosen, on_bad_rows=on_bad_rows, **options))


def _check_engine(engine: object) -> None:
    """Refuse to encode for another engine."""
    if engine != "local":
        way = "encode first with gmmatch embed, in Python gmmatch.embed"
        raise InvalidParameter(f"engine={engine!r} selects from embeddings; {way}")


def check_same(selection: Selection, source: Dataset, any_input: bool = False) -> IntArray:
    """Return the rows that are bad; refuse rows or labels that a selection was not made from; one read.

    `any_input`: do not refuse them, and take images and texts as good that are not encoded.
    """
    check_belongs(selection, source)
    if any_input and source.rows is None:
        return source.bad_rows
    known = source.labelled()
    checked = check_input(known.numbers(), known.labels, name=source.name, finite=False)
    good, _, digest = look_at_rows(checked.rows)
    is_same(selection, source, replace(checked, digest=digest), any_input)
    return np.union1d(source.bad_rows, np.flatnonzero(~good))


def check_belongs(selection: Selection, source: Dataset) -> None:
    """Refuse data of another number of rows than a selection was made from, or without its labels."""
    if len(source) != selection.n_rows:
        given = f"{source.name} has {len(source):,}"
        raise InvalidInput(f"the selection was made from {selection.n_rows:,} rows, but {given}")
    if selection.labels is not None and source.labels is None:
        way = "has none; name them: labels=..."
        raise InvalidInput(f"the selection was made with labels, and {source.name} {way}")


def is_same(selection: Selection, source: Dataset, checked: CheckedRows, any_input: bool = False) -> bool:
    """Return True if rows and labels have the fingerprint that a selection knows; else refuse them.

    `any_input`: return False in place of it.
    """
    # Labels may be named for a selection that was made without any.
    known = checked if selection.labels is not None else replace(checked, codes=None)
    same = selection.fingerprint in ("", known.fingerprint)
    if not (same or any_input):
        shuffled = list(source.files) != sorted(source.files)
        before = " (versions before 0.3 read its files in the order of their letters)" if shuffled else ""
        raise InvalidInput(
            f"{source.name}, or its labels, are not what the selection was made from: they have the"
            f" fingerprint {known.fingerprint}, the selection has {selection.fingerprint}{before};"
            " force=True goes on"
        )
    return same


def _encoded(found: Dataset, embedded: Embedded) -> Dataset:
    """Return a dataset with its embeddings; rows that could not be encoded are bad, and NaN."""
    rows, reasons = embedded.embeddings, {bad.row: bad.reason for bad in embedded.bad_rows}
    if reasons:
        rows = np.full((embedded.n_rows, rows.shape[1]), np.nan, rows.dtype)
        rows[embedded.rows] = embedded.embeddings
    return found.replace(rows=rows, bad={**found.bad, **reasons})


def gather_known(
    data: Dataset,
    checked: CheckedRows,
    reference: object = None,
    probabilities: object = None,
    like: Mapping[str, object] | None = None,
) -> tuple[Known, tuple[str, ...]]:
    """Return what is known of the labels, checked, and notes on it for the user.

    `data`, `checked`: the rows. `reference`: `(X, y)`, a dataset or a path with labels. `probabilities`: an
    array (rows, classes) in the order of the sorted classes, a table or mapping with a column per class, or
    a file of one. `like`: how the rows were opened (encoder, columns), for a reference that is a path.
    """
    groups = None
    notes: list[str] = []
    if data.groups is not None:
        names, groups = np.unique(data.groups, return_inverse=True)
        notes += notes_on_alike(names, "groups")
    if reference is None and probabilities is None:
        return Known(groups=groups), tuple(notes)
    if checked.classes is None or checked.codes is None:
        what = "reference is" if probabilities is None else "probabilities are"
        raise InvalidInput(f"{what} about labels, and there are none; pass labels")
    _, present = checked.judged()
    classes = checked.classes[present]
    known = Known(groups=groups)
    if probabilities is not None:
        columns = probabilities.values() if isinstance(probabilities, Mapping) else [probabilities]
        for column in columns:
            data.check_index(column, "probabilities")
        found, more = as_probabilities(probabilities, classes, checked, data)
        notes += more
        known = replace(known, probabilities=found)
        usable = np.flatnonzero(checked.usable)
        given = np.searchsorted(present, checked.codes[usable])
        if float(np.mean(found[usable].argmax(axis=1) == given)) > _SEEN:
            notes.append(
                "the probabilities agree with nearly every label, as those of a model that learned from these"
                " labels do; pass probabilities out of fold"
            )
    if reference is not None:
        rows, codes = _as_reference(reference, classes, checked.rows.shape[1], like or {})
        known = replace(known, reference=rows, reference_codes=codes)
    return known, tuple(notes)


def as_probabilities(
    given: object, classes: Labels, checked: CheckedRows, data: Dataset
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return class probabilities in the order of the classes, and notes on them, or refuse what is none.

    `classes`: those that have rows; the columns of an array may be of all classes, too. A table that has a
    column of ids, as a file of labels may, is joined by these.
    """
    assert checked.classes is not None
    n_rows, every = len(checked.rows), checked.classes
    notes: tuple[str, ...] = ()
    table = _read(Path(given), classes, n_rows) if isinstance(given, (str, os.PathLike)) else given
    columns = _columns_of(table)
    if columns is not None:
        called = os.fspath(given) if isinstance(given, (str, os.PathLike)) else "probabilities"
        found, notes = _by_class(table, columns, classes, checked, data, called)
        names = classes
    else:
        try:
            found = np.ma.filled(np.asanyarray(table), np.nan)
        except (TypeError, ValueError):
            raise InvalidInputType("probabilities must be a table of numbers, a row for each row") from None
        names = classes if found.ndim == 2 and found.shape[1] == len(classes) else every
    if found.dtype.kind not in "fiu" or found.shape != (n_rows, len(names)):
        raise InvalidInput(
            f"probabilities must have a row for each of {n_rows:,} rows and a column for each of"
            f" {len(classes):,} classes; got shape {found.shape}"
        )
    if not np.isfinite(found).all() or found.min(initial=0.0) < 0:
        odd = found[~(np.isfinite(found) & (found >= 0))][0]
        raise InvalidInput(
            f"probabilities must be finite and at least 0; got {odd:.4g} (a softmax turns logits into them)"
        )
    sums = np.add.reduce(found, axis=1, dtype=np.float64)
    wrong = int(np.count_nonzero(np.abs(sums - 1) > _SUM_ERROR))
    if wrong:
        raise InvalidInput(
            f"the probabilities of {wrong:,} of {n_rows:,} rows do not add up to 1; they add up to"
            f" {sums.min():.4g} to {sums.max():.4g}"
        )
    return (found if len(names) == len(classes) else found[:, np.isin(every, classes)]), notes


def _columns_of(table: Any) -> dict[str, Any] | None:
    """Return the columns of a table or mapping by their names as text; None: it is an array."""
    names = table.column_names if isinstance(table, pa.Table) else getattr(table, "columns", None)
    names = table if isinstance(table, Mapping) else names
    if names is None or isinstance(table, np.ndarray):
        return None
    called = list(map(str, names))
    columns = dict(zip(called, names, strict=True))
    if len(columns) < len(called):
        twice = next(name for name in called if called.count(name) > 1)
        raise InvalidInput(f"probabilities have more than one column {twice!r}; expected one for each class")
    return columns


def _by_class(
    table: Any, columns: Mapping[str, Any], classes: Labels, checked: CheckedRows, data: Dataset, called: str
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the columns of the classes in their order, joined by the ids beside them, if there are any."""
    wanted, n_rows = list(map(str, classes.tolist())), len(checked.rows)
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise InvalidInput(
            f"probabilities have no column for {len(missing):,} of {len(classes):,} classes, such as"
            f" {missing[0]!r}; name the columns by the classes"
        )
    others = [name for name in columns if name not in wanted]
    beside = id_column(others, lambda name: np.asarray(table[columns[name]]).tolist())
    keys = None if beside is None else np.asarray(table[columns[beside]]).tolist()
    there = n_rows if keys is None else len(keys)
    given = [as_numbers(table[columns[name]], there, "each class of probabilities") for name in wanted]
    found = np.stack(given, axis=1)
    if keys is None or beside is None:
        lists = ((name, np.asarray(table[columns[name]]).tolist()) for name in others)
        return found, tuple(notes_on_others(Values(range(there), None, called, others=lambda: lists), data))
    joined = join(Values(range(there), keys, called, beside), data, "probabilities")
    absent = [row for row in joined.absent if checked.usable[row]]
    if absent:
        raise InvalidInput(
            f"{called} has no row for {len(absent):,} of {n_rows:,} rows ({first_rows(absent)}), by the ids"
            f" in its column {beside!r}; expected one for each"
        )
    places = np.array([-1 if place is None else place for place in joined.entries])
    ordered = np.where(places[:, None] >= 0, found[places], 1 / len(classes))  # of bad rows nothing is asked
    return ordered, joined.notes


def _read(path: Path, classes: Labels, n_rows: int) -> Any:
    """Return the array or the table of a file.

    A Parquet file of another number of rows is not read, unless it has more columns than there are classes:
    these may be ids.
    """
    if path.exists() and not path.is_file():
        raise InvalidInput(f"probabilities are read from a file; {path} is none")
    try:
        if path.suffix == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        if path.suffix == ".parquet":
            held = pq.read_metadata(path)
            if held.num_rows != n_rows and held.num_columns <= len(classes):
                raise InvalidInput(
                    f"probabilities must have a row for each of {n_rows:,}; {path} has {held.num_rows:,}"
                )
            check_room(8 * held.num_rows * held.num_columns, str(path))
        if path.suffix in (".parquet", ".csv"):
            return pq.read_table(path) if path.suffix == ".parquet" else _read_csv(path, classes)
    except InvalidInput:
        raise
    except (OSError, ValueError) as error:
        raise InvalidInput(f"probabilities cannot be read from {path}: {error}") from None
    raise InvalidInput(f"probabilities are read from .npy, .parquet or .csv; got {path}")


def _read_csv(path: Path, classes: Labels) -> pa.Table:
    """Return a table of which all columns but those of the classes are text, as ids are: '007' is not 7."""
    with csv.open_csv(path) as reader:
        names = set(reader.schema.names).difference(map(str, classes.tolist()))
    return csv.read_csv(
        path, convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    )


def _as_reference(
    given: object, classes: Labels, n_features: int, like: Mapping[str, object]
) -> tuple[FloatArray, IntArray]:
    """Return the rows of a reference and the class of each."""
    if isinstance(given, tuple):
        if len(given) != 2:
            raise InvalidInputType("reference must be (rows, labels), a dataset or a path with labels")
        opened = open_data(*given, encode=True)
    else:
        options = ("encoder", "text", "image", "embedding")
        alike: dict[str, Any] = {name: like[name] for name in options if name in like}
        labels = like.get("labels")  # where those of the data are a column, so are these
        if isinstance(labels, str) and not os.path.exists(labels):
            alike["labels"] = labels
        opened = given if isinstance(given, Dataset) else open_data(given, encode=True, **alike)
    if opened.labels is None:
        raise InvalidInput(
            "the reference has no labels; pass (rows, labels), a dataset with labels, or a path whose labels"
            " are where those of the data are"
        )
    rows = rows_of(opened, "the reference", n_features)
    checked = check_input(rows, opened.labels, name="the reference", finite=False)
    assert checked.classes is not None
    assert checked.codes is not None
    names = {str(name): place for place, name in enumerate(classes.tolist())}
    foreign = [str(name) for name in checked.classes.tolist() if str(name) not in names]
    if foreign:
        raise InvalidInput(f"the reference has the label {foreign[0]!r}, which no row of the data has")
    places = np.array([names[str(name)] for name in checked.classes.tolist()], np.int64)
    return rows, places[checked.codes]


def as_numbers(given: object, n_rows: int, name: str) -> Vector:
    """Return a number for each row; entries that are masked are NaN.

    >>> as_numbers([1, 2.5], 2, "cost").tolist()
    [1.0, 2.5]
    """
    with suppress(TypeError, ValueError, OverflowError):
        found = np.asanyarray(without_torch(given, name))
        if found.dtype.kind in "biufUSO" and found.shape == (n_rows,):
            return np.ma.filled(found.astype(np.float64), np.nan)
    raise InvalidInput(f"{name} takes a column or a number for each of {n_rows:,} rows")


def numbers_of_rows(
    given: object, data: Dataset, name: str, least: float = -np.inf
) -> tuple[Vector, IntArray]:
    """Return a number for each row, from a column, a file or an array, and the rows that are not bad.

    Those of other rows must be finite, and none less than `least`.
    """
    if isinstance(given, (str, os.PathLike)):
        values: Vector = values_of_rows(data, given, "scores", name)
    else:
        data.check_index(given, name)
        values = as_numbers(given, len(data), name)
    good = np.setdiff1d(np.arange(len(data)), data.bad_rows)
    if not np.isfinite(values[good]).all() or (values[good] < least).any():
        at_least = f" and at least {least:g}" if np.isfinite(least) else ""
        raise InvalidInput(f"{name} must be finite{at_least} in every row")
    return values, good


def open_foreign(
    given: object, encoder: object = None, text: str | None = None, drop: bool = False
) -> Dataset:
    """Open other data as this data was opened: a dataset, a path, an array, or `(X, y)`.

    Its labels are not needed. `encoder`, `text`: how this data was encoded, for images and texts. `drop`:
    whether its bad rows are left out, as those of this data are.
    """
    source = given[0] if isinstance(given, tuple) and len(given) == 2 else given
    if isinstance(source, Dataset):
        return source
    on_bad_rows = "drop" if drop else "error"
    return open_data(source, encoder=encoder, text=text, on_bad_rows=on_bad_rows, encode=True)


def rows_of(opened: Dataset, name: str, n_features: int) -> FloatArray:
    """Return the rows of other data in memory, of as many features as the rows of this, checked.

    Bad rows are NaN, where the data was opened to leave them out.
    """
    rows = np.asarray(check_input(opened.numbers(), name=name, finite=False).rows[:])
    if rows.shape[1] != n_features:
        raise InvalidInput(
            f"{name} has rows of {rows.shape[1]} numbers, and the data has rows of {n_features}; encode both"
            " with the same encoder"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size and not opened.drop:
        raise InvalidInput(f"{name} has {describe_bad_rows(bad)}; on_bad_rows='drop' leaves them out")
    return rows
