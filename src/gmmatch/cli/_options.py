"""Options that several commands share: one name, one help text."""

from pathlib import Path
from typing import Annotated

import typer

# Headings of the help.
READ, CHOOSE, WRITE, RUN = "What is read", "How rows are chosen", "What is written", "How it runs"

Labels = Annotated[
    str | None,
    typer.Option(metavar="FILE_OR_COLUMN", help="Class of each row; may be wrong.", rich_help_panel=READ),
]
Ids = Annotated[
    str | None,
    typer.Option(
        metavar="FILE_OR_COLUMN", help="Name of each row; its number by default.", rich_help_panel=READ
    ),
]
Embedding = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column, array or tensor with the embeddings.", rich_help_panel=READ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        help="INPUT holds images or texts: encode them first, as `gmmatch embed` does.", rich_help_panel=READ
    ),
]
Text = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the texts.", rich_help_panel=READ)
]
Image = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of the images (paths or bytes).", rich_help_panel=READ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory to use, such as 4GB; less takes longer, and changes no picks.",
        rich_help_panel=RUN,
    ),
]
OnBadRows = Annotated[
    str,
    typer.Option(
        metavar="error|drop",
        help="Rows with NaN or infinite values, or without a label: refuse the input, or drop them.",
        rich_help_panel=READ,
    ),
]
Unlabelled = Annotated[
    str,
    typer.Option(
        metavar="error|class",
        help="Rows without a label: as --on-bad-rows says, or a class of their own.",
        rich_help_panel=READ,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace outputs that exist.", rich_help_panel=WRITE)
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0, rich_help_panel=RUN)]
Projection = Annotated[
    str,
    typer.Option(
        help="How the report's map is laid out: pca, umap, or auto (umap where it is installed).",
        rich_help_panel=WRITE,
    ),
]
Engine = Annotated[
    str,
    typer.Option(help="local: this machine; ray: a Ray cluster, with the same result.", rich_help_panel=RUN),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: a running cluster, or auto; by default a new one, here.", rich_help_panel=RUN
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="With --engine ray: worker processes; one per core by default.", min=1, rich_help_panel=RUN
    ),
]
Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")]
Processes = Annotated[
    int | None, typer.Option(min=1, show_default=False, help="Processes.  [default: one per core]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=WRITE)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=RUN)]
