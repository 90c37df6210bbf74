"""`gmmatch report`: a page about a selection."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..reporting import report as make_report
from . import options
from .friendly import say, show_progress


@options.takes("ids embedding encoder text image projection memory header overwrite force")
def report(
    selection: Annotated[
        Path, typer.Argument(metavar="SELECTION", help="What `gmmatch select` wrote: .parquet.")
    ],
    source: Annotated[str, typer.Argument(metavar="INPUT", help="What the rows were selected from.")],
    output: Annotated[Path, options.output("The page to write: .html.")] = Path("report.html"),
    images: Annotated[
        Path | None,
        options.column("Images of the rows: a folder, a table, .npy, .npz, IDX or CIFAR.", "PATH"),
    ] = None,
    texts: Annotated[
        Path | None, options.column("Texts of the rows: .txt, .csv, .jsonl or .parquet.", "FILE")
    ] = None,
    labels: Annotated[
        str | None, options.column("Labels, if the selection was made with some.", "FILE_OR_COLUMN")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    **asked: Any,
) -> None:
    """Show what was kept, what was dropped and why, in one page that needs nothing else.

    Examples
    --------
        gmmatch report kept.parquet embeddings.npy -o report.html

        gmmatch report kept.parquet embeddings.npy --labels labels.npy --images photos/ -o report.html

        gmmatch report kept.parquet data.parquet --embedding vector --labels topic --texts data.parquet
        --text body

        gmmatch report kept.parquet photos/ --encoder efficientnet-lite0 --projection pca
    """
    asked |= {"images": images, "texts": texts, "labels": labels}
    started = time.perf_counter()
    with show_progress(quiet):
        page = make_report(selection, source, output, **asked)
    facts: dict[str, Any] = {
        "rows": page.glance.rows,
        "kept": page.glance.kept,
        "shown": len(page.map.row),
        "suspects": page.glance.suspects,
        "previews": len(page.content),
        "notes": page.notes,
        "seconds": round(time.perf_counter() - started, 3),
        "bytes": output.stat().st_size,
        "output": str(output),
    }
    sentence = (
        f"wrote {output} ({facts['bytes'] / 1e6:.1f} MB) in {facts['seconds']:.1f} s:"
        f" {facts['shown']:,} of {facts['rows']:,} rows on the map, {facts['previews']:,} with a preview"
    )
    say(json.dumps(facts) if as_json else sentence, err=False)
