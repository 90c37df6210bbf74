"""The steps of a run: open, look at all rows once, train, judge once, and say what was found."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .classes import notes_on
from .compute.keys import look_at_rows, row_keys
from .data import Dataset
from .errors import InvalidInput, InvalidParameter
from .opening import open_data
from .planning import Plan, check_labels
from .records import Selection
from .selectors import Selector
from .selectors.base import evidence_of
from .trust import Suspects, Verdict, apart_from_copies, find_copies, folds_for, judge, suspects_from
from .trust.guard import Recall, make_now
from .validation import CheckedRows, as_seed, describe_bad_rows


def open_plan(plan: Plan) -> Dataset:
    """Open what a plan names."""
    own: dict[str, Any] = {}
    if plan.device != "auto" and isinstance(plan.encoder, str):
        from .encoders.registry import parameters

        own = {"device": plan.device} if "device" in parameters(plan.encoder) else {}
    return open_data(
        plan.source,
        plan.labels,
        plan.ids,
        plan.encoder,
        text=plan.text,
        image=plan.image,
        embedding=plan.embedding,
        memory=plan.cap,
        on_bad_rows=plan.on_bad_rows,
        unlabelled=plan.unlabelled,
        engine=plan.engine,
        **own,
    )


def leave_out_bad_rows(checked: CheckedRows, data: Dataset, on_bad_rows: str, seed: int = 0) -> CheckedRows:
    """Return what is left without bad rows, with the hashes of the rows, or refuse them.

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
    """
    good, keys, digest = look_at_rows(checked.rows, seed)
    checked = replace(checked, digest=digest)
    bad = np.flatnonzero(~good)
    if bad.size and on_bad_rows == "error":
        raise InvalidInput(f"{data.name} has {describe_bad_rows(bad)}")
    bad = np.union1d(bad, data.bad_rows)
    if not bad.size:
        return replace(checked, hashes=(seed, keys))
    if len(bad) == len(checked.rows):
        raise InvalidInput(f"all {len(bad)} rows of {data.name} are bad; nothing is left to choose from")
    usable = np.ones(len(checked.rows), dtype=bool)
    usable[bad] = False
    keys[bad] = 0  # as if they were rows of zeros, so that their values change nothing
    return replace(checked, usable=usable, hashes=(seed, keys))


def open_content_of(plan: Plan, data: Dataset) -> Any:
    """Open what the rows look like, if a report is to show it."""
    if plan.report is None:
        return None
    from .report import find_content

    shown = None if plan.trains_on_images else plan.images
    return find_content(data, images=shown, image=plan.image)


def notes_of(
    data: Dataset, checked: CheckedRows, verdict: Verdict | None = None, by_class: bool = True
) -> tuple[str, ...]:
    """Say what the user should know of the input, and of labels that were not judged."""
    notes = [*data.notes, *(() if checked.classes is None else notes_on(checked.classes))]
    several = by_class and checked.classes is not None and len(checked.classes) > 1
    if several and verdict is not None and verdict.reason:
        notes.append(f"the labels were not judged: {verdict.reason}")
    return tuple(notes)


def judge_once(
    plan: Plan, selector: Selector, checked: CheckedRows, recall: Recall = make_now
) -> tuple[Verdict | None, bool]:
    """Judge the rows if anybody needs it, and say whether it was done by class.

    `recall`: what keeps finished parts for a run that goes on from here.
    """
    by_class = selector.by_class if selector.guard != "off" else True
    codes, present = checked.judged(by_class)
    wanted = selector.guard != "off" or selector.reads_verdict() or plan.suspects is not None
    if not wanted and plan.report is not None:
        from .report.suspicion import worth_judging

        wanted = worth_judging(checked.rows.shape[0], checked.rows.shape[1], len(present))
    if not wanted:
        return None, by_class
    if selector.guard != "off":
        return recall("verdict", lambda: selector.judge(checked, recall)), by_class
    seed = as_seed(selector.random_state)
    labelled, keys = checked.codes is not None, checked.keys(seed)

    def verdict() -> Verdict:
        return judge(checked.rows, codes, len(present), seed, labelled=labelled, keys=keys, recall=recall)

    return recall("verdict", verdict), by_class


def train_if_needed(
    plan: Plan, params: Mapping[str, Any], checked: CheckedRows
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Make the training run that a method needs; return the parameter it gives, and how it was trained."""
    entry, images = plan.entry, plan.images if plan.trains_on_images else None
    has_signal = any(params.get(name) is not None for name in ("scores", "influence"))
    usable = np.ones(len(checked.rows), bool) if checked.usable is None else checked.usable
    if entry.needs_labels and not has_signal:
        check_labels(entry, params, checked.codes, usable)
    if has_signal or entry.signal is None or checked.codes is None:
        if images is not None or plan.train_config is not None:
            raise InvalidParameter(
                f"images and train_config are for a training run, and {plan.method} makes none here"
            )
        return {}, None
    from .signals import train_for_selection
    from .training import read_images
    from .training.config import as_config

    if isinstance(images, (str, os.PathLike)):
        images = read_images(Path(images))[0]
    config = as_config(plan.train_config, embeddings=images is None)
    if plan.device != "auto":
        config = replace(config, device=plan.device)
    seed = as_seed(params["random_state"])
    trained = train_for_selection(
        entry.signal, checked.rows, checked.codes, usable, images=images, config=config, seed=seed
    )
    return trained.params, trained.config.as_dict()


def describe(
    selection: Selection,
    plan: Plan,
    data: Dataset,
    checked: CheckedRows,
    verdict: Verdict | None,
    by_class: bool,
    training: dict[str, Any] | None,
) -> Selection:
    """Add to a selection what the run knows beyond the method: ids, evidence, facts."""
    facts = replace(
        selection.facts,
        bad_rows=len(checked.rows) - checked.n_usable,
        reads=(selection.facts.reads or 0) + 1,  # and the look at the rows
        training=training,
        engine=plan.engine if isinstance(plan.engine, str) else "ray",
        output=plan.called(plan.output),
        report=plan.called(plan.report),
        materialized=plan.called(plan.materialize),
    )
    if verdict is not None and selection.evidence is None:
        evidence = evidence_of(verdict, checked, by_class)
        facts = replace(facts, tiers=verdict.summary()["tiers"], reads=(facts.reads or 0) + verdict.reads)
        selection = replace(selection, tiers=verdict.tiers, evidence=evidence)
    ids = None if data.ids is None else data.ids[selection.indices]
    return replace(selection, ids=ids, facts=facts)


def check_suspects(data: Dataset, checked: CheckedRows) -> None:
    """Refuse to look for suspects where there are no labels."""
    if checked.classes is None:
        raise InvalidInput(
            f"suspects need labels, and {data.name} has none; name them with --labels (in Python: labels"
            " or y)"
        )


def find_suspects(
    checked: CheckedRows, verdict: Verdict | None, by_class: bool, random_state: Any
) -> Suspects:
    """Gather the evidence that rows, or their labels, are wrong; bad rows are left out.

    Where a run has judged the rows by class already, that verdict stands.
    """
    assert checked.classes is not None
    codes, present = checked.judged()
    own = np.zeros(len(checked.rows), np.int64) if codes is None else codes
    seed = as_seed(random_state)
    keys = verdict.keys if verdict is not None else checked.keys(seed)
    keys = row_keys(checked.rows, seed) if keys is None else keys
    copies, stands = find_copies(checked.rows, keys, own >= 0), None
    if verdict is None or not by_class:  # where labels do not divide the rows, no verdict is about them
        judged, stands = apart_from_copies(own, copies)
        folds = folds_for(int((judged >= 0).sum()))
        verdict = judge(checked.rows, judged, len(present), seed, folds, keys=keys)
    return suspects_from(verdict, checked.rows, own, checked.classes[present], copies, stands)


def scores_of_all_rows(selection: Selection) -> Any:
    """Return what a training run said of every row: its score, or the length of its influence."""
    influence = selection.params.get("influence")
    return selection.params["scores"] if influence is None else np.linalg.norm(influence, axis=1)
