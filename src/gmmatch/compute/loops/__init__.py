"""The compiled loops: loaded, and called after their arguments are checked; `compute.kernels` is their door.

They are written in C (`loops.c`, and `rows.h` for each type of rows) and built with the package by
`hatch_build.py`; nothing is compiled at run time. Where no build fits the machine, `twin` computes the same
bits in NumPy. The loops run outside the interpreter's lock, so that threads run side by side.
"""

import ctypes
import hashlib
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import twin

FOLDER = Path(__file__).parent
BUILDS = ("base", "avx2", "avx512")
SUFFIX = ".dll" if sys.platform == "win32" else ".so"

# The arguments of each loop, as name:type:sizes. Types: x that of the rows (float32 or float64), f float64,
# s float32, i int64, u uint64, b bool; ? may be None; = is filled in. Without sizes it is a number. Functions
# in C take the arguments in this order, then the sizes in the order in which they first appear.
_LOOPS = {
    "group_distances": "rows:x:nd codes:i?:n points:f:gd found:f=:n",
    "group_sums": "rows:x:nd codes:i?:n weights:f?:n sums:f=:gd mass:f=:g",
    "median_sums": "rows:x:nd codes:i?:n weights:f?:n points:f:gd numbers:f=:gq pull:f=:gd near:f=:gd",
    "scale_rows": "rows:x:nd origin:f:d scale:f most:f found:s=:nw",
    "clip_rows": "rows:x:nd origin:f:d scale:f longest:f found:f=:nw",
    "clip_rows_single": "rows:x:nd origin:f:d scale:f longest:f found:s=:nw",
    "cosines_and_sines": "angles:f:nh factor:f found:f=:nw",
    "check_and_hash": "rows:x:nd factors:u:d fixed:u:d largest:f good:b=:n keys:u=:n marks:u=:n",
    "running_means": "rows:x:nd center:f:d count:i total:f=:d objectives:f=:n distances:f=:n",
    "greedy": "rows:x:nd center:f:d start:f:d squares:f:n weight:f gram:x?:nn offsets:x?:nd unit:f spread:f "
    "count:i scores:f=:n theta:f=:d picks:i=:k objectives:f=:k distances:f=:k",
    "greedy_batches": "rows:x:nd firsts:i:b sizes:i:b quotas:i:b owners:i:b centers:f:gd starts:f:gd "
    "weight:f unit:f largest:f counts:i=:g thetas:f=:gd offsets:x=:od squares:f=:m scores:f=:m "
    "picks:i=:k objectives:f=:k distances:f=:k",
    "spread_out": "rows:x:nd draws:f:k sure:f chosen:i=:c gaps:f=:n sums:f=:b point:f=:d",
    "nearest_points": "products:x:ng sizes:x:g errors:f:n found:i=:n unsure:b=:n least:f=:n",
    "judge_labels": "scores:x:nc codes:i:n factors:x:a bias:x:ap weights:f:k given:x:kgp right:x:kc "
    "empty:x:kc memory:x=:mp wrong:f=:n suggested:i=:n likely:f=:n outside:f=:n evidence:f=:n "
    "probability:f=:n",
    "noise_step": "likelihood:x:np codes:i:n odds:x:p given:x:gp right:x:c empty:x:c memory:x=:p "
    "expected:x=:p squares:x=:p truth:x=:p own:x=:c counts:x?=:cp totals:x=:n",
}
_TYPES: dict[str, np.dtype[Any]] = {
    code: np.dtype(kind) for code, kind in zip("fsiub", ("f8", "f4", "i8", "u8", "?"), strict=True)
}


class _Argument(NamedTuple):
    name: str
    kind: str
    sizes: str


@cache
def _arguments(loop: str) -> list[_Argument]:
    return [_Argument(*(f"{one}:".split(":")[:3])) for one in _LOOPS[loop].split()]


def run(loop: str, *given: Any) -> int:
    """Run a loop in the fastest way that this machine has; refuse arguments that do not fit."""
    return call(library(), loop, *given)


def call(build: ctypes.CDLL | None, loop: str, *given: Any) -> int:
    """Run a loop in one of the builds; None: in NumPy.

    Inputs are converted where no value changes; what is filled in must have the very type and layout.
    """
    sizes: dict[str, int] = {}
    arguments = _arguments(loop)
    single = arguments[0].kind == "x" and given[0].dtype == np.float32
    kind = _TYPES["s" if single else "f"]
    checked: list[Any] = []
    passed: list[Any] = []
    for (name, code, letters), value in zip(arguments, given, strict=True):
        if value is None and "?" in code:
            passed.append(None)
        elif not letters:
            passed.append(ctypes.c_int64(int(value)) if code == "i" else ctypes.c_double(float(value)))
            value = passed[-1].value
        else:
            own = _TYPES.get(code[0], kind)
            if not (isinstance(value, np.ndarray) and value.dtype == own and _fits(value.flags, code)):
                value = _converted(f"{loop}: {name}", value, own, "=" in code)
            if value.ndim != len(letters) or any(
                sizes.setdefault(letter, size) != size
                for letter, size in zip(letters, value.shape, strict=True)
            ):
                raise ValueError(f"{loop}: {name} is of shape {value.shape}, which does not fit {sizes}")
            passed.append(ctypes.c_void_p(value.ctypes.data))
        checked.append(value)
    if build is None:
        with np.errstate(all="ignore"):
            return int(getattr(twin, loop)(*checked) or 0)
    function = getattr(build, f"f{8 * kind.itemsize}_{loop}" if arguments[0].kind == "x" else loop)
    function.restype = ctypes.c_int64
    return int(function(*passed, *map(ctypes.c_int64, sizes.values())))


def _fits(flags: Any, code: str) -> bool:
    """Return True if a loop can read an array of these flags, and write to it where it is filled in."""
    return bool(flags.carray if "=" in code else flags.c_contiguous and flags.aligned)


def _converted(name: str, value: Any, kind: np.dtype[Any], filled: bool) -> npt.NDArray[Any]:
    """Return an array as a loop expects it, where no value changes and it is not filled in; or refuse it."""
    array = np.asarray(value)
    if filled:
        raise TypeError(f"{name} must be a writable {kind} array in C order; got {array.dtype}")
    if not np.can_cast(array.dtype, kind, "safe"):
        raise TypeError(f"{name} must be {kind}; got {array.dtype}")
    return np.require(array, kind, ("C", "A"))


@cache
def library() -> ctypes.CDLL | None:
    """Return the fastest build that this processor runs; None, with a warning, where there is none."""
    try:
        base = load(FOLDER / f"{BUILDS[0]}{SUFFIX}")
        level = base.level()
        return load(FOLDER / f"{BUILDS[level]}{SUFFIX}") if level else base
    except OSError as error:
        script = FOLDER.parents[3] / "hatch_build.py"  # there is one in a checkout
        again = f"run: python {script}" if script.exists() else "install gmmatch again, beside a C compiler"
        message = f"gmmatch runs without its compiled loops, many times slower: {error}; {again}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None


def load(file: Path) -> ctypes.CDLL:
    """Load a build; OSError where it is missing, was made from other sources or fails its self-test."""
    if not file.exists():
        raise OSError(f"{file.name} is missing")
    build = ctypes.CDLL(str(file))
    build.source.restype = ctypes.c_char_p
    if build.source().decode() != digest():
        raise OSError(f"{file.name} was built from other sources")
    if not build.self_test():
        raise OSError(f"{file.name} fails its self-test on this machine")
    return build


def digest() -> str:
    """Return the digest of the sources, which a build carries."""
    sources = b"".join((FOLDER / name).read_bytes() for name in ("loops.c", "rows.h"))
    return hashlib.sha256(sources).hexdigest()
