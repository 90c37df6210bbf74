"""The whole way on one page: what was asked for, the run, its outcome, and what is written of it."""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .checkpoints import FileCheckpoint, recalled
from .compute.engine import open_engine
from .compute.passes import Engine, use_engine
from .data import Dataset
from .data.memory import trim_memory
from .errors import InvalidInput
from .estimating import Estimate, estimate
from .facts import Facts
from .files import as_path, check_apart
from .opening import embed, open_data
from .outputs import check_new, check_output, materialize_rows, write_labels, write_selection, write_suspects
from .planning import OwnDefault, Plan, check_memory
from .records import Selection
from .steps import (
    check_suspects,
    describe,
    find_suspects,
    judge_once,
    leave_out_bad_rows,
    notes_of,
    open_content_of,
    open_plan,
    scores_of_all_rows,
    train_if_needed,
)
from .trust import Suspects, Verdict
from .validation import CheckedRows, as_seed, as_size, check_input, check_probability, is_whole

_MANY_ROWS = 1 << 17  # whose evidence is some megabytes
__all__ = ["Outcome", "Plan", "embed", "estimate", "open_data", "plan", "run", "select", "suspects", "write"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a plan."""

    plan: Plan  # what was asked for
    selection: Selection  # the rows to keep
    verdict: Verdict | None  # what is believed of the rows; None where nobody asked
    # The rows as they were opened, and as they were checked.
    dataset: Dataset
    checked: CheckedRows
    suspects: Suspects | None = None  # the rows that seem wrong, where they were asked for
    content: Any = None  # what the rows look like, where a report is to show it
    checkpoint: FileCheckpoint | None = None  # the saved state of the run, to be removed when all is written

    @property
    def facts(self) -> Facts:
        """What the run did."""
        return self.selection.facts


def run(plan: Plan) -> Outcome:
    """Do what was asked for, and write nothing but the state of a long run.

    Examples
    --------
    >>> import numpy as np
    >>> outcome = run(Plan(source=np.eye(8), keep="25%"))
    >>> outcome.facts.kept, outcome.facts.rows
    (2, 8)
    """
    started = time.perf_counter()
    params = plan.parameters()
    seed = as_seed(plan.random_state) if is_whole(plan.random_state) else 0
    plan.check_outputs()
    data = open_plan(plan)
    checked = check_input(data.numbers(), data.labels, name=data.name, finite=False)
    data = replace(data, rows=checked.rows)
    if plan.suspects is not None:
        check_suspects(data, checked)
    rows, content = checked.rows, open_content_of(plan, data)
    if plan.cap is not None:
        check_memory(plan.entry.build(**params), checked, plan.cap)
    with open_engine(plan.engine, data, plan.address, plan.workers) as running, use_engine(running):
        checked = leave_out_bad_rows(checked, data, plan.on_bad_rows, seed)
        trained, training = train_if_needed(plan, params, checked)
        selector = plan.entry.build(**params, **trained)
        checkpoint = None
        if plan.state is not None:
            asked = plan.entry.build(**params).get_params(deep=False)
            recipe = {"bad_rows": len(rows) - checked.n_usable, "method": plan.method, **asked}
            checkpoint = FileCheckpoint(plan.state, checked.fingerprint, recipe, plan.resume)
        verdict, by_class = judge_once(plan, selector, checked, recalled(checkpoint))
        fitted = selector.fit(checked, verdict=verdict, checkpoint=checkpoint, memory=plan.cap)
        found = None
        if plan.suspects is not None:
            found = find_suspects(checked, verdict, by_class, plan.random_state)
    data.check_unchanged()
    selection = describe(fitted.selection_, plan, data, checked, verdict, by_class, training)
    notes = notes_of(data, checked, verdict, by_class)
    facts = replace(
        selection.facts,
        suspects=None if found is None else found.summary(),
        seconds=round(time.perf_counter() - started, 3),
        hint="\n".join(filter(None, [selection.facts.hint, *notes])) or None,
    )
    return Outcome(plan, replace(selection, facts=facts), verdict, data, checked, found, content, checkpoint)


def write(outcome: Outcome) -> Facts:
    """Write what was asked for: the selection first, the saved state removed last."""
    plan, selection, data = outcome.plan, outcome.selection, outcome.dataset
    if plan.output is not None:
        if selection.n_rows > _MANY_ROWS:
            trim_memory()  # what the run left behind makes room for what writing takes
        write_selection(selection, plan.output, data, plan.all_rows)
        plan.send(plan.output)
    try:
        if plan.suspects is not None and outcome.suspects is not None:
            write_suspects(outcome.suspects, plan.suspects, data)
            plan.send(plan.suspects)
        if plan.save_scores is not None:
            from .signals import save_scores

            save_scores(plan.save_scores, scores_of_all_rows(selection))
            plan.send(plan.save_scores)
        if plan.materialize is not None:
            materialize_rows(selection, data, plan.materialize)
            plan.send(plan.materialize)
        if plan.report is not None:
            write_report_of(outcome, plan.report)
            plan.send(plan.report)
    except InvalidInput as error:
        if plan.output is None:
            raise
        raise InvalidInput(f"{error}; the selection is in {plan.called(plan.output)}") from error
    if outcome.checkpoint is not None:
        outcome.checkpoint.discard()
    return outcome.facts


def write_report_of(outcome: Outcome, path: Path) -> None:
    """Write the page about an outcome."""
    from .report import summarise, write_report

    plan = outcome.plan
    page = summarise(
        outcome.selection,
        outcome.dataset,
        checked=outcome.checked,
        content=outcome.content,
        projection=plan.projection,
        command=plan.command,
    )
    write_report(page, path)


def select(
    X: Any,
    keep: float | int | str = 0.1,
    labels: Any = None,
    method: str = "gm-matching",
    guard: str | None = OwnDefault("auto"),
    budgets: Any = "proportional",
    random_state: Any = 0,
    *,
    ids: Any = None,
    encoder: Any = None,
    text: str | None = None,
    image: str | None = None,
    embedding: str | None = None,
    output: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    suspects: str | os.PathLike[str] | None = None,
    materialize: str | os.PathLike[str] | None = None,
    save_scores: str | os.PathLike[str] | None = None,
    all_rows: bool = False,
    projection: str = "pca",
    memory: int | str | None = None,
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    overwrite: bool = False,
    state: str | os.PathLike[str] | None = None,
    resume: bool = False,
    images: Any = None,
    train_config: Any = None,
    device: str = "auto",
    engine: str | Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    **method_params: Any,
) -> Selection:
    """Choose the rows of `X` worth keeping.

    Parameters
    ----------
    X
        Rows of numbers, or images or texts with an `encoder`: whatever `gmmatch.open` opens, or what it
        returned.
    keep
        Fraction in (0, 1], count of rows to keep, or text such as ``"10%"``.
    labels
        Class of each row, which may be wrong: an array, a file or a column; those of `X` by default. The
        budget is divided among the classes.
    ids
        Name of each row, in the same ways; its number by default.
    method
        A name from `gmmatch.methods()`.
    guard
        `auto` judges the rows and picks trusted ones first, `off` believes them all. Methods other than
        ``gm-matching`` are off unless `auto` is asked for.
    budgets
        How classes share the budget: `proportional` (to their sizes), `sqrt` (to the square roots of these),
        `equal`, or a mapping from every class to a weight, or to a count where these add up to `keep`. A
        class has no more picks than trusted rows, at least one, while others have trusted rows left.
    random_state
        Seed. The same input, parameters and seed give the same rows in the same order.
    encoder, text, image, embedding
        As for `gmmatch.open`.
    output, report, suspects, materialize, save_scores
        Files to write beside returning the selection: the selection itself, a page that shows it, the rows
        that seem wrong, a folder for the kept rows themselves, and what a training run said of all rows.
    all_rows, projection
        Whether `output` lists every row, and how the report's map is laid out (`pca`, `umap` or `auto`).
    memory
        Bytes that may be used, or text such as ``"2GB"``. Less takes longer and never changes the picks; too
        little is refused.
    on_bad_rows
        `error` refuses rows with NaN or infinite values or without a label; `drop` leaves them out and
        counts them.
    unlabelled
        `class` keeps rows without a label as a class of their own.
    overwrite
        Whether existing outputs may be replaced.
    state, resume
        File for the state of a long run, and whether to go on from it.
    images
        For methods that need a training run (`forgetting`, `el2n`, `grand`, `optimization`): uint8 images
        to train on, one per row. By default a softmax regression learns the rows themselves. With other
        methods, images to show in the report.
    train_config, device
        How to train: a `gmmatch.training.TrainConfig`, a dictionary of its settings, or a TOML or JSON
        file of them; and where. The seed of the run is `random_state`.
    engine
        `local` runs on this machine, `ray` on a Ray cluster (extra `ray`), with the same picks. For `ray`,
        `X` must be mapped from files that every node can read: a memory map, or a dataset of one. Or an
        engine for `X` that is open already, from `gmmatch.compute.ray.ray_engine`.
    address, workers
        With ``engine="ray"``: a running cluster to join (`auto`: the one this machine is part of; None: a
        new one on this machine), and how many worker processes to use (one per core by default).
    **method_params
        Further parameters of the method, such as `step` or `batch_size`.

    Returns
    -------
    Selection
        Row numbers to keep, in pick order, with scores and distances.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(1000, 16))
    >>> gmmatch.select(rows, keep="5%")
    Selection(50 of 1000 rows by gm-matching, objective ...)
    """
    asked = {name: value for name, value in locals().items() if name not in ("X", "keep", "method_params")}
    outcome = run(Plan.of(X, keep, asked | method_params))
    write(outcome)
    return outcome.selection


def plan(X: Any, keep: float | int | str = 0.1, **options: Any) -> Estimate:
    """Say what `select` would do with the same arguments, without doing it.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> found = gmmatch.plan(np.zeros((1000, 16)), keep="5%")
    >>> found.keep, found.rows, found.enough_memory
    (50, 1000, True)
    """
    return estimate(Plan.of(X, keep, options))


def suspects(
    X: Any,
    y: Any = None,
    random_state: Any = 0,
    *,
    ids: Any = None,
    encoder: Any = None,
    text: str | None = None,
    image: str | None = None,
    embedding: str | None = None,
    memory: int | str | None = None,
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    output: str | os.PathLike[str] | None = None,
    fix: str | os.PathLike[str] | None = None,
    above: float = 0.9,
    overwrite: bool = False,
) -> Suspects:
    """Gather for every row the evidence that its label, or the row itself, is wrong.

    Parameters
    ----------
    X
        Rows, or anything else that `gmmatch.open` opens.
    y
        Labels, one per row: an array, a file or a column. Those of `X` by default.
    random_state
        Seed of the folds and samples, which depend on the rows' values, not on their order.
    ids, encoder, text, image, embedding, memory, on_bad_rows, unlabelled
        As for `gmmatch.select`.
    output
        Where to write the evidence: .parquet, .csv or .jsonl.
    fix, above
        Where to write the labels with the suggestions of at least this probability in place, one per row, as
        a table (.parquet, .csv or .jsonl) that `y` takes; `Suspects.fix` tells what changes.
    overwrite
        Whether these may replace files.

    Returns
    -------
    Suspects
        Every row with its evidence, most suspicious first, a `summary` and `to_pandas`.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(["cat", "dog"], 200)
    >>> rows = rng.normal(size=(400, 8)) + 1.2 * (labels == "dog")[:, None]
    >>> labels[7] = "dog"
    >>> found = gmmatch.suspects(rows, labels)
    >>> int(found.rows[0]), str(found.reasons[0])
    (7, "The label 'dog' is unlikely, 'cat' is likelier (99%).")
    """
    path = None if output is None else as_path(output, "output")
    fixed = None if fix is None else as_path(fix, "fix")
    for place, kind in ((path, "suspects"), (fixed, "fixed labels")):
        if place is not None:
            check_new(place, overwrite)
            check_output(place, kind=kind)
    check_apart([place for place in (path, fixed) if place is not None], (X, y, ids))
    check_probability(above, "above")
    cap = None if memory is None else as_size(memory)
    columns: dict[str, Any] = {"text": text, "image": image, "embedding": embedding}
    data = open_data(
        X, y, ids, encoder, memory=cap, on_bad_rows=on_bad_rows, unlabelled=unlabelled, **columns
    )
    checked = check_input(data.numbers(), data.labels, name=data.name, label_name="y", finite=False)
    seed = as_seed(random_state)
    checked = leave_out_bad_rows(checked, data, on_bad_rows, seed)
    check_suspects(data, checked)
    found = replace(find_suspects(checked, None, True, seed), notes=notes_of(data, checked))
    data.check_unchanged()
    if path is not None:
        write_suspects(found, path, data)
    if fixed is not None:
        write_labels(found.fix(data.labels, above), fixed, data)
    return found
