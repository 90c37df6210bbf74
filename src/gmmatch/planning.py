"""What was asked for: a `Plan`, checked before anything is done."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from . import files
from .aims import Aims
from .checkpoints import outputs_of, state_files
from .compute.engine import ENGINES
from .compute.runner import Runner
from .data import Dataset, as_address, check_free
from .encoders import Encoder
from .encoders.registry import parameters
from .errors import InvalidParameter
from .inputs import open_data
from .matching.budgets import check_share
from .outputs import check_ending, check_output
from .records import Selection
from .selectors import Selector, find_method
from .selectors.registry import METHODS, Method
from .validation import (
    Beyond,
    CheckedRows,
    as_amount,
    as_seed,
    as_size,
    check_choice,
    check_keep,
    check_probability,
    is_whole,
    resolve_keep,
)

# What can be written, by the names of the parameters, in the order in which it is.
OUTPUTS = ("output", "suspects", "save_scores", "materialize", "report")
READING = ("text", "image", "on_bad_rows", "unlabelled", "header")
_LITTLE_BYTES = 64 << 20
# What labels cannot be yet, with the way out.
_OTHER_TASKS = {
    "regression": "amounts are not judged; cut them into classes first, for example pandas.qcut(y, 10)",
    "multilabel": "rows of several labels are not judged; select with one label per row, such as the rarest"
    " of each",
}


class OwnDefault(str):
    """A default of `gmmatch.select` that gives way to the method's own."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """All that was asked for; `gmmatch.select` describes each field."""

    source: object
    keep: float | int | str
    labels: object = None
    method: str = "gm-matching"
    params: Mapping[str, Any] = field(default_factory=dict)
    guard: str | None = None
    random_state: object = 0
    reference: object = None
    probabilities: object = None
    fix: float | None = None
    aims: Aims = field(default_factory=Aims)  # what is wanted of the picks
    task: str = "auto"
    ids: object = None
    groups: object = None
    embedding: str | None = None
    encoder: str | Encoder | None = None
    text: str | None = None
    image: str | None = None
    memory: int | str | None = None
    on_bad_rows: str = "error"
    unlabelled: str = "error"
    header: str = "auto"
    images: object = None
    train_config: object = None
    device: str = "auto"
    engine: str | Runner = "local"
    address: str | None = None
    workers: int | None = None
    output: Path | None = None
    all_rows: bool = False
    suspects: Path | None = None
    report: Path | None = None
    projection: str = "classes"
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
        names, wishes = ({entry.name for entry in fields(kind)} for kind in (cls, Aims))
        if is_whole(options.get("strata")):  # how many, a parameter of the method `stratified`
            wishes.remove("strata")
        asked = {name: value for name, value in options.items() if name in names}
        asked["aims"] = Aims(**{name: value for name, value in options.items() if name in wishes})
        params = {name: value for name, value in options.items() if name not in names | wishes}
        if isinstance(params.get("budgets"), str) and params["budgets"] == "proportional":
            del params["budgets"]
        if isinstance(asked.get("guard"), OwnDefault):
            del asked["guard"]
        elsewhere: dict[Path, str] = {}
        for name in (*OUTPUTS, "state"):
            given = asked.get(name)
            address = None if name == "state" else as_address(given)
            if address is not None:  # written to a file that is sent there
                folder = Path(tempfile.mkdtemp(prefix="gmmatch-"))
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
                asked[name] = folder / address.rstrip("/").rpartition("/")[2]
                elsewhere[asked[name]] = address
            elif given is not None:
                asked[name] = files.as_path(given, name)
        output = asked.get("output")
        if output is not None and asked.get("state") is None:
            state = f"{output.name}.state"
            asked["state"] = Path(state) if output in elsewhere else output.with_name(state)
        if asked.get("resume") and asked.get("state") is None:
            raise InvalidParameter("resume goes on from a saved state; name its file (state), or an output")
        asked["elsewhere"] = elsewhere
        keep = keep if asked["aims"].cost is None else as_amount(keep)
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
    def seed(self) -> int:
        """The seed of what is drawn beside the method's own draws; 0 where a generator was given."""
        return as_seed(self.random_state) if is_whole(self.random_state) else 0

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
        if self.fix is not None:
            check_probability(self.fix, "fix")
        check_choice(self.on_bad_rows, ("error", "drop"), "on_bad_rows")
        if check_choice(self.task, ("auto", "classification", *_OTHER_TASKS), "task") in _OTHER_TASKS:
            raise InvalidParameter(f"task={self.task!r}: {_OTHER_TASKS[self.task]}")
        self.aims.check()
        engine = self.engine
        name = engine.name if isinstance(engine, Runner) else check_choice(engine, ENGINES, "engine")
        if name != "local" and not self.entry.engine:
            able = ", ".join(method.name for method in METHODS.values() if method.engine)
            raise InvalidParameter(
                f"method {self.method!r} runs on one machine; other engines are for {able}"
            )
        return params

    def check_budget(self, data: Dataset) -> None:
        """Refuse a budget that leaves a class without a row, as far as the labels tell."""
        counted = self.aims.cost is None and self.aims.include is None and self.aims.by_class
        if data.labels is None or not counted or not self.entry.build(**self.parameters()).by_class:
            return
        good = np.setdiff1d(np.arange(len(data)), data.bad_rows)
        check_share(len(np.unique(data.labels[good])), resolve_keep(self.keep, len(good)))

    def check_all(self, data: Dataset) -> None:
        """Refuse, before anything is encoded, first what is wrong with the data, then outputs."""
        self.check_budget(data)
        self.check_outputs()

    @property
    def outputs(self) -> dict[str, Path]:
        """The files and folders to write, beside the state of the run, by the names of their parameters."""
        return {name: getattr(self, name) for name in OUTPUTS if getattr(self, name) is not None}

    def output_name(self, path: Path) -> str:
        """Return what the saved state calls an output: its place, seen from the state."""
        if path in self.elsewhere or self.state is None:
            return str(self.called(path))
        try:
            return os.path.relpath(os.path.realpath(path), os.path.realpath(self.state.parent))
        except ValueError:  # on another drive
            return os.path.realpath(path)

    @property
    def read(self) -> tuple[object, ...]:
        """All that was given to be read, files among it."""
        given = self.source, self.labels, self.ids, self.reference, self.probabilities
        return (*given, *self.aims.given(), self.images, self.train_config, self.params.get("scores"))

    def named_aims(self) -> dict[str, Any]:
        """Return what is wanted and known of the rows, as far as files and columns say it, by parameter."""
        given = {"reference": self.reference, "probabilities": self.probabilities, **vars(self.aims)}
        named: dict[str, Any] = {}
        for name, value in given.items():
            if isinstance(value, str | os.PathLike) and name != "duplicates":
                named[name] = os.fspath(value)
            elif isinstance(value, tuple) and isinstance(value[0], str):  # a column and its weight
                named[name] = value
            elif isinstance(value, Mapping) and {type(weight) for weight in value.values()} == {float}:
                named[name] = next(iter(value)) if [*value.values()] == [1.0] else dict(value)
        return named

    def check_read(self, inputs: Iterable[object]) -> None:
        """Refuse to write what is read."""
        states = [] if self.state is None else state_files(self.state)
        files.check_apart([*self.outputs.values(), *states], inputs)
        if self.materialize is not None:
            files.check_outside(self.materialize, self.source)

    def check_outputs(self) -> None:
        """Refuse outputs that could not be written, before any work is done."""
        if self.state is not None:
            beside = self.output is not None and self.output.parent == self.state.parent
            files.check_folder(self.output if self.output is not None and beside else self.state)
        self.check_read(self.read)
        known = outputs_of(self.state) if self.resume and self.state is not None else ()
        for name, path in self.outputs.items():
            replaceable = name != "materialize" and (self.overwrite or self.output_name(path) in known)
            if path in self.elsewhere:
                check_free(self.elsewhere[path], replaceable)
            else:
                files.check_new(path, replaceable)
        if self.output is not None:
            check_output(self.output, self.all_rows)
        if self.suspects is not None:
            check_output(self.suspects, kind="suspects")
        if self.save_scores is not None:
            if not self.entry.needs_training:
                raise InvalidParameter(
                    f"save_scores is for methods with a training run; {self.method} has none"
                )
            check_ending(self.save_scores, (".npy",), "save_scores takes a file that ends")
        if self.report is not None:
            from .reporting import check_report

            check_report(self.report, self.projection)

    def run_info(self, data: Dataset, picked: Selection) -> dict[str, Any]:
        """Return what the information of a run says of its plan: who runs it, outputs, what repeats it."""
        settings, keep = self.aims.settings(data.columns), check_keep(self.keep)
        if keep != picked.params.get("keep"):
            settings["keep"] = f"+{keep}" if isinstance(keep, Beyond) else keep
        if self.fix is not None:
            settings["fix"] = self.fix
        return {
            "engine": self.engine if isinstance(self.engine, str) else "ray",
            "output": self.called(self.output),
            "report": self.called(self.report),
            "materialized": self.called(self.materialize),
            "settings": settings or None,
        }

    def called(self, path: Path | None) -> str | None:
        """Return what an output is called."""
        return None if path is None else self.elsewhere.get(path, str(path))


def open_plan(plan: Plan, encode: bool | None = True) -> Dataset:
    """Open what a plan names; without `encode` (None), images and texts are left as they are."""
    names = ("encoder", "embedding", "groups", "engine", *READING)
    options = {name: getattr(plan, name) for name in names}
    if plan.device != "auto" and isinstance(plan.encoder, str):
        options |= {"device": plan.device} if "device" in parameters(plan.encoder) else {}
    given = plan.source, plan.labels, plan.ids
    return open_data(*given, encode=encode, memory=plan.cap, before_encoding=plan.check_all, **options)


def encodes(plan: Plan) -> bool:
    """Return True if what a plan names is images or texts that are encoded first."""
    named = (plan.encoder, plan.text, plan.image)
    return any(each is not None for each in named) or open_plan(plan, encode=None).rows is None


def fits(needed: int, cap: int) -> bool:
    """Return True if a run can keep a cap; what is as little as Python itself takes can always be had."""
    return needed <= max(cap, _LITTLE_BYTES)


def wants_verdict(plan: Plan, selector: Selector, checked: CheckedRows) -> bool:
    """Return True if anybody needs the rows to be judged."""
    if selector.judges or plan.suspects is not None or plan.fix is not None:
        return True
    if plan.report is None:
        return False
    from .reporting.inputs import worth_judging

    return worth_judging(len(checked.rows), checked.rows.shape[1], len(checked.judged()[1]))
