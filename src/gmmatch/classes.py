"""Labels as users hold them: whole numbers or text, of which those that differ stay different."""

import numbers
import re
import unicodedata
from typing import Any, NoReturn

import numpy as np

from .arrays import AnyArray, IntArray
from .errors import InvalidInput, InvalidInputType, first_line

LARGEST_WHOLE_FLOAT = 2**53  # from here on float64 does not tell neighbours apart
# Texts are held in arrays, each as wide as the longest: a single one can take the memory of all.
_LONG_LABEL = 1000
_MOST_BYTES = 1 << 30
_MANY_NUMBERS = 30  # of classes, from which whole numbers may be amounts
_MOST_NAMED = 4  # classes in a note
_NO_LABEL = {"nan", "na", "n/a", "null", "none", "?", "-"}
# Letters that are not seen but are none of those that only format: fillers, joiners, variants of emoji.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_LETTERS_AT_ONCE = 1 << 20  # that are looked at together
_FEW_NUMBERS = 1 << 16  # that are counted, however few of them there are


def label_values(labels: Any, name: str = "labels") -> tuple[AnyArray, IntArray]:
    """Return labels as whole numbers or as text, and the rows that have none.

    Labels that differ stay different, or are refused. None, NaN, masked and empty entries are missing;
    the values at their rows mean nothing.

    >>> label_values(["cat", None, "dog"])
    (array(['cat', '', 'dog'], dtype='<U3'), array([1]))
    """
    if hasattr(labels, "detach"):
        labels = array_of_tensor(labels, name)
    array = _as_column(labels, name)
    if array.dtype.kind == "O" or isinstance(array, np.ma.MaskedArray):
        return _object_labels(array, name)
    if array.dtype.kind == "f":
        missing = np.flatnonzero(np.isnan(array))
        return _whole_floats(np.where(np.isnan(array), 0, array), name), missing
    if array.dtype.kind not in "iubUS":
        raise InvalidInputType(f"{name} must be whole numbers or text; got {kind_of(array)}")
    if array.dtype.kind in "US":
        _check_letters(array, name)
    empty = array.dtype.kind in "US" and array == array.dtype.type()
    return np.asarray(array), np.flatnonzero(empty)


def number_classes(values: AnyArray) -> tuple[AnyArray, IntArray]:
    """Return the classes in ascending order and, for each value, the place of its class among them.

    As `numpy.unique` does; whole numbers that lie close together are counted and not sorted.

    >>> number_classes(np.array([7, 5, 7]))
    (array([5, 7]), array([1, 0, 1]))
    """
    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < max(values.size, _FEW_NUMBERS) and high < 2**63:
            places = values.astype(np.int64, copy=False) - low
            there = np.bincount(places, minlength=high - low + 1) > 0
            classes = (np.flatnonzero(there) + low).astype(values.dtype)
            return classes, (np.cumsum(there) - 1)[places]
    classes, codes = np.unique(values, return_inverse=True)
    return classes, codes.astype(np.int64, copy=False)


def array_of_tensor(tensor: Any, name: str) -> AnyArray:
    """Return what a torch tensor holds, which NumPy refuses where it tracks gradients or is of few bits."""
    if str(tensor.layout) != "torch.strided":
        raise InvalidInputType(f"{name} is a sparse tensor; pass a dense one: {name}.to_dense()")
    try:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        few_bits = str(tensor.dtype).startswith(("torch.bfloat", "torch.float8"))
        return np.asarray(tensor.float() if few_bits else tensor)
    except (TypeError, RuntimeError) as error:  # of no device, or of a type of torch's own
        raise InvalidInputType(f"{name} is a tensor that cannot be read: {first_line(error)}") from None


def _as_column(labels: Any, name: str) -> AnyArray:
    """Return labels as an array of one dimension, in which no value became another."""
    listed = isinstance(labels, (list, tuple))
    # NumPy would turn 1 into '1', NaN into 'nan', 'a\0' into 'a', and make texts as wide as the longest.
    kept = object if listed and any(isinstance(label, (str, bytes)) for label in labels) else None
    try:
        array = labels if isinstance(labels, np.ma.MaskedArray) else np.asarray(labels, kept)
        if listed and array.dtype.kind in "US":  # texts in lists of one
            array = np.asarray(labels, object)
    except ValueError:
        raise InvalidInput(f"{name} must have one dimension; got lists of several lengths") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(
            f"{name} must have one dimension; got shape {array.shape};"
            " of several labels per row, pass one column at a time, or name each combination"
        )
    return array


def _object_labels(array: AnyArray, name: str) -> tuple[AnyArray, IntArray]:
    """Turn labels held as Python objects, or masked, into an array of one kind."""
    values = array.tolist()
    missing = np.array([row for row, value in enumerate(values) if is_missing(value)], dtype=np.int64)
    present = [value for value in values if not is_missing(value)]
    fill: Any = 0
    found: list[Any]
    if all(isinstance(value, str) for value in present):
        fill, found = "", present
        odd = [row for row, value in enumerate(values) if isinstance(value, str) and not _is_plain(value)]
        if odd:
            raise _refuse_text(odd[0], name)
        _check_width(values, name)
    elif all(isinstance(value, (bool, np.bool_)) for value in present):
        fill, found = False, present
    elif all(_is_whole_real(value) for value in present):
        found = [int(value) for value in present]
        if min(found) < -(2**63) or max(found) >= (2**63 if min(found) < 0 else 2**64):
            fill, found = "", [str(value) for value in found]
    else:
        _refuse_labels(values, name)
    result = np.full(len(values), fill, np.asarray(found).dtype if found else None)
    good = np.ones(len(values), dtype=bool)
    good[missing] = False
    result[good] = found
    return result, missing


def notes_on(classes: AnyArray) -> list[str]:
    """Say what may be meant otherwise: classes that look alike, or read like none.

    Alike are those that differ in spaces, capitals, the encoding of accents (NFC, NFD) or invisible letters.

    >>> for note in notes_on(np.array(["Billing", "billing ", "n/a", "Login"])):
    ...     print(note)
    classes that differ in spaces or capitals only are taken as different: 'Billing' and 'billing '
    class 'n/a' reads like a missing label; rows whose label is left empty can be dropped (on_bad_rows)
    >>> notes_on(np.arange(18, 70))[0].partition(";")[0]
    'the labels are 52 whole numbers from 18 to 69, each taken as a class'
    """
    if classes.dtype.kind in "iu" and len(classes) >= _MANY_NUMBERS:
        low, high = int(classes.min()), int(classes.max())
        if low not in (0, 1) and high - low < 2 * len(classes):
            return [
                f"the labels are {len(classes):,} whole numbers from {low} to {high}, each taken as a class;"
                " if they are amounts, such as ages, divide them into bins first"
            ]
    if classes.dtype.kind != "U":
        return []
    alike: dict[str, list[str]] = {}
    for name in classes.tolist():
        alike.setdefault(_look(name), []).append(name)
    notes = []
    several = [names for names in alike.values() if len(names) > 1]
    if several:
        hidden = any(_visible(name) != name for name in several[0])
        *others, last = map(ascii if hidden else repr, several[0][:_MOST_NAMED])
        more = sum(map(len, several)) - len(others) - 1
        notes.append(
            f"classes that differ in spaces{', accents, invisible letters' if hidden else ''} or capitals"
            " only are taken as different:"
            f" {', '.join(others)} and {last}" + (f", and {more} more" if more else "")
        )
    for name in (names[0] for word, names in alike.items() if word in _NO_LABEL):
        notes.append(
            f"class {name!r} reads like a missing label; rows whose label is left empty can be dropped"
            " (on_bad_rows)"
        )
    return notes


def _look(name: str) -> str:
    """Return what classes that look alike have in common."""
    return " ".join(_visible(name).split()).casefold()


def _visible(name: str) -> str:
    """Return a name without letters that are not seen, such as zero-width spaces, with composed accents."""
    seen = "".join(letter for letter in _UNSEEN.sub("", name) if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", seen)


def _is_plain(text: str) -> bool:
    """Return True if text can be written to any file and read again: no NUL, and only what UTF-8 can hold."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_letters(array: AnyArray, name: str) -> None:
    """Refuse an array of text with NUL inside or with halves of letters; NumPy itself cuts NUL at the end."""
    letter: type[np.integer[Any]] = np.uint32 if array.dtype.kind == "U" else np.uint8
    width = array.dtype.itemsize // np.dtype(letter).itemsize
    step = _LETTERS_AT_ONCE // max(width, 1) + 1
    for start in range(0, len(array) if width else 0, step):
        part = np.ascontiguousarray(array[start : start + step], array.dtype.newbyteorder("="))
        codes: AnyArray = part.view(letter).reshape(len(part), width)
        odd = (codes >= 0xD800) & (codes <= 0xDFFF)
        odd[:, :-1] |= (codes[:, :-1] == 0) & (codes[:, 1:] != 0)
        if odd.any():
            raise _refuse_text(start + int(np.flatnonzero(odd.any(axis=1))[0]), name)


def _refuse_text(row: int, name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} has text with a NUL character or half of a letter (a lone surrogate) at row {row}; expected"
        " text that UTF-8 can hold, without NUL"
    )


def _check_width(values: list[Any], name: str) -> None:
    """Refuse texts, most likely not meant to be labels, that would fill the memory as an array."""
    texts = [(len(value), -row) for row, value in enumerate(values) if isinstance(value, str)]
    longest, row = max(texts, default=(0, 0))
    if longest > _LONG_LABEL and 4 * longest * len(values) > _MOST_BYTES:
        raise InvalidInput(
            f"{name} has a text of {longest:,} letters at row {-row}, beside which {len(values):,} would take"
            f" {4 * longest * len(values) / 1e9:,.1f} GB; expected short names"
        )


def _is_whole_real(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, numbers.Integral):
        return True
    if not isinstance(value, numbers.Real):
        return False
    return float(value).is_integer() and abs(float(value)) < LARGEST_WHOLE_FLOAT


def _refuse_labels(values: list[Any], name: str) -> NoReturn:
    present = [(row, value) for row, value in enumerate(values) if not is_missing(value)]
    if all(isinstance(value, numbers.Real) and not isinstance(value, bool) for _, value in present):
        row, value = next((row, value) for row, value in present if not _is_whole_real(value))
        raise InvalidInput(
            f"{name} must be classes (whole numbers or text); got {value} at row {row};"
            " divide amounts into bins"
        )
    kinds = sorted({type(value).__name__ for _, value in present})
    raise InvalidInputType(f"{name} must be all whole numbers or all text; got {' and '.join(kinds)}")


def _whole_floats(array: AnyArray, name: str) -> IntArray:
    large = np.abs(array.astype(np.float64)) >= LARGEST_WHOLE_FLOAT
    whole = ~large & (array == np.floor(array))
    if not whole.all():
        row = int(np.flatnonzero(~whole)[0])
        raise InvalidInput(
            f"{name} must be classes (whole numbers or text); got {array[row]} at row {row};"
            " divide amounts into bins"
        )
    return array.astype(np.int64)


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for none: None, NaN, pandas' NA, masked, or empty text.

    >>> [is_missing(value) for value in (None, float("nan"), "", 0, "nan")]
    [True, True, True, False, False]
    """
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value == "") if isinstance(value, str) else isinstance(value, numbers.Real) and value != value


def kind_of(array: AnyArray) -> str:
    """Name what an array holds in the user's words, with the first value where that helps."""
    if array.dtype.kind in "US":
        return f"text (first value: {str(array.flat[0])!r})" if array.size else "text"
    if array.dtype.kind == "O":
        odd = [value for value in array.flat if not isinstance(value, numbers.Real)]
        return f"{type(odd[0]).__name__} (for example {str(odd[0])[:40]!r})" if odd else "Python objects"
    return f"values of type {array.dtype}"
