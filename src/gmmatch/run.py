"""One selection from beginning to end: the run, and what is written.

`run` is the story of a `Plan`; the functions below it stand in the order in which it calls them. `write`
writes the outcome.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import files
from .aims import OpenAims, Resolved, open_aims
from .aims.duplicates import hashes_of
from .aims.include import Include, excluded_rows
from .aims.unlabelled import check_aims, join, share_rows
from .arrays import Labels
from .checkpoints import FileCheckpoint, recalled
from .compute.engine import open_runner
from .compute.runner import count_reads, gather, runner_of
from .data import (
    Dataset,
    send,
    values_of_rows,
)
from .data.columns import notes_on
from .errors import InvalidInput, InvalidParameter
from .estimating import Estimate, estimate
from .facts import RunInfo
from .inputs import gather_known
from .matching.budgets import class_budgets
from .outputs import (
    materialize_rows,
    write_array,
    write_selection,
    write_suspects,
)
from .planning import OUTPUTS, READING, Plan, fits, open_plan, wants_verdict
from .progress import ENCODED_IS_KEPT
from .records import Selection
from .selectors import Selector
from .selectors.base import evidence_of, look
from .selectors.groups import Wanted
from .trust import Known, Suspects, Verdict, find_copies, judge, suspects_from
from .trust.judge import Recall
from .validation import (
    Beyond,
    CheckedRows,
    as_seed,
    check_input,
    check_keep,
    describe_bad_rows,
    is_whole,
    resolve_keep,
)

if TYPE_CHECKING:
    from .reporting import Content, Report

__all__ = ["Estimate", "Outcome", "Plan", "estimate", "run", "write"]

_NAMED = 3  # bad rows that a note names


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
        return files.names_of((*self.dataset.files, *given))

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
    content, selector = open_content_of(plan, data), plan.entry.build(**params)
    opening = open_runner(plan.engine, data, plan.address, plan.workers)
    with opening as runner, count_reads(runner.rows) as counter:
        checked = look_at_all(checked.read_by(runner.rows), data, plan.on_bad_rows, plan.seed, selector)
        known, remarks = gather_known(data, checked, plan.reference, plan.probabilities, vars(plan))
        aims = open_aims(plan.aims, data, checked, plan.seed, plan.encoder, plan.text)
        params["keep"] = aims.keep(plan.keep, checked)
        checkpoint = open_checkpoint(plan, params, checked, known, aims)
        training = train_if_needed(plan, params, checked)
        selector = plan.entry.build(**params)
        by_class = selector.judges_by_class
        verdict = judge_once(plan, selector, checked, recalled(checkpoint), known)
        used, believed, changed = fix_labels(checked, verdict, by_class, plan.fix)
        picked, met = pick_rows(plan, params, aims, used, believed, by_class, checkpoint)
        about_classes, given = verdict if by_class else None, data.labels

        @cache
        def list_suspects() -> Suspects:
            return find_suspects(data, checked, about_classes, plan.random_state, known, given)

        found = None if plan.suspects is None else list_suspects()
    checked = checked.read_by(data.rows)  # which outlive the runner
    data.check_unchanged()
    selection = picked
    if verdict is not None and picked.evidence is None:  # where rows were judged for others than the method
        info = replace(picked.info, tiers=verdict.summary()["tiers"])
        evidence = evidence_of(verdict, checked, by_class)
        selection = replace(picked, tiers=verdict.tiers, evidence=evidence, info=info)
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
    plan.check_read(data.files)
    if plan.cap is not None:
        needed = plan.entry.build(**params).costs(checked).least_bytes
        if not fits(needed, plan.cap):
            raise InvalidInput(
                f"memory is {plan.cap / 1e6:,.0f} MB; expected at least {np.ceil(needed / 1e6):,.0f} MB, for"
                " the sample that rows are judged by, what is found of each row, and the rows of a class that"
                " is matched whole"
            )
    return replace(data, rows=checked.rows), checked


def open_content_of(plan: Plan, data: Dataset) -> Content | None:
    """Open what the rows look like, if a report is to show it."""
    if plan.report is None:
        return None
    from .reporting import find_content

    shown = None if plan.trains_on_images else plan.images
    return find_content(data, images=shown, image=plan.image)


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
        class_budgets(sizes, resolve_keep(params["keep"], int(sizes.sum())))
    how: dict[str, Any] = {"config": plan.train_config, "device": plan.device}
    seed = as_seed(params["random_state"])
    given, training = entry.train(checked.rows, codes, usable, images=images, seed=seed, **how)
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
    seed, share = as_seed(selector.random_state), plan.aims.by_class

    def make() -> Verdict:
        # With the guard a generator is asked once more: its second number decides.
        own = seed if selector.guard == "off" else as_seed(selector.random_state)
        return selector.judge(checked, own, recall, known, share)

    with count_reads(checked.rows) as counter:
        verdict: Verdict = recall("verdict", make)
    # What a run before this one read.
    runner_of(checked.rows).count.passes += verdict.reads - counter.reads
    return verdict


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
    by_class: bool,
    checkpoint: FileCheckpoint | None,
) -> tuple[Selection, Resolved]:
    """Pick rows for all that is wanted of them; return them, and how far that was met."""
    evidence = None if verdict is None else evidence_of(verdict, checked, by_class)
    met = aims.resolve(checked, verdict, evidence, params, plan.seed, plan.keep)
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
    random_state: object,
    known: Known,
    given: Labels | None,
    remarks: Iterable[str] = (),
) -> Suspects:
    """Gather the evidence that rows, or their labels, are wrong; bad rows are left out.

    `verdict`: where a run has judged the rows by class already, it stands. `given`: the labels as they were
    given. `remarks`: what else the user should know.
    """
    check_suspects(data, checked)
    assert checked.classes is not None
    codes, present = checked.judged()
    own = np.zeros(len(checked.rows), np.int64) if codes is None else codes
    seed = as_seed(random_state)
    keys = None if verdict is None else verdict.keys
    keys = hashes_of(checked, seed) if keys is None else keys
    if verdict is None:
        verdict = judge(checked.rows, own, len(present), seed, keys=keys, known=known)
    copies = find_copies(checked.rows, keys, own >= 0)
    found = suspects_from(verdict, checked.rows, own, checked.classes[present], copies)
    notes = (*notes_of(data, checked), *found.notes, *remarks)
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
        out[excluded_rows(plan.aims.exclude, data, first.checked, np.empty(0, np.int64))] = True
    out[data.bad_rows] = False
    nothing: dict[str, Any] = dict.fromkeys((*OUTPUTS, "state"))
    second = run(
        replace(
            known,
            source=replace(data, labels=None, unlabelled=np.empty(0, np.int64)),
            keep=1.0 if every else int(counts.sum()),
            aims=replace(
                plan.aims,
                include=Include(first.selection.indices),
                exclude=out,
            ),
            params={name: value for name, value in plan.params.items() if name != "budgets"},
            reference=None,
            probabilities=None,
            fix=None,
            resume=False,
            **nothing,
        )
    )
    found = join(first.selection, second.selection, data)
    # Rows without a label took no part in the first run, and are not left out for all that.
    told = set(left_out(first.dataset)) - set(left_out(data))
    hints = [line for line in (found.info.hint or "").splitlines() if line not in told]
    met: dict[str, Any] = {"bad_rows": second.info.bad_rows, "hint": "\n".join(hints) or None}
    found = replace(found, info=replace(found.info, **met, **plan.run_info(data, found)))
    checked = check_input(data.numbers(), data.labels, name=data.name, finite=False)
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
