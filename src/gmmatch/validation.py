"""Checks of rows, labels, budgets and seeds: once, at the edge, one sentence each.

Labels are whole numbers or text, of which those that differ stay different.
"""

import difflib
import hashlib
import numbers
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, Self, TypeGuard

import numpy as np
import numpy.typing as npt

from .arrays import AnyArray, FloatArray, IntArray, Keys, Mask, Rows, Vector, kinds_of
from .errors import InvalidInput, InvalidInputType, InvalidParameter, UnknownParameter, brief, first_line

# Squares of larger numbers leave float64, as do squares of smaller ones; no embedding has them.
LARGEST_VALUE = 1e140
_SMALLEST_VALUE = 1e-140  # that the largest of all may have
_SMALLEST_SINGLE = 1e-12  # the same in float32, of which squares of differences are computed, too
_LIGHTEST = 1e-50  # the smallest weight beside one of 1: distances by which it counts have squares
_CHECK_BYTES = 1 << 21  # stays in a cache between looking for the largest and the smallest
_GLANCE_ROWS = 256
LARGEST_WHOLE_FLOAT = 2**53  # from here on float64 does not tell neighbours apart
# Texts are held in arrays, each as wide as the longest: a single one can take the memory of all.
_LONG_LABEL = 1000
_MOST_BYTES = 1 << 30
_TEXTS_AT_ONCE = 1 << 16  # that are looked at together
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_MOST_DIGITS = 18  # of a count
_FEW_NUMBERS = 1 << 16  # that are counted, however few of them there are


def as_rows(X: Any, name: str = "X", finite: bool = True) -> FloatArray:
    """Return `X` as a finite float32 or float64 array of shape (rows, features).

    Memory maps and arrays of these types are returned as they are; float16 becomes float32, integers
    and booleans become float64; masked values become NaN. An object that is read like such an array
    (`gmmatch.data.StackedRows`) is returned as it is, too. Without `finite`, the values are not looked at.

    Raises `InvalidInput`: not two-dimensional, empty, or with NaN or infinite values. Raises
    `InvalidInputType`: not numbers.
    """
    X = without_torch(X, name)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.promote_types(X.dtype, np.float32)), np.nan)
    if any(library == "scipy" for library, _ in kinds_of(X)):
        raise InvalidInputType(f"{name} is a sparse matrix; pass a dense array, for example {name}.toarray()")
    try:
        plain = type(X) in (np.ndarray, np.memmap) or getattr(X, "reads_like_rows", False)
        array = X if plain else np.asarray(X)
    except ValueError:
        raise InvalidInput(f"the rows of {name} differ in length; expected one length for all") from None
    if array.ndim == 0:
        expected = "rows of numbers: an array of shape (rows, features), a table, a dataset or a path"
        raise InvalidInputType(f"{name} must be {expected}; got {type(X).__name__}")
    if array.dtype.kind == "O" and all(isinstance(value, numbers.Real) for value in array.flat):
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise InvalidInput(f"{name} has whole numbers that are too large for float64") from None
    if array.dtype.kind not in "fiub":
        raise InvalidInputType(f"{name} must hold numbers; got {kind_of(array)}")
    if array.ndim != 2:
        given = f"{array.ndim}, shape {array.shape}"
        raise InvalidInput(f"{name} must have two dimensions (rows, features); got {given}")
    if 0 in array.shape:
        given = f"{array.shape[0]} rows and {array.shape[1]} features"
        raise InvalidInput(f"{name} has {given}; expected at least one of each")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    elif array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        array = array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)
    bad = bad_rows(array) if finite else np.empty(0, np.int64)
    if bad.size:
        raise InvalidInput(f"{name} has {describe_bad_rows(bad)}")
    return array


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Rows and labels that were checked once, for all that follows."""

    rows: Rows  # float32 or float64
    # The sorted labels, and the class of each row; None without labels.
    classes: AnyArray | None = None
    codes: IntArray | None = None
    usable: Any = None  # which rows may be picked, as far as their values and labels say; None: all
    # A seed and the hashes of the rows by it, and a digest of all rows, where they were looked at already.
    hashes: tuple[int, Keys] | None = None
    digest: str | None = None
    means: Vector | None = None  # of each class, or of all rows, where they were added up

    def __post_init__(self) -> None:
        if self.usable is None:
            object.__setattr__(self, "usable", np.ones(len(self.rows), bool))

    def keys(self, seed: int) -> Keys | None:
        """Return the hashes of the rows by this seed, if they are known."""
        return None if self.hashes is None or self.hashes[0] != seed else self.hashes[1]

    @cached_property
    def fingerprint(self) -> str:
        """A short digest of the input, of all rows and their classes."""
        return fingerprint(self.rows, self.codes, self.digest)

    def read_by(self, rows: Rows) -> Self:
        """Return the same rows as a runner, or the caller, reads them; what is known of them stays known."""
        found = replace(self, rows=rows)
        vars(found).update({name: own for name, own in vars(self).items() if name == "fingerprint"})
        return found

    @property
    def n_usable(self) -> int:
        """How many rows may be picked."""
        return int(self.usable.sum())

    def judged(self, by_class: bool = True) -> tuple[IntArray | None, IntArray]:
        """Return the classes as they are judged: the code of each row, and which class each code is.

        Classes without a usable row have no code, unusable rows have -1. The codes are None where all
        rows are of one class.
        """
        given = self.codes if by_class else None
        if given is None:
            given = np.zeros(len(self.rows), np.int64)
        present, positions = number_classes(given[self.usable])
        if len(present) == 1 and self.usable.all():
            return None, present
        codes = np.full(len(given), -1)
        codes[self.usable] = positions
        return codes, present


def check_input(
    X: object,
    y: object = None,
    usable: Mask | None = None,
    name: str = "X",
    label_name: str = "labels",
    finite: bool = True,
) -> CheckedRows:
    """Check rows and labels; the values of the rows are looked at where `finite` asks for it.

    >>> check_input([[1.0], [2.0]], ["b", "a"]).codes
    array([1, 0])
    """
    rows = as_rows(X, name, finite=finite and usable is None)
    # Distances would all be lost to rounding; hardly any row is read where one value is ordinary.
    single = rows.dtype == np.float32
    smallest = _SMALLEST_SINGLE if single else _SMALLEST_VALUE
    most, largest = max(1, _CHECK_BYTES // (rows.shape[1] * rows.itemsize)), 0.0
    start, stop = 0, 1  # the first row says enough, as a rule
    while start < len(rows):
        chunk = np.abs(np.asarray(rows[start:stop]))
        if (chunk >= smallest).any():
            break
        largest = max(largest, float(chunk.max(initial=0.0, where=chunk > 0)))
        start, stop = stop, stop + most
    if largest and start >= len(rows):
        way = ", or give them as float64" if single else ""
        raise InvalidInput(
            f"{name} holds no value larger than {largest:.3g}; expected one of at least {smallest:g}, because"
            f" squares of smaller {rows.dtype} numbers vanish: multiply all of them{way}"
        )
    classes, codes = (None, None) if y is None else as_labels(y, len(rows), label_name)
    return CheckedRows(rows, classes, codes, np.ones(len(rows), bool) if usable is None else usable)


def bad_rows(rows: AnyArray) -> IntArray:
    """Return the numbers of the rows that hold NaN, infinite or absurdly large values."""
    step = max(1, _CHECK_BYTES // (rows.shape[1] * rows.itemsize))
    found: list[IntArray] = []
    for start in range(0, len(rows), step):
        chunk = rows[start : start + step]
        # The largest and the smallest value are finite and small exactly when all values are.
        if not (float(chunk.max()) <= LARGEST_VALUE and float(chunk.min()) >= -LARGEST_VALUE):
            with np.errstate(invalid="ignore"):
                good = (np.abs(chunk, dtype=np.float64) <= LARGEST_VALUE).all(axis=1)
            found.append(np.flatnonzero(~good) + start)
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def describe_bad_rows(bad: IntArray) -> str:
    """Return how many rows are bad and which come first, as a part of a sentence."""
    rows = "row" if bad.size == 1 else "rows"
    return (
        f"NaN, infinite or absurdly large values (beyond {LARGEST_VALUE:g}) in {bad.size} {rows}"
        f" ({first_rows(bad)}); expected finite numbers"
    )


def first_rows(rows: Sequence[int] | IntArray) -> str:
    """Return the first ten of some row numbers, as a part of a sentence."""
    return f"first: {', '.join(map(str, rows[:10]))}"


def as_labels(labels: object, n_rows: int, name: str = "labels") -> tuple[AnyArray, IntArray]:
    """Return the sorted classes and, for each row, the position of its class among them.

    Raises `InvalidInput`: another length than the rows, more than one dimension, missing or fractional
    values.
    """
    array, missing = label_values(labels, name)
    if len(array) != n_rows:
        raise InvalidInput(f"{name} has {len(array)} entries for {n_rows} rows; expected one per row")
    if missing.size:
        rows = "row" if missing.size == 1 else "rows"
        raise InvalidInput(f"{name} has no value in {missing.size} {rows} ({first_rows(missing)})")
    return number_classes(array)


def resolve_keep(keep: object, n_rows: int) -> int:
    """Return how many of `n_rows` rows to keep; `auto`: all of them, the most that it may mean."""
    keep = check_keep(keep)
    if isinstance(keep, str):
        return n_rows
    if is_whole(keep):
        if keep > n_rows:
            raise InvalidInput(f"keep asks for {brief(keep)} rows, but there are only {n_rows}")
        return int(keep)
    return max(1, int(np.floor(float(keep) * n_rows + 0.5)))


def check_keep(keep: Any, name: str = "keep") -> float | int | str:
    """Return a fraction, a count or `auto`; refuse what is none of them, whatever the data.

    >>> check_keep("10%"), check_keep(0.1), check_keep(500), check_keep("1.5k"), check_keep("auto")
    (0.1, 0.1, 500, 1500, 'auto')
    >>> check_keep("+500"), type(check_keep("+500")).__name__
    (500, 'Beyond')
    """
    if isinstance(keep, str) and keep == "auto" and name == "keep":
        return keep
    if isinstance(keep, Amount):
        return keep
    amount = parse_amount(keep) if isinstance(keep, str) else keep
    if not (amount >= 1 if is_whole(amount) else is_number(amount) and 0 < amount <= 1):
        raise InvalidParameter(
            f"{name} must be a fraction in (0, 1] or a count of at least 1; got"
            f" {brief(amount)}{'' if is_number(amount) else ', which is no percentage such as 10% either'}"
        )
    return amount  # type: ignore[no-any-return]


class Amount(float):
    """An amount of what rows cost, which need not be whole."""


def as_amount(keep: Any) -> Any:
    """Return how much to keep in the unit of a cost, where a number beyond one is an amount.

    >>> as_amount("1500.5"), as_amount(2000.0), as_amount(0.1), as_amount("auto")
    (1500.5, 2000.0, 0.1, 'auto')
    """
    amount = parse_amount(keep) if isinstance(keep, str) else keep
    fits = is_number(amount) and not is_whole(amount) and 1 < amount < np.inf
    return Amount(amount) if fits and not str(keep).rstrip().endswith("%") else keep


class Beyond(int):
    """A count of rows beyond those that are in already."""


def parse_amount(text: str) -> Any:
    """Return the number that a text means: a percentage, a share or a count; the text where it means none."""
    found = re.fullmatch(r"\s*([-+]?)(\d+\.?\d*|\.\d+)\s*(%|[kKMG]?)\s*", text)
    if found is None:
        return text
    sign, digits, unit = found.groups()
    if unit == "%":  # of what is beyond others is not said
        return text if sign == "+" else float(f"{sign}{digits}") / 100
    number: Any = int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else float(digits)
    if unit:
        number *= 1000 ** (1 + "kmg".index(unit.lower()))
        number = int(number) if float(number).is_integer() else number
    if sign == "+":
        return Beyond(number) if is_whole(number) else text
    return -number if sign else number


def as_size(size: object, name: str = "memory") -> int:
    """Return a number of bytes, from a number or from text such as `2GB`; at least a million.

    >>> as_size("2GB"), as_size("512 MiB"), as_size(5_000_000)
    (2000000000, 536870912, 5000000)
    """
    number = float(size) if is_number(size) else 0.0
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", size, flags=re.IGNORECASE)
        if found is None:
            raise InvalidParameter(f"{name} takes a size such as 2GB or 512MB; got {brief(size)}")
        digits, unit, binary = found.groups()
        number = float(digits) * (1024 if binary else 1000) ** " kmgt".index(unit.lower() or " ")
    if not number >= 1_000_000:
        raise InvalidParameter(f"{name} must be at least 1MB; got {brief(size)}")
    return int(number)


def is_whole(value: object) -> TypeGuard[int]:
    """Return True for a whole number, of Python or NumPy, and not a truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a real number, of Python or NumPy, and not a truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_choice(value: object, allowed: Iterable[str], name: str) -> str:
    """Return `value` if it is one of the allowed words.

    >>> check_choice("residual", ("residual", "projection"), "step")
    'residual'
    """
    known = list(allowed)
    if not isinstance(value, str) or value not in known:
        words = " or ".join(", ".join(map(repr, known)).rsplit(", ", 1))
        raise InvalidParameter(f"{name} must be {words}; got {brief(value)}{nearest(value, known)}")
    return value


def check_parameters(given: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Refuse parameters that `owner` does not have."""
    allowed = sorted(known)
    for name in given:
        if name not in allowed:
            hint = f"{nearest(name, allowed)}; it has: {', '.join(allowed)}"
            raise UnknownParameter(f"{owner} has no parameter {name!r}{hint}")


def nearest(word: object, known: Iterable[str]) -> str:
    """Return a hint at the known word that is most like `word`, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5) if isinstance(word, str) else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def check_positive_int(value: object, name: str) -> int:
    """Return `value` as an int of at least 1."""
    if not is_whole(value) or value < 1:
        raise InvalidParameter(f"{name} must be a whole number of at least 1; got {brief(value)}")
    return int(value)


def check_vector(vector: Vector, shape: tuple[int, ...], name: str) -> Vector:
    """Return a vector that is as long as the rows, and no number of which is absurd."""
    right = vector.shape == shape
    if not (right and (np.abs(vector) <= LARGEST_VALUE).all()):
        got = f"values beyond {LARGEST_VALUE:g}" if right else vector.shape
        raise InvalidInput(f"{name} must be a finite vector of shape {shape}; got {got}")
    return vector


def check_probability(value: object, name: str) -> float:
    """Return a probability, checked."""
    if is_number(value) and 0 <= value <= 1:
        return float(value)
    raise InvalidParameter(f"{name} must be a probability from 0 to 1; got {brief(value)}")


def as_seed(random_state: object) -> int:
    """Return a seed: the given whole number, or one drawn from a Generator, or a fresh one for None."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if is_whole(random_state) and random_state >= 0:
        return int(random_state)
    raise InvalidParameter(
        "random_state must be a whole number of at least 0, a numpy.random.Generator or None;"
        f" got {brief(random_state)}"
    )


def as_weights(weights: object, n_rows: int) -> Vector | None:
    """Return row weights as float64: finite, none negative, not all zero."""
    if weights is None:
        return None
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputType("weights must be numbers, one per row") from None
    if array.shape != (n_rows,):
        raise InvalidInput(f"weights has shape {array.shape}; expected ({n_rows},), one weight per row")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise InvalidInput("weights must be finite, none negative, and not all zero")
    least, most = float(array[array > 0].min()), float(array.max())
    if least < _LIGHTEST * most:
        raise InvalidInput(
            f"weights range from {least:.3g} to {most:.3g}; expected none below {_LIGHTEST:g} of the largest,"
            " but for zeros: beside the largest such a row is lost to rounding"
        )
    return array


def fingerprint(rows: Rows, codes: IntArray | None = None, digest: str | None = None) -> str:
    """Return a short digest of the shape, the type, all rows in their order, and the classes.

    `digest`: that of `digest_rows`, where the rows were read already.
    """
    described = f"{rows.shape} {rows.dtype.str} {digest or digest_rows(rows)}"
    whole = hashlib.blake2b(described.encode(), digest_size=16)
    if codes is not None:
        whole.update(codes.tobytes())
    return whole.hexdigest()


def glance(rows: Rows) -> str:
    """Return a short digest of the shape, the type and a spread of up to 256 rows: hardly a row is read."""
    digest = hashlib.blake2b(f"{rows.shape} {rows.dtype.str}".encode(), digest_size=16)
    spread = np.unique(np.linspace(0, len(rows) - 1, _GLANCE_ROWS).astype(np.int64))
    digest.update(np.ascontiguousarray(rows[spread]).tobytes())
    return digest.hexdigest()


def digest_rows(rows: Rows) -> str:
    """Return a digest of all rows in their order: of float32 and of float64 rows of the same values the same.

    Rows that are bad count as one and the same. `compute.keys.look_at_rows` finds it beside other things.
    """
    digest = hashlib.blake2b(digest_size=16)
    step = max(1, _CHECK_BYTES // max(1, rows.itemsize * int(np.prod(rows.shape[1:]))))
    for start in range(0, len(rows), step):
        block = np.asarray(rows[start : start + step])
        digest.update(row_marks(block.reshape(len(block), -1)).tobytes())
    return digest.hexdigest()


def row_marks(block: AnyArray) -> Keys:
    """Return a hash of each row's values, 0 for bad rows; a change of one value always changes it."""
    values = block.astype(np.float64) + 0.0
    with np.errstate(invalid="ignore"):
        good = (np.abs(values) <= LARGEST_VALUE).all(axis=1)
    bits = values.view(np.uint64)
    marks = ((bits ^ (bits >> np.uint64(32))) * key_factors(block.shape[1])).sum(axis=1, dtype=np.uint64)
    return np.where(good, marks, np.uint64(0))


def key_factors(n_features: int, seed: int = 0) -> Keys:
    """Return the odd numbers that values are multiplied by in the hash of a row.

    >>> (key_factors(3) % 2).tolist()
    [1, 1, 1]
    """
    rng = np.random.default_rng([seed, 0x6B657973])
    return rng.integers(0, 2**64, n_features, dtype=np.uint64) | np.uint64(1)


def label_values(labels: object, name: str = "labels") -> tuple[AnyArray, IntArray]:
    """Return labels as whole numbers or as text, and the rows that have none.

    Labels that differ stay different, or are refused. None, NaN, masked and empty entries are missing;
    the values at their rows mean nothing.

    >>> label_values(["cat", None, "dog"])
    (array(['cat', '', 'dog'], dtype='<U3'), array([1]))
    """
    array = _as_column(without_torch(labels, name), name)
    if array.dtype.kind == "O" or isinstance(array, np.ma.MaskedArray):
        return _object_labels(array, name)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        filled = np.where(missing, 0, array).astype(np.float64)
        odd = np.flatnonzero((np.abs(filled) >= LARGEST_WHOLE_FLOAT) | (filled != np.floor(filled)))
        if odd.size:
            _refuse_amount(int(odd[0]), array[odd[0]], name)
        return filled.astype(np.int64), np.flatnonzero(missing)
    if array.dtype.kind not in "iubUS":
        raise InvalidInputType(f"{name} must be whole numbers or text; got {kind_of(array)}")
    if array.dtype.kind == "S":  # which no page and no JSON shows as they are
        given: npt.NDArray[np.bytes_] = array
        try:
            array = np.char.decode(given, "utf-8")
        except UnicodeDecodeError:
            array = np.char.decode(given, "latin-1")  # any bytes; those that differ stay different
    is_text = array.dtype.kind == "U"
    for start in range(0, len(array) if is_text else 0, _TEXTS_AT_ONCE):
        _check_letters(array[start : start + _TEXTS_AT_ONCE].tolist(), name, start)
    empty = is_text and array == ""
    # Tables hold no numbers in another machine's order of bytes.
    return array.astype(array.dtype.newbyteorder("="), copy=False), np.flatnonzero(empty)


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


def without_torch(value: Any, name: str) -> Any:
    """Return what a tensor of torch holds, and anything else as it is.

    NumPy refuses tensors that track gradients, or are of few bits.
    """
    if ("torch", "Tensor") not in kinds_of(value):
        return value
    if str(value.layout) != "torch.strided":
        raise InvalidInputType(f"{name} is a sparse tensor; pass a dense one: {name}.to_dense()")
    try:
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
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
    except Exception as error:  # of another library, whose values NumPy has no type for
        raise InvalidInputType(f"{name} cannot be read as an array: {first_line(error)}") from None
    if array.dtype.kind == "T":  # text of any width
        array = array.astype(object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        advice = "of several labels per row, pass one column at a time, or name each combination"
        raise InvalidInput(f"{name} must have one dimension; got shape {array.shape}; {advice}")
    return array


def _object_labels(array: AnyArray, name: str) -> tuple[AnyArray, IntArray]:
    """Turn labels held as Python objects, or masked, into an array of one kind."""
    values = array.tolist()
    good = np.array([not is_missing(value) for value in values], dtype=bool)
    present = [value for value in values if not is_missing(value)]
    fill: Any = 0
    found: list[Any]
    if all(isinstance(value, str) for value in present):
        fill, found = "", present
        _check_letters(["" if is_missing(value) else value for value in values], name)
        texts = [(len(value), -row) for row, value in enumerate(values) if isinstance(value, str)]
        longest, row = max(texts, default=(0, 0))
        if longest > _LONG_LABEL and 4 * longest * len(values) > _MOST_BYTES:
            raise InvalidInput(
                f"{name} has a text of {longest:,} letters at row {-row}, beside which {len(values):,} would"
                f" take {4 * longest * len(values) / 1e9:,.1f} GB; expected short names"
            )
    elif all(isinstance(value, (bool, np.bool_)) for value in present):
        fill, found = False, present
    elif all(_is_whole_real(value) for value in present):
        found = [int(value) for value in present]
        if min(found) < -(2**63) or max(found) >= (2**63 if min(found) < 0 else 2**64):
            fill, found = "", list(map(str, found))
    else:
        if all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in present):
            odd = next(row for row in np.flatnonzero(good).tolist() if not _is_whole_real(values[row]))
            _refuse_amount(odd, values[odd], name)
        kinds = sorted({type(value).__name__ for value in present})
        raise InvalidInputType(f"{name} must be all whole numbers or all text; got {' and '.join(kinds)}")
    result = np.full(len(values), fill, np.asarray(found).dtype if found else None)
    result[good] = found
    return result, np.flatnonzero(~good)


def _check_letters(texts: list[str], name: str, first: int = 0) -> None:
    """Refuse text that cannot be written to any file and read again; NumPy itself cuts NUL at the end."""
    if _UNWRITABLE.search("".join(texts)):
        row = next(row for row, text in enumerate(texts, first) if _UNWRITABLE.search(text))
        raise InvalidInput(
            f"{name} has text with a NUL character or half of a letter (a lone surrogate) at row {row};"
            " expected text that UTF-8 can hold, without NUL"
        )


def _is_whole_real(value: object) -> bool:
    if isinstance(value, numbers.Integral):
        return not isinstance(value, bool)
    number = float(value) if isinstance(value, numbers.Real) else 0.5
    return number.is_integer() and abs(number) < LARGEST_WHOLE_FLOAT


def _refuse_amount(row: int, value: object, name: str) -> NoReturn:
    expected = "classes (whole numbers or text)"
    raise InvalidInput(f"{name} must be {expected}; got {value} at row {row}; divide amounts into bins")


def is_missing(value: object) -> bool:
    """Return True if a value stands for none: None, NaN, pandas' NA, masked, or empty text.

    >>> [is_missing(value) for value in (None, float("nan"), "", 0, "nan")]
    [True, True, True, False, False]
    """
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value == "") if isinstance(value, str) else isinstance(value, numbers.Real) and value != value


def kind_of(array: AnyArray) -> str:
    """Return what an array holds in the user's words, with the first value where that helps."""
    if array.dtype.kind in "US":
        return f"text (first value: {str(array.flat[0])!r})" if array.size else "text"
    if array.dtype.kind == "O":
        odd = [value for value in array.flat if not isinstance(value, numbers.Real)][:1]
        said = f" (for example {odd[0][:40]!r})" if odd and isinstance(odd[0], str) else ""
        return f"{type(odd[0]).__name__}{said}" if odd else "Python objects"
    return f"values of type {array.dtype}"
