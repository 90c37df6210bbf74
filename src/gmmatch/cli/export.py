"""`gmmatch export`: hand rows to tools in which people look at them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..exporting import KINDS
from ..exporting import export as export_rows
from . import options
from .friendly import say, show_progress


@options.takes(f"labels overwrite force {options.OPENING}")
def export(
    selection: Annotated[
        Path, typer.Argument(metavar="SELECTION", help="What `gmmatch select` wrote: .parquet.")
    ],
    source: Annotated[str, typer.Argument(metavar="INPUT", help="What the rows were selected from.")],
    to: Annotated[str, options.option("The tool.", metavar="|".join(KINDS), panel=options.WRITE)],
    output: Annotated[Path, options.output("The file to write: .json, .jsonl, .csv or .parquet.")],
    quiet: options.Quiet = False,
    **asked: Any,
) -> None:
    """Write all rows with what is known of them, suspects first, for a labelling tool.

    Decisions come back as a table of ids and labels: `gmmatch select INPUT --labels decisions.csv`.

    Examples
    --------
        gmmatch export kept.parquet tickets.csv --text body --labels intent --to label-studio -o tasks.json

        gmmatch export kept.parquet photos/ --to fiftyone -o samples.json

        gmmatch export kept.parquet embeddings.npy --labels labels.npy --to cleanlab -o issues.csv
    """
    with show_progress(quiet):
        count = export_rows(selection, source, output, to=to, **asked)
    say(f"wrote {count:,} rows for {to} to {output}", err=False)
