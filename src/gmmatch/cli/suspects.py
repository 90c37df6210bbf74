"""`gmmatch suspects`: which rows seem wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import pipeline
from ._friendly import show_progress
from ._options import (
    READ,
    WRITE,
    AsJson,
    Embedding,
    Encoder,
    Ids,
    Image,
    Memory,
    OnBadRows,
    Overwrite,
    Quiet,
    Seed,
    Text,
    Unlabelled,
)


def suspects(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Rows, as for `gmmatch select`.")],
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE_OR_COLUMN", help="Class of each row; may be wrong.", rich_help_panel=READ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="What to write: .parquet, .csv or .jsonl.", rich_help_panel=WRITE
        ),
    ] = Path("suspects.parquet"),
    ids: Ids = None,
    embedding: Embedding = None,
    encoder: Encoder = None,
    text: Text = None,
    image: Image = None,
    memory: Memory = None,
    seed: Seed = 0,
    on_bad_rows: OnBadRows = "error",
    unlabelled: Unlabelled = "error",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the rows of INPUT by how wrong they seem, and say why.

    Examples
    --------
        gmmatch suspects embeddings.npy --labels labels.npy

        gmmatch suspects data.parquet --embedding vector --labels topic --ids doc_id -o wrong.csv

        gmmatch suspects photos/ --encoder efficientnet-lite0 -o wrong.jsonl
    """
    started = time.perf_counter()
    with show_progress(quiet):
        found = pipeline.suspects(
            source,
            labels,
            seed,
            ids=ids,
            encoder=encoder,
            text=text,
            image=image,
            embedding=embedding,
            memory=memory,
            on_bad_rows=on_bad_rows,
            unlabelled=unlabelled,
            output=output,
            overwrite=overwrite,
        )
    facts: dict[str, Any] = found.summary()
    facts |= {"seconds": round(time.perf_counter() - started, 3), "output": str(output)}
    typer.echo(json.dumps(facts) if as_json else sentence(facts))


def sentence(facts: dict[str, Any]) -> str:
    """Say in words what was found."""
    return (
        f"{facts['suspect']:,} of {facts['rows']:,} rows seem wrong ({facts['share']:.1%}):"
        f" {facts['unlikely label']:,} by their label, {facts['outside its class']:,} outside their class;"
        f" wrote {facts['output']} in {facts['seconds']:.1f} s"
    )
