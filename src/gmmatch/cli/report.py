"""`gmmatch report`: a page about a selection."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..records import load_selection
from ..report import check_report, summarise, write_report
from ._friendly import parse_memory, show_progress
from ._options import Embedding, Ids, Memory, Projection
from ._rows import find_content, open_rows


def report(
    selection: Annotated[Path, typer.Argument(help="What `gmmatch select` wrote: .parquet.")],
    source: Annotated[str, typer.Argument(metavar="INPUT", help="What the rows were selected from.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write: .html.")] = Path(
        "report.html"
    ),
    images: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Images of the rows: a folder, a table, .npy, .npz, IDX or CIFAR."),
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Texts of the rows: .txt, .csv, .jsonl or .parquet.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE_OR_COLUMN", help="Labels, if the selection was made with some."),
    ] = None,
    ids: Ids = None,
    embedding: Embedding = None,
    encoder: Annotated[
        str | None, typer.Option(help="INPUT holds images or texts, which this encoder encoded.")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the texts.")] = None,
    image: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the images.")] = None,
    projection: Projection = "pca",
    memory: Memory = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Show what was kept, what was dropped and why, in one page that needs nothing else.

    Examples
    --------
        gmmatch report kept.parquet embeddings.npy -o report.html

        gmmatch report kept.parquet embeddings.npy --labels labels.npy --images photos/ -o report.html

        gmmatch report kept.parquet data.parquet --embedding vector --labels topic --texts data.parquet
        --text body

        gmmatch report kept.parquet photos/ --encoder efficientnet-lite0 --projection umap
    """
    started = time.perf_counter()
    check_report(output)
    cap = None if memory is None else parse_memory(memory)
    chosen = load_selection(selection)
    # With --images or --texts a column names what is in there, and INPUT holds embeddings.
    beside = images is not None or texts is not None
    with show_progress(quiet):
        rows = open_rows(
            source,
            encoder=encoder,
            text=None if beside else text,
            image=None if beside else image,
            labels=labels,
            ids=ids,
            embedding=embedding,
            memory=cap,
            on_bad_rows="drop",
        )
        content = find_content(
            source, rows, encoder=encoder, text=text, image=image, images=images, texts=texts
        )
        page = summarise(chosen, rows, content=content, projection=projection)
        write_report(page, output)
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
    typer.echo(json.dumps(facts) if as_json else sentence(facts))


def sentence(facts: dict[str, Any]) -> str:
    """Say in words what was done."""
    return (
        f"wrote {facts['output']} ({facts['bytes'] / 1e6:.1f} MB) in {facts['seconds']:.1f} s:"
        f" {facts['shown']:,} of {facts['rows']:,} rows on the map, {facts['previews']:,} with a preview"
    )
