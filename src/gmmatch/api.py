"""The functions that users call; each says what it takes, and hands it to the run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import files, run
from .aims import Holdout, Leaks
from .compute.engine import Ray, open_runner
from .compute.runner import Runner
from .data import Dataset
from .encoders.embed import embed as embed
from .errors import InvalidInput, UnknownParameter
from .former import called_like, takes_former, warn_former
from .handover import check_order
from .inputs import gather_known, open_data
from .outputs import check_output, materialize_rows, write_labels, write_suspects, write_table
from .records import Selection
from .run import Estimate, Outcome, OwnDefault, Plan, estimate
from .trust import Suspects
from .validation import as_seed, check_input, check_probability

if TYPE_CHECKING:
    from .reporting import Report

_SELECT = "gmmatch.select(data, labels, keep=0.1)"
_OPEN = "gmmatch.open(data, labels)"
_SUSPECTS = "gmmatch.suspects(data, labels)"
_POSITIONS = ("keep", "labels", "method", "guard", "budgets", "random_state")

# Parameters of `select` in version 0.2, and what to do in their place.
_OPENING = ("ids", "encoder", "text", "image", "embedding", "on_bad_rows", "unlabelled", "header")
_VERBS = {
    "output": "sel.save(path)", "report": "sel.report(path)", "suspects": "sel.suspects().save(path)",
    "materialize": "sel.materialize(folder)", "all_rows": "sel.mask(), or gmmatch select --all-rows",
    "projection": "sel.report(path, projection=...)", "overwrite": "the verbs of the selection",
    "resume": "state=path, which resumes", "address": "engine=gmmatch.Ray(address=...)",
    "workers": "engine=gmmatch.Ray(workers=...)",
}  # fmt: skip


def _note_former(options: Mapping[str, object], name: str) -> None:
    """Warn of parameters of version 0.2 that have another place now."""
    for word in options:
        if word in _OPENING:
            warn_former(f"{name}({word}=...) belongs to gmmatch.open(data, labels, {word}=...)", 4)
        elif word in _VERBS:
            warn_former(f"{name}({word}=...): use {_VERBS[word]}", 4)


@takes_former(_OPEN, ("labels", "ids", "encoder"), {"x": "data"})
def open(  # noqa: A001 - the name that users know
    data: object,
    labels: object = None,
    *,
    ids: object = None,
    groups: object = None,
    encoder: object = None,
    text: str | None = None,
    image: str | None = None,
    embedding: str | None = None,
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    header: str = "auto",
    **options: Any,
) -> Dataset:
    """Open whatever holds rows, images or texts; with an encoder, images and texts become rows.

    Parameters
    ----------
    data
        A path, a glob or an address: `.npy`, `.npz`, Parquet, Arrow or safetensors files, one or many;
        `.csv`, `.tsv` or `.jsonl` of numbers or of texts; lines of text; a folder of images, with a folder
        per class; IDX; CIFAR batches; a folder saved by Hugging Face `datasets`. Or an object: an array, a
        torch tensor or dataset, a Hugging Face dataset, a pandas, polars or Arrow table, a list of images,
        paths or texts, a dictionary of columns, a list of records, or what is read like an array, by slices
        and ascending row numbers. Or a dataset that is open already.
    labels, ids
        A column of `data`, a file with one value per row, or the values themselves. Where a file has a
        column of ids, labels belong to rows by id. By default those that come with `data`; the index of a
        DataFrame, where it names the rows, becomes the ids.
    groups
        In the same ways, what rows belong together (patient, user, video): every classifier has the rows of
        one group in one fold.
    encoder
        What turns images or texts into rows, as for `gmmatch.embed`. Without it, and without the name of a
        column of texts or images, they are encoded when rows are needed, by the default encoder.
    text, image, embedding
        Column, array or tensor that holds the texts, the images or the embeddings; not needed where there
        is only one candidate.
    on_bad_rows
        Rows without numbers or without a label: `error` refuses them and names them, `drop` leaves them
        out and lists them in `bad`; row numbers stay those of the input.
    unlabelled
        `class` keeps rows without a label as a class of their own. `pick`: they have their share of the
        picks, as clusters, and the selection says which are to be labelled (`to_label`).
    header
        Whether the first line of a `.csv` or `.tsv` names the columns: `yes`, `no`, or `auto`.
    **options
        Of the encoder: `batch_size`, `cache_dir`, `size` and so on; and `split`, `memory`, `mapped`, see
        `gmmatch.data.open_dataset`.

    Returns
    -------
    Dataset
        What `gmmatch.select`, `gmmatch.suspects` and `gmmatch.report` take.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> gmmatch.open(np.eye(5), labels=[0, 0, 1, 1, 1]).shape
    (5, 5)
    >>> pictures = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
    >>> gmmatch.open(pictures).rows is None, gmmatch.open(pictures, encoder="pixels").shape
    (True, (6, 64))
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "options")}
    return open_data(data, **given, **options)


@takes_former(_SELECT, _POSITIONS)
def select(
    data: object,
    labels: object = None,
    *,
    keep: float | int | str = 0.1,
    method: str = "gm-matching",
    guard: str | None = OwnDefault("auto"),
    budgets: object = "proportional",
    task: str = "auto",
    reference: object = None,
    probabilities: object = None,
    fix: float | None = None,
    match_to: object = None,
    include: object = None,
    exclude: object = None,
    holdout: object = None,
    duplicates: str = "allow",
    cost: object = None,
    strata: object = None,
    quality: object = None,
    random_state: object = 0,
    memory: int | str | None = None,
    engine: str | Ray | Runner = "local",
    state: str | os.PathLike[str] | None = None,
    **method_params: object,
) -> Selection:
    """Choose the rows of `data` worth keeping.

    Parameters
    ----------
    data
        Rows of numbers, or what `gmmatch.open` returned or opens by itself.
    labels
        Class of each row, which may be wrong: an array, a file or a column; those of `data` by default. The
        budget is divided among the classes.
    keep
        Fraction in (0, 1] of the rows that may be picked, count of rows to keep, or text such as ``"10%"``,
        ``"2M"`` or ``"+5000"`` (beyond `include`). With `cost`, in its unit.
    method
        A name from `gmmatch.methods()`.
    guard
        `auto` judges the rows and picks trusted ones first, `off` believes them all. Methods other than
        ``gm-matching`` are off unless `auto` is asked for.
    budgets
        How classes share the budget: `proportional` (to their sizes), `sqrt` (to the square roots of these),
        `equal`, or a mapping from every class to a weight, or to a count where these add up to `keep`. Where
        the trusted rows of a class do not suffice, its least doubtful others follow, up to its share.
    task
        What labels are: `classification`, or `auto`, which is the same and notes labels that look like
        amounts. Amounts (`regression`) and several labels per row (`multilabel`) are refused with what to
        do in their place.
    reference
        Rows whose labels are known to be right: `(X, y)`, a dataset, or a path with labels. They teach who is
        right; how much the other rows count beside them is chosen by how well the reference is predicted.
    probabilities
        Class probabilities by a model of your own that did not learn from these labels (out of fold): rows x
        classes in the order of the sorted classes, or a table, mapping or file with a column per class.
    fix
        Keep rows under the label that is suggested for them where that is at least so probable, from 0 to 1;
        None keeps every row under its given label. The selection has both.
    match_to
        Rows that say what the picks should be like, labels not needed: a dataset, a path or an array, or a
        mapping from paths to shares. The picks match them, from the believed rows that resemble them.
    include, exclude
        Rows that are in already, or out: an earlier selection or its file, ids, row numbers or a mask.
        What is in comes first and counts in all budgets.
    holdout
        Foreign rows, such as a test set: rows that are near-duplicates of one are not picked.
    duplicates
        `drop`: of each group of near-duplicates only the most believed row may be picked. `allow`: all.
    cost
        What each row costs: a column, an array, or ``"tokens"``. `keep` is in its unit, and not exceeded.
    strata
        Columns that share the budget beside the class: names of columns, an array, or a mapping of arrays.
    quality
        How good each row is, a column or an array; `(quality, weight)` with a weight between 0 and 1, one
        half by default: so much of each class, the worse rows, does not compete.
    random_state
        Seed. The same input, parameters and seed give the same rows in the same order.
    memory
        Bytes that may be used, or text such as ``"2GB"``. Less takes longer and never changes the picks; too
        little is refused.
    engine
        `local` runs on threads of this machine, `processes` on processes of it, `ray` on a Ray cluster
        (extra `cluster`), with the same picks. For `ray`,
        `data` must be mapped from files that every node can read. Or `gmmatch.Ray(address=, workers=)`, or
        an engine that is open already, from `gmmatch.compute.ray.ray_engine`.
    state
        File for the state of a long run: it is saved there, and a run whose state is there goes on from it.
    **method_params
        Further parameters of the method, such as `step` or `batch_size`. For methods that need a training
        run (`forgetting`, `el2n`, `grand`, `optimization`): `images` (uint8, one per row; by default a
        softmax regression learns the rows themselves), `train_config` (a `gmmatch.lab.training.TrainConfig`,
        a dictionary of its settings, or a TOML or JSON file of them) and `device`.

    Returns
    -------
    Selection
        Row numbers to keep, in pick order, with scores, distances and weights. Its verbs write what else is
        wanted: `save`, `report`, `materialize`, `suspects`.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(1000, 16))
    >>> gmmatch.select(rows, keep="5%")
    Selection(50 of 1000 rows by gm-matching, objective ...)
    """
    asked = dict(locals())
    asked |= asked.pop("method_params")
    _note_former(method_params, "select")
    outcome = run.run(plan_of(asked.pop("data"), asked.pop("keep"), asked))
    run.write(outcome)
    return outcome.selection


def plan_of(data: object, keep: float | int | str, options: Mapping[str, Any]) -> Plan:
    """Return the plan of a call in Python: a state that is there is gone on from."""
    asked = {"resume": options.get("state") is not None, **options}
    if isinstance(engine := asked.get("engine"), Ray):
        asked |= {"engine": "ray", "address": engine.address, "workers": engine.workers}
    return Plan.of(data, keep, asked)


@takes_former(_SELECT.replace("select", "plan"), _POSITIONS)
@called_like(select)
def plan(
    data: object, labels: object = None, *, keep: float | int | str = 0.1, **options: object
) -> Estimate:
    """Return what `select` would take with the same arguments, without doing it.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> found = gmmatch.plan(np.zeros((1000, 16)), keep="5%")
    >>> found.keep, found.rows, found.enough_memory
    (50, 1000, True)
    """
    _note_former(options, "plan")
    return estimate(plan_of(data, keep, {"labels": labels} | options))


@takes_former(_SUSPECTS, ("labels", "random_state"))
def suspects(
    data: object,
    labels: object = None,
    *,
    reference: object = None,
    probabilities: object = None,
    random_state: object = 0,
    memory: int | str | None = None,
    engine: str | Ray | Runner = "local",
    **former: Any,
) -> Suspects:
    """Gather for every row the evidence that its label, or the row itself, is wrong.

    Parameters
    ----------
    data
        Rows, or anything else that `gmmatch.open` opens or returned.
    labels
        Labels, one per row: an array, a file or a column. Those of `data` by default.
    reference, probabilities, memory, engine
        As for `gmmatch.select`.
    random_state
        Seed of the folds and samples, which depend on the rows' values, not on their order.
    **former
        Parameters of version 0.2 that belong to `gmmatch.open` or to the result now; they go with 0.4.

    Returns
    -------
    Suspects
        Every row with its evidence, most suspicious first, with `summary`, `head`, `to_pandas`, `fix` and
        `save`.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(["cat", "dog"], 200)
    >>> rows = rng.normal(size=(400, 8)) + 2.0 * (labels == "dog")[:, None]
    >>> labels[7] = "dog"
    >>> found = gmmatch.suspects(rows, labels)
    >>> int(found.rows[0]), str(found.reasons[0])
    (7, "The label 'dog' is unlikely, 'cat' is likelier (100%); it is far outside 'dog'.")
    """
    unknown = set(former) - {*_OPENING, "output", "fix", "above", "overwrite"}
    if unknown:
        raise UnknownParameter(f"suspects has no {min(unknown)}: {_SUSPECTS}")
    _note_former(former, "suspects")
    asked: dict[str, Any] = {"reference": reference, "probabilities": probabilities}
    asked |= {"memory": memory, "engine": engine}
    return list_suspects(data, labels, random_state, **asked, **former)


def list_suspects(
    data: object,
    labels: object = None,
    random_state: object = 0,
    *,
    output: str | os.PathLike[str] | None = None,
    fix: str | os.PathLike[str] | None = None,
    above: float = 0.9,
    **options: Any,
) -> Suspects:
    """Find suspects, and write what is asked for.

    `output`: where to write the evidence. `fix`, `above`: where to write the labels with the suggestions of
    at least this probability in place. `options`: fields of a `Plan`: how the rows are opened and read, what
    is known of them, and whether files may be replaced.
    """
    plan = plan_of(data, 1.0, {"labels": labels, "random_state": random_state, **options})
    given = {"suspects": (output, "output"), "fixed labels": (fix, "fix")}
    places = {kind: files.as_path(*path) for kind, path in given.items() if path[0] is not None}
    outputs = [*places.values()]
    files.check_apart(outputs, plan.read)
    check_probability(above, "above")

    def check_places(found: Dataset) -> None:
        files.check_apart(outputs, (*found.files, *found.beside))
        for kind, place in places.items():
            files.remove_partials(place)  # what a killed run left
            files.check_new(place, plan.overwrite)
            check_output(place, kind=kind)

    opened = run.open_plan(plan, check=check_places)
    check_places(opened)
    opened = opened.labelled()
    checked = check_input(opened.numbers(), opened.labels, name=opened.name, finite=False)
    with open_runner(plan.engine, replace(opened, rows=checked.rows), plan.address, plan.workers) as runner:
        checked = run.look_at_all(checked.read_by(runner.rows), opened, plan.on_bad_rows, plan.random_state)
        known, remarks = gather_known(opened, checked, plan.reference, plan.probabilities, vars(plan))
        found = run.find_suspects(opened, checked, None, plan.random_state, known, opened.labels)
    opened.check_unchanged()
    with files.whole_files(*outputs) if outputs else nullcontext(()) as partials:
        for kind, partial in zip(places, partials, strict=True):
            if kind == "suspects":
                write_suspects(found, partial)
            else:
                write_labels(found.fix(above=above), partial, opened)
    names = tuple(files.names_of((*plan.read, *opened.files, *opened.beside)))
    return replace(found, notes=(*found.notes, *remarks), read=names)


def leaks(train: object, test: object, *, random_state: object = 0, **opening: Any) -> Leaks:
    """Find rows of one dataset that are near-duplicates of rows of another, such as a test set.

    Parameters
    ----------
    train, test
        Rows, or anything else that `gmmatch.open` opens or returned; labels are not needed. Near-duplicates
        are at most a tenth as far apart as a row of `train` and its nearest neighbour usually are; texts
        also those of which at least 0.6 of the sequences of four letters are in both, and photos those whose
        greys correlate by at least 0.97, cropped by up to an eighth.
    random_state
        Seed of the hashes of the rows.
    **opening
        As for `gmmatch.open`, for both: `encoder`, `text`, `embedding` and so on.

    Returns
    -------
    Leaks
        The pairs, with `to_pandas` and `save`.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(200, 8))
    >>> found = gmmatch.leaks(rows, rows[[5, 9]] + 1e-6)
    >>> found.train.tolist(), found.test.tolist()
    ([5, 9], [0, 1])
    """
    seed = as_seed(random_state)
    opened = open_data(train, encode=True, **({} if isinstance(train, Dataset) else opening))
    checked = check_input(opened.numbers(), name=opened.name, finite=False)
    checked = run.look_at_all(checked, opened, opening.get("on_bad_rows", "error"), seed)
    foreign = open_data(test, encode=True, **({} if isinstance(test, Dataset) else opening))
    found = Holdout.of(foreign, opened, foreign.name, checked.rows.shape[1]).leaks(checked, seed)
    for data in (opened, foreign):
        data.check_unchanged()
    return replace(
        found,
        train_ids=None if opened.ids is None else opened.ids[found.train],
        test_ids=None if foreign.ids is None else foreign.ids[found.test],
        read=tuple(files.names_of((train, test, *opened.files, *foreign.files))),
    )


def _made(selection: Selection, data: object, verb: str) -> Outcome | None:
    """Return the run that made a selection; None where data was given. Refuse where there is neither."""
    if data is None and selection.made is None:
        raise InvalidInput(
            f"this selection does not hold its data; pass it: {verb}data=...)"
            " (what was selected from, as gmmatch.open takes it)"
        )
    return selection.made if data is None else None


def _report(
    selection: Selection, path: str | os.PathLike[str] = "report.html", data: object = None, **options: Any
) -> Report:
    from .reporting import report

    outcome = _made(selection, data, "sel.report(path, ")
    if outcome is None:
        return report(selection, data, path, **options)
    return run.write_report_of(replace(outcome, selection=selection), files.as_path(path, "path"), **options)


def _materialize(selection: Selection, folder: str | os.PathLike[str], data: object = None) -> None:
    outcome = _made(selection, data, "sel.materialize(folder, ")
    source = open_data(data) if outcome is None else outcome.dataset
    if len(source) != selection.n_rows:
        raise InvalidInput(
            f"the selection was made from {selection.n_rows:,} rows; the data has {len(source):,}"
        )
    check_order(source, selection.indices, selection.ids)
    place = files.as_path(folder, "folder")
    files.check_outside(place, data if outcome is None else outcome.plan.source)
    materialize_rows(selection, source, place)


def _suspects(selection: Selection, data: object = None, labels: object = None) -> Suspects:
    outcome = _made(selection, data, "sel.suspects(")
    if outcome is None:
        return list_suspects(data, labels, selection.random_state)
    return replace(outcome.find_suspects(), read=tuple(outcome.read))


def _show(selection: Selection, data: object = None, height: int = 900, **options: Any) -> Any:
    from .reporting.notebook import Page

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        _report(selection, page, data, **options)
        return Page(page.read_text(encoding="utf-8"), height)


def _plot(selection: Selection, data: object = None) -> Any:
    from .reporting.notebook import plot

    made = None if selection.made is None else selection.made.dataset
    return plot(selection, made if data is None else open_data(data))


def _html(shown: Selection | Suspects | Dataset) -> str:
    from .reporting.notebook import dataset_html, selection_html, suspects_html

    if isinstance(shown, Selection):
        return selection_html(shown, None if shown.made is None else shown.made.dataset)
    return suspects_html(shown) if isinstance(shown, Suspects) else dataset_html(shown)


def _checked_path(path: str | os.PathLike[str], overwrite: bool, kind: str) -> Path:
    place = files.as_path(path, "path")
    files.check_new(place, overwrite)
    check_output(place, kind=kind)
    return place


def _save_suspects(found: Suspects, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    place = _checked_path(path, overwrite, "suspects")
    files.check_apart([place], found.read)
    write_suspects(found, place)


def _save_leaks(found: Leaks, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    place = _checked_path(path, overwrite, "leaks")
    files.check_apart([place], found.read)
    write_table(pa.table(found.columns() | found.ids()), place)


def _settings(selection: Selection) -> dict[str, Any]:
    from .selectors import find_method

    # Scores and influences are those of the rows that were selected from.
    left_out = {"scores", "influence", *find_method(selection.method).fixed}
    found: dict[str, Any] = {"method": selection.method}
    found |= {name: value for name, value in selection.params.items() if name not in left_out}
    found |= {"random_state": selection.random_state or 0, **(selection.info.settings or {})}
    if isinstance(found.get("quality"), list):  # as files hold it
        found["quality"] = tuple(found["quality"])
    return found


VERBS: dict[str, Callable[..., Any]] = {
    "report": _report,
    "materialize": _materialize,
    "suspects": _suspects,
    "settings": _settings,
    "show": _show,
    "plot": _plot,
    "html": _html,
    "save suspects": _save_suspects,
    "save leaks": _save_leaks,
}
"""What the verbs of results call, which know nothing of what is above them."""
