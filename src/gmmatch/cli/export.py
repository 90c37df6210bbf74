"""`gmmatch export`: hand rows to tools in which people look at them."""

from pathlib import Path
from typing import Annotated

import typer

from ..exporting import KINDS
from ..exporting import export as export_rows
from . import options
from .friendly import say, show_progress


def export(
    selection: Annotated[
        Path, typer.Argument(metavar="SELECTION", help="What `gmmatch select` wrote: .parquet.")
    ],
    source: Annotated[str, typer.Argument(metavar="INPUT", help="What the rows were selected from.")],
    to: Annotated[str, options.option("The tool.", metavar="|".join(KINDS), panel=options.WRITE)],
    output: Annotated[Path, options.output("The file to write: .json, .jsonl, .csv or .parquet.")],
    labels: options.Labels = None,
    ids: options.Ids = None,
    embedding: options.Embedding = None,
    encoder: options.Encoder = None,
    text: options.Text = None,
    image: options.Image = None,
    on_bad_rows: options.OnBadRows = "error",
    unlabelled: options.Unlabelled = "error",
    header: options.Header = "auto",
    overwrite: options.Overwrite = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write all rows with what is known of them, suspects first, for a labelling tool.

    Decisions come back as a table of ids and labels: `gmmatch select INPUT --labels decisions.csv`.

    Examples
    --------
        gmmatch export kept.parquet tickets.csv --text body --labels intent --to label-studio -o tasks.json

        gmmatch export kept.parquet photos/ --to fiftyone -o samples.json

        gmmatch export kept.parquet embeddings.npy --labels labels.npy --to cleanlab -o issues.csv
    """
    asked = dict(locals())
    for name in ("selection", "source", "output", "quiet"):
        del asked[name]
    with show_progress(quiet):
        count = export_rows(selection, source, output, **asked)
    say(f"wrote {count:,} rows for {to} to {output}", err=False)
