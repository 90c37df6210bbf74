"""`gmmatch select`: choose rows of a file."""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import pipeline, signals
from ..errors import InvalidInput, InvalidParameter
from ..outputs import check_output, materialize, write_selection, write_suspects
from ..records import Selection
from ..report import check_projection, check_report, summarise, write_report
from ..selectors import find_method
from ..sources import read_values
from ..training import read_images
from ..validation import check_keep
from . import INTERRUPTED
from ._friendly import parse_keep, parse_memory, parse_params, show_progress
from ._options import Address, Embedding, Engine, Ids, Memory, Projection, Workers
from ._rows import find_content, open_rows


class OnBadRows(StrEnum):
    """What to do with rows that hold NaN or infinite values."""

    error = "error"
    drop = "drop"


def select(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="Embeddings: .npy, .npz, Parquet, Arrow or safetensors; a folder or glob of shards; a saved"
            " Hugging Face dataset.",
        ),
    ],
    keep: Annotated[str, typer.Option(help="How many rows to keep: 10%, a fraction or a count.")],
    labels: Annotated[
        str | None, typer.Option(metavar="FILE_OR_COLUMN", help="Class of each row; may be wrong.")
    ] = None,
    ids: Ids = None,
    embedding: Embedding = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="INPUT holds images or texts: encode them first, as `gmmatch embed` does."),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of texts to encode.")] = None,
    image: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of images (paths or bytes) to encode.")
    ] = None,
    method: Annotated[str, typer.Option(help="A name that `gmmatch methods` lists.")] = "gm-matching",
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A parameter of the method; repeatable."),
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One score per row, for --method top-scores.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Images of the rows, for --report and to train on (.npy, .npz; the embeddings by default).",
        ),
    ] = None,
    train_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How to train, for methods that need it: .toml or .json."),
    ] = None,
    save_scores: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the training run's score of every row, for --scores: .npy."),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Selection: .parquet or .csv; .npy or .txt for the ids alone."),
    ] = Path("kept.parquet"),
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Write every input row, with a column `kept`.")
    ] = False,
    materialize_to: Annotated[
        Path | None,
        typer.Option("--materialize", metavar="DIR", help="Also write the kept rows themselves."),
    ] = None,
    memory: Memory = None,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 0,
    guard: Annotated[
        bool | None,
        typer.Option("--guard/--no-guard", help="Pick trusted rows first.", show_default=False),
    ] = None,
    suspects_to: Annotated[
        Path | None,
        typer.Option(
            "--suspects", metavar="FILE", help="Also write which rows seem wrong, and why (.parquet or .csv)."
        ),
    ] = None,
    report_to: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Also write a page that shows the choice: .html."),
    ] = None,
    projection: Projection = "pca",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a killed run stopped.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")] = False,
    on_bad_rows: Annotated[
        OnBadRows, typer.Option(help="Rows with NaN or infinite values: refuse the input, or drop them.")
    ] = OnBadRows.error,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Choose the rows of INPUT worth keeping and write them, in pick order.

    Examples
    --------
        gmmatch select embeddings.npy --keep 10% -o kept.parquet

        gmmatch select embeddings.npy --labels labels.npy --keep 5000 --json

        gmmatch select 'shards/*.npy' --keep 1% --memory 2GB --resume

        gmmatch select data.parquet --embedding vector --labels topic --ids doc_id --keep 20% -o kept.csv

        gmmatch select embeddings.npy --keep 30% --method gm-matching-paper --all-rows

        gmmatch select data.parquet --labels topic --keep 10% --suspects wrong.csv --report report.html

        gmmatch select photos/ --encoder efficientnet-lite0 --keep 10%

        gmmatch select tickets.csv --text body --labels intent --encoder wordllama --keep 20%

        gmmatch select 'shards/*.npy' --keep 1% --engine ray --address auto --resume

        gmmatch select embeddings.npy --labels labels.npy --keep 30% --method el2n --images images.npy
        --train-config train.toml --save-scores el2n.npy
    """
    budget = parse_keep(keep)
    check_keep(budget)
    cap = None if memory is None else parse_memory(memory)
    params = parse_params(param or [])
    if scores is not None:
        params["scores"] = read_values(scores, "scores")
    check_output(output, all_rows)
    if suspects_to is not None:
        check_output(suspects_to, all_rows=True)
    if report_to is not None:
        check_report(report_to)
        check_projection(projection)
    if save_scores is not None:
        check_scores_file(save_scores, method)
    # Images that no training run asks for are there to be shown.
    to_train_on = images if find_method(method).needs_training or report_to is None else None
    state = output.with_name(f"{output.name}.state")
    started = time.perf_counter()
    try:
        with show_progress(quiet):
            opened = open_rows(
                source,
                encoder=encoder,
                text=text,
                image=image,
                labels=labels,
                ids=ids,
                embedding=embedding,
                memory=cap,
                on_bad_rows=on_bad_rows.value,
                engine=engine,
            )
            if dry_run:
                facts = pipeline.plan(opened, budget, method, cap, **params)
                typer.echo(json.dumps(facts) if as_json else describe_plan(facts))
                return
            content = None
            if report_to is not None:
                content = find_content(source, opened, encoder=encoder, text=text, image=image, images=images)
            selection = pipeline.select(
                opened,
                keep=budget,
                method=method,
                guard=None if guard is None else "auto" if guard else "off",
                random_state=seed,
                memory=cap,
                on_bad_rows=on_bad_rows.value,
                state=state,
                resume=resume,
                images=None if to_train_on is None else read_images(to_train_on)[0],
                train_config=train_config,
                engine=engine,
                address=address,
                workers=workers,
                **params,
            )
            found = None
            if suspects_to is not None:
                bad = pipeline.find_bad_rows(opened) if selection.facts.bad_rows else None
                found = pipeline.find_suspects(opened, seed, bad)
                write_suspects(found, suspects_to, opened)
            if save_scores is not None:
                signals.save_scores(save_scores, scores_of_all_rows(selection))
            if materialize_to is not None:
                materialize(selection, opened, materialize_to)
            write_selection(selection, output, opened, all_rows)
    except KeyboardInterrupt:
        typer.echo(f"gmmatch: interrupted{how_to_resume(state)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    facts = summary(selection, time.perf_counter() - started, output)
    if report_to is not None:
        with show_progress(quiet):
            page = summarise(
                selection,
                opened,
                content=content,
                found=found,
                projection=projection,
                seconds=facts["seconds"],
                command=this_command(),
            )
            write_report(page, report_to)
        facts["report"] = str(report_to)
    if found is not None:
        facts["suspects"] = found.summary()
    typer.echo(json.dumps(facts) if as_json else sentence(facts))


def check_scores_file(path: Path, method: str) -> None:
    """Refuse to save scores that there will not be, or where they cannot be, before any work is done."""
    if not find_method(method).needs_training:
        raise InvalidParameter(f"--save-scores is for methods with a training run; {method} has none")
    if path.suffix != ".npy":
        raise InvalidParameter(f"--save-scores takes a file that ends in .npy; got {path}")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}")


def scores_of_all_rows(selection: Selection) -> Any:
    """Return what a training run said of every row: its score, or the length of its influence."""
    influence = selection.params.get("influence")
    return selection.params["scores"] if influence is None else np.linalg.norm(influence, axis=1)


def how_to_resume(state: Path) -> str:
    """Say how to go on, if there is anything to go on from."""
    if not state.exists():
        return "; nothing was written"
    return f"; go on with: {this_command()} --resume"


def this_command() -> str:
    """Return the command that is running, without --resume."""
    return shlex.join(["gmmatch", *(word for word in sys.argv[1:] if word != "--resume")])


def summary(selection: Selection, seconds: float, output: Path) -> dict[str, Any]:
    """Return the facts that `--json` prints."""
    return replace(selection.facts, seconds=round(seconds, 3), output=str(output)).as_dict()


def sentence(facts: dict[str, Any]) -> str:
    """Say in words what was done."""
    classes = f" in {facts['classes']} classes" if facts["classes"] else ""
    dropped = f"; left out {facts['bad_rows']:,} bad rows" if facts["bad_rows"] else ""
    report = f" and {facts['report']}" if facts["report"] else ""
    wrong = f"; {facts['suspects']['suspect']:,} rows seem wrong" if facts["suspects"] else ""
    return (
        f"kept {facts['kept']:,} of {facts['rows']:,} rows{classes} by {facts['method']}"
        f" in {facts['seconds']:.1f} s{dropped}{wrong}; objective {facts['objective']:.4g};"
        f" wrote {facts['output']}{report}"
    )


def describe_plan(facts: dict[str, Any]) -> str:
    """Say in words what would be done."""
    classes = f" in {facts['classes']:,} classes" if facts["classes"] else ""
    batches = "against all rows of a class" if facts["batch_size"] is None else "in batches, one pass"
    training = ", beside the training run" if find_method(facts["method"]).needs_training else ""
    return (
        f"would keep {facts['keep']:,} of {facts['rows']:,} rows of {facts['features']:,} numbers{classes}"
        f" by {facts['method']}, {batches}; about {facts['passes']} passes,"
        f" {facts['memory_bytes'] / 1e6:,.0f} MB of memory, {facts['disk_bytes'] / 1e6:,.1f} MB of disk,"
        f" {facts['seconds']:,.0f} s{training}; nothing was written"
    )
