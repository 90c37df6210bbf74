"""One selection from beginning to end: what was asked for, the run, what is written, and what it would take.

`Plan` is what was asked for, checked before anything is done. `run` is the story of a plan; the functions
below it stand in the order in which it calls them. `write` writes the outcome. `estimate` says what a run
would take: it asks what would run.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
import timeit
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from . import files
from .aims import Aims, Cost, OpenAims, Resolved, open_aims
from .aims.duplicates import hashes_of
from .aims.include import Exclude, Include
from .aims.unlabelled import check_aims, join, share_rows
from .arrays import Labels
from .checkpoints import FileCheckpoint, outputs_of, state_files
from .compute.engine import ENGINES, open_runner
from .compute.runner import Runner, count_reads, gather, runner_of
from .data import (
    Dataset,
    ForwardRows,
    as_address,
    check_addresses_apart,
    check_free,
    machine_memory,
    send,
    temporary_room,
    values_of_rows,
)
from .data.columns import notes_on
from .encoders import Encoder, choose_encoder
from .encoders.registry import parameters
from .encoders.trial import try_encoder
from .errors import InvalidInput, InvalidParameter
from .facts import Evidence, RunInfo
from .inputs import gather_known, open_data
from .matching.budgets import check_share
from .outputs import (
    check_ending,
    check_output,
    materialize_rows,
    write_array,
    write_selection,
    write_suspects,
)
from .progress import ENCODED_IS_KEPT
from .records import Selection
from .selectors import Selector, find_method
from .selectors.base import evidence_of, look
from .selectors.groups import Wanted
from .selectors.registry import METHODS, Method
from .trust import Known, Suspects, Verdict, find_copies, judge, suspects_from
from .trust.judge import Recall, make_now
from .validation import (
    Beyond,
    CheckedRows,
    as_amount,
    as_seed,
    as_size,
    check_choice,
    check_input,
    check_keep,
    check_probability,
    describe_bad_rows,
    is_whole,
    resolve_keep,
)

if TYPE_CHECKING:
    from .reporting import Content, Report

__all__ = ["Estimate", "Outcome", "Plan", "estimate", "run", "write"]

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

_NAMED = 3  # bad rows that a note names
# Time beside reads and picks, by a few measured runs: to start, and for each row.
_START_SECONDS, _ROW_SECONDS = 1.0, 1e-6
_PRODUCTS = 20  # that measure how fast this machine multiplies


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
    random_state: Any = 0
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

    def __post_init__(self) -> None:
        # A generator, or None, gives one seed for all that is drawn.
        object.__setattr__(self, "random_state", as_seed(self.random_state))

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
    def engine_name(self) -> str:
        """What runs the reads, by name."""
        return self.engine.name if isinstance(self.engine, Runner) else self.engine

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
        if not isinstance(self.engine, Runner):
            check_choice(self.engine, ENGINES, "engine")
        if self.engine_name != "local" and not self.entry.engine:
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
        given = self.source, self.labels, self.ids, self.groups, self.reference, self.probabilities
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
        inputs = list(inputs)
        check_addresses_apart(self.elsewhere.values(), inputs)
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
            "engine": self.engine_name,
            "output": self.called(self.output),
            "report": self.called(self.report),
            "materialized": self.called(self.materialize),
            "settings": settings or None,
        }

    def called(self, path: Path | None) -> str | None:
        """Return what an output is called."""
        return None if path is None else self.elsewhere.get(path, str(path))


def open_plan(
    plan: Plan, encode: bool | None = True, check: Callable[[Dataset], None] | None = None
) -> Dataset:
    """Open what a plan names; without `encode` (None), images and texts are left as they are.

    `check`: what may refuse images or texts before they are encoded, in place of `Plan.check_all`.
    """
    names = ("encoder", "embedding", "groups", *READING)
    options = {name: getattr(plan, name) for name in names} | {"engine": plan.engine_name}
    options |= {"memory": plan.cap, "encode": encode, "before_encoding": check or plan.check_all}
    if plan.device != "auto" and isinstance(plan.encoder, str):
        options |= {"device": plan.device} if "device" in parameters(plan.encoder) else {}
    return open_data(plan.source, plan.labels, plan.ids, **options)


def encodes(plan: Plan) -> bool:
    """Return True if what a plan names is images or texts that are encoded first."""
    named = (plan.encoder, plan.text, plan.image)
    return any(each is not None for each in named) or open_plan(plan, encode=None).rows is None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a plan."""

    plan: Plan  # what was asked for
    selection: Selection  # the rows to keep
    # The rows as they were opened, and as they were checked.
    dataset: Dataset
    checked: CheckedRows
    find_suspects: Callable[[], Suspects]  # by the verdict of the run where there is one about classes
    content: Content | None = None  # what the rows look like, where a report is to show it
    checkpoint: FileCheckpoint | None = None  # the saved state of the run, to be removed when all is written

    @property
    def info(self) -> RunInfo:
        """What the run did."""
        return self.selection.info

    @property
    def read(self) -> list[str]:
        """Names of the files that were read, which nothing may be written to.

        A selection that this one goes on from may be replaced: what it picked is in this one.
        """
        include = self.plan.aims.include
        given = [own for own in self.plan.read if own is not include]
        return files.names_of((*self.dataset.files, *self.dataset.beside, *given))

    def check_apart(self, path: Path) -> None:
        """Refuse to write what was read."""
        files.check_apart([path], self.read)


def run(plan: Plan) -> Outcome:
    """Do what was asked for, and write nothing but the state of a long run.

    Examples
    --------
    >>> import numpy as np
    >>> outcome = run(Plan(source=np.eye(8), keep="25%"))
    >>> outcome.info.kept, outcome.info.rows
    (2, 8)
    """
    started, params = time.perf_counter(), plan.parameters()
    data = open_plan(plan)
    try:
        return run_unlabelled(plan, data) if len(data.unlabelled) else run_opened(plan, params, data, started)
    except KeyboardInterrupt as interrupt:
        if data.content is not None and not getattr(interrupt, "__notes__", ()):
            interrupt.add_note(ENCODED_IS_KEPT)
        raise


def run_opened(plan: Plan, params: dict[str, Any], data: Dataset, started: float) -> Outcome:
    """Do what was asked for with data that is open, and encoded.

    `params`: those of the method. `started`: when the run began.
    """
    data, checked = check_before_reading(plan, params, data)
    content, selector, seed = None, plan.entry.build(**params), plan.random_state
    if plan.report is not None:
        from .reporting import find_content

        shown = None if plan.trains_on_images else plan.images
        content = find_content(data, images=shown, image=plan.image)
    opening = open_runner(plan.engine, data, plan.address, plan.workers)
    with opening as runner, count_reads(runner.rows) as counter:
        checked = look_at_all(
            checked.read_by(runner.rows), data, plan.on_bad_rows, plan.random_state, selector
        )
        known, remarks = gather_known(data, checked, plan.reference, plan.probabilities, vars(plan))
        aims = open_aims(plan.aims, data, checked, seed, plan.encoder, plan.text)
        params["keep"] = aims.keep(plan.keep, checked)
        checkpoint = open_checkpoint(plan, params, checked, known, aims)
        training = train_if_needed(plan, params, checked)
        selector = plan.entry.build(**params)
        by_class = selector.judges_by_class
        recall = make_now if checkpoint is None else checkpoint.recall
        verdict = judge_once(plan, selector, checked, recall, known)
        used, believed, changed = fix_labels(checked, verdict, by_class, plan.fix)
        evidence = None if believed is None else evidence_of(believed, used, by_class)
        picked, met = pick_rows(plan, params, aims, used, believed, evidence, checkpoint)
        about_classes, given = verdict if by_class else None, data.labels

        @cache
        def list_suspects() -> Suspects:
            return find_suspects(data, checked, about_classes, seed, known, given)

        found = None if plan.suspects is None else list_suspects()
    checked = checked.read_by(data.rows)  # which outlive the runner
    data.check_unchanged()
    selection = picked
    if believed is not None and picked.evidence is None:  # where rows were judged for others than the method
        info = replace(picked.info, tiers=believed.summary()["tiers"])
        selection = replace(picked, tiers=believed.tiers, evidence=evidence, info=info)
    if plan.fix is not None:
        selection, data = under_fixed_labels(selection, data, checked, used)
        remarks = (*remarks, f"{changed:,} labels were changed to suggestions of at least {plan.fix:g}")
    selection = aims.include.joined(selection)
    notes = [picked.info.hint, *notes_of(data, checked, verdict, by_class, plan.keep), *remarks, *met.notes]
    info = replace(
        selection.info,
        reads=counter.reads,
        bad_rows=len(data) - checked.n_usable,
        training=training,
        fingerprint=checked.fingerprint,
        suspects=None if found is None else found.summary(),
        seconds=round(time.perf_counter() - started, 3),
        hint="\n".join(filter(None, notes)) or None,
        leaks=None if met.leaks is None else met.leaks.summary(),
        aims=met.info or None,
        **plan.run_info(data, picked),
    )
    selection = replace(selection, info=info, ids=None if data.ids is None else data.ids[picked.indices])
    outcome = Outcome(plan, selection, data, checked, list_suspects, content, checkpoint)
    # What the verbs of the selection go back to; the outcome's own has none, so that nothing holds itself.
    return replace(outcome, selection=replace(selection, made=outcome))


def check_before_reading(plan: Plan, params: dict[str, Any], data: Dataset) -> tuple[Dataset, CheckedRows]:
    """Refuse what can be refused before any row is read; return the data, and its rows and labels as checked.

    Scores that a file or a column holds take the place of its name in `params`.
    """
    if isinstance(scores := params.get("scores"), (str, os.PathLike)):
        params["scores"] = values_of_rows(data, scores, "scores")
    else:
        data.check_index(scores, "scores")
    checked = check_input(data.numbers(), data.labels, name=data.name, finite=False)
    if plan.suspects is not None:
        check_suspects(data, checked)
    if plan.fix is not None and checked.classes is None:
        raise InvalidInput(f"fix is about labels, and {data.name} has none; name them: labels=...")
    plan.check_outputs()
    plan.check_read((*data.files, *data.beside))
    if plan.cap is not None:
        needed = plan.entry.build(**params).costs(checked).least_bytes
        if not fits(needed, plan.cap):
            raise InvalidInput(
                f"memory is {plan.cap / 1e6:,.0f} MB; expected at least {np.ceil(needed / 1e6):,.0f} MB, for"
                " the sample that rows are judged by, what is found of each row, and the rows of a class that"
                " is matched whole"
            )
    return replace(data, rows=checked.rows), checked


def fits(needed: int, cap: int) -> bool:
    """Return True if a run can keep a cap; what is as little as Python itself takes can always be had."""
    return needed <= max(cap, _LITTLE_BYTES)


def look_at_all(
    checked: CheckedRows, data: Dataset, on_bad_rows: str, seed: int, selector: Selector | None = None
) -> CheckedRows:
    """Look at all rows in one read; return them with their hashes, the bad ones unusable, or refuse these.

    Parameters
    ----------
    checked
        Rows whose values were not looked at yet.
    data
        Where they come from, and which of them were found bad when it was opened.
    on_bad_rows
        `error` or `drop`.
    seed
        Seed of the hashes.
    selector
        What selects from them, and may want their means of the same read.
    """
    usable = np.ones(len(checked.rows), dtype=bool)
    usable[data.bad_rows] = False
    checked = replace(checked, usable=usable)
    checked, good = look(checked, seed, None if selector is None else selector.running_means(checked))
    if not good.all() and on_bad_rows == "error" and not data.drop:
        bad = describe_bad_rows(np.flatnonzero(~good))
        raise InvalidInput(f"{data.name} has {bad}; on_bad_rows='drop' leaves them out")
    usable = usable & good
    if not usable.any():
        raise InvalidInput(f"all {len(usable)} rows of {data.name} are bad; nothing is left to choose from")
    return replace(checked, usable=usable)


def open_checkpoint(
    plan: Plan, params: Mapping[str, object], checked: CheckedRows, known: Known, aims: OpenAims
) -> FileCheckpoint | None:
    """Return where the run saves its state, which belongs to these rows and all that was asked for."""
    if plan.state is None:
        return None
    asked = plan.entry.build(**params).get_params(deep=False)
    recipe = {"bad_rows": len(checked.rows) - checked.n_usable, "method": plan.method, **asked}
    recipe |= known.recipe() | aims.recipe() | ({} if plan.fix is None else {"fix": plan.fix})
    names = map(plan.output_name, plan.outputs.values())
    return FileCheckpoint(plan.state, checked.fingerprint, recipe, plan.resume, names)


def train_if_needed(plan: Plan, params: dict[str, Any], checked: CheckedRows) -> dict[str, Any] | None:
    """Make the training run that a method needs, put what it gives into `params`; return how it was made."""
    entry, images = plan.entry, plan.images if plan.trains_on_images else None
    has_signal = any(params.get(name) is not None for name in ("scores", "influence"))
    codes, usable = checked.codes, checked.usable
    if entry.needs_labels and not has_signal and codes is None:
        raise InvalidInput(f"method {entry.name!r} needs labels, one per row; got none")
    if has_signal or entry.train is None or codes is None:
        if images is not None or plan.train_config is not None:
            raise InvalidParameter(
                f"images and train_config are for a training run, and {plan.method} makes none here"
            )
        return None
    sizes = np.bincount(codes[usable])
    sizes = sizes[sizes > 0]
    if len(sizes) < 2:
        raise InvalidInput(f"method {entry.name!r} needs labels of at least two classes; got one")
    if params.get("by_class", True):  # before the training run begins
        check_share(len(sizes), resolve_keep(params["keep"], int(sizes.sum())))
    how: dict[str, Any] = {"config": plan.train_config, "device": plan.device}
    given, training = entry.train(checked.rows, codes, usable, images=images, seed=plan.random_state, **how)
    params |= given
    return training


def judge_once(
    plan: Plan, selector: Selector, checked: CheckedRows, recall: Recall, known: Known
) -> Verdict | None:
    """Judge the rows if anybody needs it.

    `recall`: what keeps finished parts for a run that goes on from here. `known`: what is known of labels.
    """
    if not wants_verdict(plan, selector, checked):
        return None

    def make() -> Verdict:
        return selector.judge(checked, plan.random_state, recall, known, plan.aims.by_class)

    with count_reads(checked.rows) as counter:
        verdict: Verdict = recall("verdict", make)
    # What a run before this one read.
    runner_of(checked.rows).count.passes += verdict.reads - counter.reads
    return verdict


def wants_verdict(plan: Plan, selector: Selector, checked: CheckedRows) -> bool:
    """Return True if anybody needs the rows to be judged."""
    if selector.judges or plan.suspects is not None or plan.fix is not None:
        return True
    if plan.report is None:
        return False
    from .reporting.inputs import worth_judging

    return worth_judging(len(checked.rows), checked.rows.shape[1], len(checked.judged()[1]))


def fix_labels(
    checked: CheckedRows, verdict: Verdict | None, by_class: bool, above: float | None
) -> tuple[CheckedRows, Verdict | None, int]:
    """Put suggested labels in place where they are at least so probable; such rows are believed.

    Returns the rows with their new classes, the verdict for these, and how many labels changed. A class is
    never left without a row. The distance of such a row to its new class is not measured.
    """
    codes, present = checked.judged()
    labels = None if verdict is None or not by_class else verdict.labels
    if above is None or verdict is None or codes is None or labels is None or checked.codes is None:
        return checked, verdict, 0
    chosen = (codes >= 0) & (labels.likely >= above) & (labels.likely > 1 - labels.wrong)
    left = np.bincount(codes[(codes >= 0) & ~chosen], minlength=len(present))
    chosen &= left[np.maximum(codes, 0)] > 0
    fixed = checked.codes.copy()
    fixed[chosen] = present[labels.suggested[chosen]]
    believed = replace(labels, wrong=np.where(chosen, 1 - labels.likely, labels.wrong).astype(np.float32))
    tiers = np.where(chosen, 0, verdict.tiers).astype(np.int8)
    far, clumped = verdict.far & ~chosen, verdict.clumped & ~chosen
    verdict = replace(verdict, labels=believed, tiers=tiers, far=far, clumped=clumped)
    return replace(checked, codes=fixed), verdict, int(chosen.sum())


def pick_rows(
    plan: Plan,
    params: Mapping[str, Any],
    aims: OpenAims,
    checked: CheckedRows,
    verdict: Verdict | None,
    evidence: Evidence | None,
    checkpoint: FileCheckpoint | None,
) -> tuple[Selection, Resolved]:
    """Pick rows for all that is wanted of them; return them, and how far that was met."""
    met = aims.resolve(checked, verdict, evidence, params, plan.random_state, plan.keep)
    if met.keep is not None:
        params = {**params, "keep": met.keep}
    budget = 0.0  # the most that the picks may cost, those that are in already among them
    if aims.cost is not None:
        shared = (met.without_quality or met.wanted).allowed
        budget = aims.cost.budget(plan.keep, checked.usable if shared is None else shared)
        if isinstance(check_keep(plan.keep), Beyond):
            budget += float(aims.cost.values[aims.include.rows].sum())

    def fit(wanted: Wanted, keep: object, state: FileCheckpoint | None = None) -> Selection:
        selector = plan.entry.build(**{**params, "keep": keep})
        how: dict[str, Any] = {"verdict": verdict, "checkpoint": state, "memory": plan.cap}
        return selector.fit(checked, wanted=wanted, **how).selection_

    def pick(wanted: Wanted, state: FileCheckpoint | None = None) -> Selection:
        if aims.cost is None or plan.keep == "auto":
            return fit(wanted, params["keep"] if aims.cost is None else plan.keep, state)
        allowed = checked.usable if wanted.allowed is None else wanted.allowed
        # One of each class.
        least = len(checked.judged(params.get("by_class", True))[1]) if wanted.parts is None else 1
        return aims.cost.pick(partial(fit, wanted), budget, allowed, len(wanted.first), least)

    picked = pick(met.wanted, checkpoint)
    info = dict(met.info)
    if aims.cost is not None:
        spent = float(aims.cost.values[picked.indices].sum())
        budget = spent if plan.keep == "auto" else budget
        info["cost"] = {"of": aims.cost.name, "budget": budget, "spent": spent}
    if met.without_quality is not None:
        info["quality"] = info["quality"] | compare_quality(picked, pick(met.without_quality), checked)
    return picked, replace(met, info=info, notes=(*aims.notes(picked, met.wanted), *met.notes))


def compare_quality(picked: Selection, others: Selection, checked: CheckedRows) -> dict[str, float]:
    """Return how far picks with and without quality are from the centres of all rows that compete."""
    classes = 1 if others.labels is None else len(np.unique(others.labels))
    if others.centers is None or len(others.centers) != classes:
        return {}
    found = {}
    for name, selection in (("objective", picked), ("without", others)):
        labels = np.zeros(len(selection)) if selection.labels is None else selection.labels
        present, codes = np.unique(labels, return_inverse=True)
        values = gather(checked.rows, selection.indices)
        means = [values[codes == code].mean(axis=0, dtype=np.float64) for code in range(len(present))]
        apart = [float(np.sqrt(np.square(m - c).sum())) for m, c in zip(means, others.centers, strict=False)]
        found[name] = float(np.average(apart, weights=np.bincount(codes)[: len(apart)]))
    return found


def check_suspects(data: Dataset, checked: CheckedRows) -> None:
    """Refuse to look for suspects where there are no labels."""
    if checked.classes is None:
        raise InvalidInput(f"suspects need labels, and {data.name} has none; name them: labels=...")


def find_suspects(
    data: Dataset,
    checked: CheckedRows,
    verdict: Verdict | None,
    seed: int,
    known: Known,
    given: Labels | None,
) -> Suspects:
    """Gather the evidence that rows, or their labels, are wrong; bad rows are left out.

    `verdict`: where a run has judged the rows by class already, it stands. `given`: the labels as they were
    given.
    """
    check_suspects(data, checked)
    assert checked.classes is not None
    codes, present = checked.judged()
    own = np.zeros(len(checked.rows), np.int64) if codes is None else codes
    keys = None if verdict is None else verdict.keys
    keys = hashes_of(checked, seed) if keys is None else keys
    if verdict is None:
        verdict = judge(checked.rows, own, len(present), seed, keys=keys, known=known)
    copies = find_copies(checked.rows, keys, own >= 0)
    found = suspects_from(verdict, checked.rows, own, checked.classes[present], copies)
    notes = (*notes_of(data, checked), *found.notes)
    return replace(found, notes=notes, given=given, ids=data.ids, data=data)


def under_fixed_labels(
    selection: Selection, data: Dataset, checked: CheckedRows, used: CheckedRows
) -> tuple[Selection, Dataset]:
    """Return the selection with the labels that were given beside those that were used; and such data."""
    if checked.classes is None or checked.codes is None or used.codes is None:
        return selection, data
    given = checked.classes[checked.codes[selection.indices]]
    return replace(selection, given_labels=given), replace(data, labels=checked.classes[used.codes])


def left_out(data: Dataset) -> list[str]:
    """Name the bad rows of a dataset, if it has any, in a line."""
    if not data.bad:
        return []
    names = np.arange(len(data)).astype(str) if data.ids is None else data.ids
    first = [f"{names[row]} ({data.bad[row]})" for row in sorted(data.bad)[:_NAMED]]
    more = f" and {len(data.bad) - _NAMED:,} more" if len(data.bad) > _NAMED else ""
    return [f"left out {'row ' if data.ids is None else ''}{', '.join(first)}{more}"]


def notes_of(
    data: Dataset,
    checked: CheckedRows,
    verdict: Verdict | None = None,
    by_class: bool = True,
    keep: object = None,
) -> tuple[str, ...]:
    """Return what the user should know of the input, and of labels that were not judged."""
    notes = [*data.notes, *(() if checked.classes is None else notes_on(checked.classes))]
    notes[len(data.notes) : len(data.notes)] = left_out(data)
    hashes = None if checked.hashes is None else checked.hashes[1]
    if hashes is not None and len(hashes) > 1 and bool((hashes == hashes[0]).all()):
        notes.append("all rows are alike, so that no row says more than another; look at how they were made")
    several = by_class and checked.classes is not None and len(checked.classes) > 1
    if several and verdict is not None and verdict.reason:
        notes.append(f"the labels were not judged: {verdict.reason}")
    if several and verdict is not None:
        notes += verdict.notes
    if is_whole(keep) and keep == 1 and len(data) > 1:
        notes.append("keep is 1, which is a count: one row was kept; 1.0 or 100% keeps all of them")
    return tuple(notes)


def run_unlabelled(plan: Plan, data: Dataset) -> Outcome:
    """Pick labelled rows by class, and rows without a label as clusters that complete them."""
    check_aims(plan.aims)
    if plan.entry.needs_labels:
        raise InvalidParameter(
            f"unlabelled='pick' is for methods that do without labels; {plan.method} does not"
        )
    counts = share_rows(plan.keep, data)
    known = replace(plan, labels=None, ids=None, groups=None, unlabelled="error")
    every = isinstance(check_keep(plan.keep), float) and check_keep(plan.keep) == 1
    first = run(replace(known, source=data.labelled(), keep=1.0 if every else int(counts[0])))
    out = np.ones(len(data), bool)
    out[np.concatenate([data.unlabelled, first.selection.indices])] = False
    if plan.aims.exclude is not None:
        out[Exclude.of(plan.aims.exclude, data, first.checked, Include()).rows] = True
    out[data.bad_rows] = False
    aims = replace(plan.aims, include=Include(first.selection.indices), exclude=out)
    source = replace(data, labels=None, unlabelled=np.empty(0, np.int64))
    params = {name: value for name, value in plan.params.items() if name != "budgets"}
    nothing: dict[str, Any] = dict.fromkeys((*OUTPUTS, "state", "reference", "probabilities", "fix"))
    keep = 1.0 if every else int(counts.sum())
    second = run(replace(known, source=source, keep=keep, aims=aims, params=params, resume=False, **nothing))
    given = data
    if plan.fix is not None and data.labels is not None and first.dataset.labels is not None:
        fixed, labelled = data.labels.copy(), np.setdiff1d(np.arange(len(data)), data.unlabelled)
        fixed[labelled] = first.dataset.labels[labelled]
        data = replace(data, labels=fixed)
    found = join(first.selection, second.selection, data)
    if plan.fix is not None and given.labels is not None:
        found = replace(found, given_labels=given.labels[found.indices])
    # Rows without a label took no part in the first run, and are not left out for all that.
    told = set(left_out(first.dataset)) - set(left_out(data))
    hints = [line for line in (found.info.hint or "").splitlines() if line not in told]
    met: dict[str, Any] = {"bad_rows": second.info.bad_rows, "hint": "\n".join(hints) or None}
    found = replace(found, info=replace(found.info, **met, **plan.run_info(data, found)))
    checked = check_input(given.numbers(), given.labels, name=given.name, finite=False)
    outcome = replace(first, plan=plan, selection=found, dataset=data, checked=checked)
    return replace(outcome, selection=replace(found, made=outcome))


def write(outcome: Outcome) -> RunInfo:
    """Write what was asked for: the selection first, the saved state removed last."""
    plan = outcome.plan
    for name, path in plan.outputs.items():
        try:
            _WRITERS[name](outcome, path)
            if path in plan.elsewhere:
                send(path, plan.elsewhere[path])
        except InvalidInput as error:
            if plan.output is None or name == "output":
                raise
            raise InvalidInput(f"{error}; the selection is in {plan.called(plan.output)}") from error
    if outcome.checkpoint is not None:
        outcome.checkpoint.discard()
    return outcome.info


def write_report_of(
    outcome: Outcome,
    path: Path,
    projection: str = "classes",
    overwrite: bool = True,
    *,
    images: Any = None,
    texts: Any = None,
    command: str | None = None,
) -> Report:
    """Write the page about an outcome; return what it shows."""
    from .reporting import check_report, find_content, summarise, write_report

    plan = outcome.plan
    outcome.check_apart(path)
    files.check_new(path, overwrite)
    check_report(path, projection)
    content = outcome.content
    if content is None or images is not None or texts is not None:
        content = find_content(outcome.dataset, images=images, texts=texts, image=plan.image)
    opened = {name: getattr(plan, name) for name in ("labels", "ids", "embedding", "encoder", *READING)}
    for name, usual in (("on_bad_rows", "error"), ("unlabelled", "error"), ("header", "auto")):
        opened[name] = None if opened[name] == usual else opened[name]
    opened = {"data": plan.source, **opened, **plan.named_aims()} if plan.groups is None else {}
    shown: dict[str, Any] = {"content": content, "projection": projection, "opened": opened}
    shown["command"] = command or plan.command
    page = summarise(outcome.selection, outcome.dataset, checked=outcome.checked, **shown)
    write_report(page, path)
    return page


def _write_scores(outcome: Outcome, path: Path) -> None:
    """Write the signal of a training run for every row: its score, or the length of its influence."""
    params = outcome.selection.params
    influence = params.get("influence")
    write_array(params["scores"] if influence is None else np.linalg.norm(influence, axis=1), path)


_WRITERS: dict[str, Callable[[Outcome, Path], object]] = {
    "output": lambda made, path: write_selection(made.selection, path, made.dataset, made.plan.all_rows),
    "suspects": lambda made, path: write_suspects(made.find_suspects(), path),
    "save_scores": _write_scores,
    "materialize": lambda made, path: materialize_rows(made.selection, made.dataset, path),
    "report": lambda made, path: write_report_of(made, path, made.plan.projection),
}
"""What writes each output, by the name of its parameter, in the order in which they are written."""


@dataclass(frozen=True)
class Estimate:
    """What a selection would take."""

    # What is there, and what was asked for; `features` is None for what has to be encoded first.
    rows: int
    features: int | None
    classes: int | None
    keep: int
    method: str
    encode: int = 0  # how many images or texts would be encoded first
    encode_seconds: float | None = None  # about how long that would take, a part of `seconds`
    batch_size: int | str | None = None  # rows of a batch, or `auto`; None: all rows of a class at once
    reads: int | None = None  # how often all rows would be read; see `RunInfo`
    # Memory that is needed, and whether the cap (a quarter of the machine by default) allows it; and what
    # Python, its libraries and the encoder take beside it, where the system says so.
    memory_bytes: int | None = None
    process_bytes: int = 0
    enough_memory: bool | None = None
    disk_bytes: int = 0  # room for the selection
    # Room in the temporary folder for rows that are decoded once, and whether it is there; if not, they are
    # decoded at every read.
    temporary_bytes: int = 0
    enough_temporary: bool = True
    seconds: float | None = None  # an estimate of the time, beside that of a training run if there is one
    trains: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))


def estimate(plan: Plan) -> Estimate:
    """Return what a plan would take; nothing is written, and of the rows at most 64 MB are read.

    The time comes from reading these and from one matrix product on this machine; of images and texts a few
    are encoded.
    """
    params = plan.parameters()
    items, encoding = 0, None
    data = open_plan(plan, encode=None)
    if data.rows is None or plan.encoder is not None:
        plan.check_budget(data)
        # Some are encoded, more where that is quick; nothing is fetched and nothing is kept.
        tried = try_encoder(choose_encoder(data, plan.encoder, plan.text, plan.image)[0], data)
        if tried is None:  # the encoder would have to be fetched first
            k = _rows_kept(plan, data, len(data))
            classes = None if data.labels is None else len(np.unique(data.labels))
            return Estimate(len(data), None, classes, k, plan.method, encode=len(data), disk_bytes=48 * k)
        items = round(len(data) * (1 - tried.known))
        encoding = items * tried.seconds
        # Rows of the right shape that take no memory.
        empty: Any = np.broadcast_to(np.zeros(1, np.float32), (len(data), tried.dimension))
        data = data.replace(rows=empty)
    checked = check_input(data.numbers(), data.labels, name=data.name, finite=False)
    rows, selector = checked.rows, plan.entry.build(**params)
    costs, reads = selector.costs(checked), expected_reads(plan, selector, checked)
    read_rate, work_rate = _rates(data)
    rest = _START_SECONDS + _ROW_SECONDS * len(rows)
    k = _rows_kept(plan, data, len(rows))
    seconds = 2 * reads * data.nbytes / read_rate + costs.work / work_rate + rest
    decoded = data.nbytes if isinstance(data.rows, ForwardRows) else 0
    return Estimate(
        rows=len(rows),
        features=rows.shape[1],
        classes=None if checked.classes is None else len(checked.classes),
        keep=k,
        method=plan.method,
        encode=items,
        encode_seconds=None if encoding is None else round(encoding, 3),
        batch_size=costs.batch_size,
        reads=reads,
        memory_bytes=costs.most_bytes,
        process_bytes=_process_bytes(),
        enough_memory=fits(costs.most_bytes, machine_memory() // 4 if plan.cap is None else plan.cap),
        disk_bytes=48 * k + 4 * items * rows.shape[1],
        temporary_bytes=decoded,
        enough_temporary=decoded <= temporary_room(),
        trains=plan.entry.needs_training,
        seconds=round(seconds + (encoding or 0.0), 3),
    )


def _process_bytes() -> int:
    """Return the most memory that this process ever took; 0 where the system does not say."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(errors="replace"))
        return 0 if found is None else 1024 * int(found[1])
    return 0


def _rows_kept(plan: Plan, data: Dataset, n_rows: int) -> int:
    """Return how many rows would be kept; where rows have a cost, about how many it pays for."""
    if plan.aims.cost is None:
        return resolve_keep(plan.keep, n_rows)
    cost, every = Cost.of(plan.aims.cost, data), np.ones(n_rows, bool)
    return min(n_rows, max(1, round(cost.budget(plan.keep, every) / float(cost.values.mean()))))


def expected_reads(plan: Plan, selector: Selector, checked: CheckedRows) -> int:
    """Return how often a run reads all rows, from what is known before any is read; see `Selector`."""
    trains = plan.entry.needs_training and not plan.trains_on_images
    judged_for_others = wants_verdict(plan, selector, checked) and not selector.judges
    several = checked.classes is not None and len(checked.classes) > 1
    # Duplicates, and the nearest other class.
    suspects = 0 if plan.suspects is None else 1 + several
    # Near-duplicates, and rows like a reference.
    wishes = plan.aims
    aims = (wishes.holdout is not None) + (wishes.duplicates == "drop") + (wishes.match_to is not None)
    return selector.expected_reads(checked) + trains + judged_for_others + suspects + aims


def _rates(source: Dataset) -> tuple[float, float]:
    """Return bytes read per second and multiply-adds per second on this machine."""
    rows = source.rows
    started = time.perf_counter()
    part = np.asarray(rows[: max(1, (64 << 20) // (source.shape[1] * rows.dtype.itemsize))])
    part.sum()
    read_rate = part.nbytes / max(time.perf_counter() - started, 1e-6)
    block = np.ones((512, 512), part.dtype)
    threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    # One thread, and the quickest of many: threads that wait for each other beside other work would make a
    # product look twenty times as slow as the run will be.
    with threadpool_limits(1):
        took = min(timeit.repeat(lambda: np.dot(block, block.T), number=1, repeat=_PRODUCTS))
    return read_rate, threads * 512.0**3 / max(took, 1e-6)
