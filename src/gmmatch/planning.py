"""What was asked for, checked before any row is read."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from .checkpoints import is_there
from .compute.engine import ENGINES
from .compute.passes import Engine
from .data import as_address, check_free, send
from .errors import InvalidInput, InvalidParameter
from .files import as_path, check_apart, check_folder
from .matching.budgets import class_budgets
from .matching.cells import SAMPLE_ROWS
from .outputs import check_new, check_output
from .records import IntArray
from .selectors import GMMatching, Selector, find_method
from .selectors.gm_matching import WHOLE_ROWS
from .selectors.registry import METHODS, Method
from .trust.guard import FOLDS
from .trust.head import MANY_CLASSES
from .trust.learning import heads_bytes, sample_size
from .validation import CheckedRows, as_size, check_choice, check_keep, is_whole, resolve_keep

JUDGED_ROW_BYTES = 140
"""What is found of each row, as long as it is needed."""
_LITTLE_BYTES = 64 << 20
_PATHS = ("output", "suspects", "report", "materialize", "save_scores", "state")


class OwnDefault(str):
    """A default of `gmmatch.select` that gives way to the method's own."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """All that was asked for; `gmmatch.select` describes each field."""

    source: Any
    keep: float | int | str
    labels: Any = None
    method: str = "gm-matching"
    params: Mapping[str, Any] = field(default_factory=dict)
    guard: str | None = None
    random_state: Any = 0
    ids: Any = None
    embedding: str | None = None
    encoder: Any = None
    text: str | None = None
    image: str | None = None
    memory: int | str | None = None
    on_bad_rows: str = "error"
    unlabelled: str = "error"
    images: Any = None
    train_config: Any = None
    device: str = "auto"
    engine: str | Engine = "local"
    address: str | None = None
    workers: int | None = None
    output: Path | None = None
    all_rows: bool = False
    suspects: Path | None = None
    report: Path | None = None
    projection: str = "pca"
    materialize: Path | None = None
    save_scores: Path | None = None
    state: Path | None = None
    resume: bool = False
    overwrite: bool = False
    command: str | None = None
    # Outputs behind an address, by the files that they are written to first.
    elsewhere: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Any, keep: float | int | str, options: Mapping[str, Any]) -> Plan:
        """Return a plan from arguments; those that are no field of a plan are parameters of the method."""
        names = {entry.name for entry in fields(cls)}
        asked = {name: value for name, value in options.items() if name in names}
        params = {name: value for name, value in options.items() if name not in names}
        if params.get("budgets") == "proportional":
            del params["budgets"]
        if isinstance(asked.get("guard"), OwnDefault):
            del asked["guard"]
        elsewhere: dict[Path, str] = {}
        for name in _PATHS:
            if asked.get(name) is not None:
                asked[name] = _output_path(asked[name], name, elsewhere)
        output = asked.get("output")
        if output is not None and asked.get("state") is None:
            state = f"{output.name}.state"
            asked["state"] = Path(state) if output in elsewhere else output.with_name(state)
        if asked.get("resume") and asked.get("state") is None:
            raise InvalidParameter("resume goes on from a saved state; name its file (state), or an output")
        asked["elsewhere"] = elsewhere
        return cls(source=source, keep=keep, params=params, **asked)

    @property
    def entry(self) -> Method:
        """The method."""
        return find_method(self.method)

    @property
    def cap(self) -> int | None:
        """Bytes that may be used."""
        return None if self.memory is None else as_size(self.memory)

    @property
    def trains_on_images(self) -> bool:
        """Whether the images are for a training run; otherwise they are there to be shown."""
        return self.images is not None and (self.entry.needs_training or self.report is None)

    def parameters(self) -> dict[str, Any]:
        """Return the method's parameters, all that is wrong whatever the data refused."""
        params = {"keep": check_keep(self.keep), "random_state": self.random_state, **self.params}
        if self.guard is not None and "guard" not in self.entry.fixed:
            params["guard"] = self.guard
        self.entry.build(**params)
        check_choice(self.on_bad_rows, ("error", "drop"), "on_bad_rows")
        check_engine(self.engine, self.entry)
        return params

    def check_outputs(self) -> None:
        """Refuse outputs that could not be written, before any work is done."""
        paths = [self.output, self.suspects, self.report, self.save_scores, self.materialize]
        named = [path for path in paths if path is not None]
        read = (self.source, self.labels, self.ids, self.images, self.train_config, self.params.get("scores"))
        check_apart(named, read)
        goes_on = self.resume and self.state is not None and is_there(self.state)
        for path in named:
            replaceable = (self.overwrite or goes_on) and path is not self.materialize
            if path in self.elsewhere:
                check_free(self.elsewhere[path], replaceable)
            else:
                check_new(path, replaceable)
        if self.output is not None:
            check_output(self.output, self.all_rows)
        if self.suspects is not None:
            check_output(self.suspects, kind="suspects")
        if self.save_scores is not None:
            _check_scores_file(self.save_scores, self.entry)
        if self.report is not None:
            from .report import check_projection, check_report

            check_report(self.report)
            check_projection(self.projection)

    def called(self, path: Path | None) -> str | None:
        """Return what an output is called."""
        return None if path is None else self.elsewhere.get(path, str(path))

    def send(self, path: Path) -> None:
        """Bring an output that is written to its place, if that is behind an address."""
        if path in self.elsewhere:
            send(path, self.elsewhere[path])


def _output_path(given: Any, name: str, elsewhere: dict[Path, str]) -> Path:
    """Return the file to write: where it is to be or, behind an address, one that is sent there."""
    address = as_address(given)
    if address is None or name == "state":
        return as_path(given, name)
    folder = Path(tempfile.mkdtemp(prefix="gmmatch-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / address.rstrip("/").rpartition("/")[2]
    elsewhere[path] = address
    return path


def _check_scores_file(path: Path, entry: Method) -> None:
    """Refuse to save scores that there will not be, or where they cannot be."""
    if not entry.needs_training:
        raise InvalidParameter(f"--save-scores is for methods with a training run; {entry.name} has none")
    if path.suffix != ".npy":
        raise InvalidParameter(f"--save-scores takes a file that ends in .npy; got {path}")
    check_folder(path)


def check_engine(engine: str | Engine, entry: Method) -> None:
    """Refuse an engine that there is not, or that cannot run a method."""
    if not hasattr(engine, "holds"):
        check_choice(engine, ENGINES, "engine")
    if engine != "local" and not entry.engine:
        able = [method.name for method in METHODS.values() if method.engine]
        raise InvalidParameter(
            f"method {entry.name!r} runs on one machine; other engines are for {', '.join(able)}"
        )


def check_labels(entry: Method, params: Mapping[str, Any], codes: IntArray | None, usable: Any) -> None:
    """Refuse labels that a method cannot do with, before its training run, if it has one, begins."""
    if codes is None:
        raise InvalidInput(f"method {entry.name!r} needs labels, one per row; got none")
    if not entry.needs_training:
        return
    sizes = np.bincount(codes[usable])
    sizes = sizes[sizes > 0]
    if len(sizes) < 2:
        raise InvalidInput(f"method {entry.name!r} needs labels of at least two classes; got one")
    if params.get("by_class", True):
        class_budgets(sizes, resolve_keep(params["keep"], int(sizes.sum())))


def check_memory(selector: Selector, checked: CheckedRows, cap: int) -> None:
    """Refuse a memory cap that the run cannot keep: picks never depend on it."""
    needed = memory_needed(selector, checked)
    if not fits(needed, cap):
        raise InvalidInput(
            f"memory is {cap / 1e6:,.0f} MB; expected at least {np.ceil(needed / 1e6):,.0f} MB, for the"
            " sample that rows are judged by, what is found of each row, and the rows of a class that is"
            " matched whole"
        )


def fits(needed: int, cap: int) -> bool:
    """Tell whether a run can keep a cap; what is as little as Python itself takes can always be had."""
    return needed <= max(cap, _LITTLE_BYTES)


def memory_needed(selector: Selector, checked: CheckedRows) -> int:
    """Return the bytes without which a run cannot do, beside Python and the libraries.

    The sample that rows are judged by, what is found of each row, heads of many classes, and twice the rows
    of a class that is matched whole. Set by what 50,000 to 2,000,000 rows of 10 to 1,000 classes took.
    """
    rows, codes = checked.rows, checked.codes
    width, itemsize = rows.shape[1], rows.dtype.itemsize
    by_class = codes is not None and selector.by_class
    sizes = np.bincount(codes[codes >= 0]) if by_class and codes is not None else np.array([len(rows)])
    judging = 0
    if selector.guard != "off":
        drawn = sample_size(width, len(sizes)) if by_class else SAMPLE_ROWS
        judging = min(len(rows), drawn) * width * itemsize + JUDGED_ROW_BYTES * len(rows)
        if len(sizes) > MANY_CLASSES:
            judging += 3 * heads_bytes(width, len(sizes), FOLDS)
    if not isinstance(selector, GMMatching) or is_whole(selector.batch_size):
        return judging
    whole = sizes if selector.batch_size is None else sizes[sizes <= WHOLE_ROWS]
    return max(judging, 2 * int(whole.max(initial=0)) * int(width * itemsize))
