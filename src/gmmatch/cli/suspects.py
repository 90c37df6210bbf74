"""`gmmatch suspects`: which rows seem wrong."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import pipeline
from . import _options as options
from ._friendly import show_progress
from ._options import WRITE


def suspects(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Rows, as for `gmmatch select`.")],
    labels: options.Labels = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="What to write: .parquet, .csv or .jsonl.", rich_help_panel=WRITE
        ),
    ] = Path("suspects.parquet"),
    ids: options.Ids = None,
    embedding: options.Embedding = None,
    encoder: options.Encoder = None,
    text: options.Text = None,
    image: options.Image = None,
    memory: options.Memory = None,
    seed: options.Seed = 0,
    on_bad_rows: options.OnBadRows = "error",
    unlabelled: options.Unlabelled = "error",
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
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
