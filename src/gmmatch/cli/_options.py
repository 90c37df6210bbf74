"""Options that several commands share: one name, one help text."""

from __future__ import annotations

from typing import Annotated

import typer

Ids = Annotated[
    str | None, typer.Option(metavar="FILE_OR_COLUMN", help="Name of each row; its number by default.")
]
Embedding = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column, array or tensor with the embeddings.")
]
Encoder = Annotated[
    str | None, typer.Option(help="INPUT holds images or texts: encode them first, as `gmmatch embed` does.")
]
Text = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the texts.")]
Image = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the images (paths or bytes).")]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Memory to use, such as 4GB; a quarter by default.")
]
OnBadRows = Annotated[
    str,
    typer.Option(
        metavar="error|drop",
        help="Rows with NaN or infinite values, or without a label: refuse the input, or drop them.",
    ),
]
Unlabelled = Annotated[
    str,
    typer.Option(
        metavar="error|class", help="Rows without a label: as --on-bad-rows says, or a class of their own."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace outputs that exist.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Projection = Annotated[
    str, typer.Option(help="How the map is laid out: pca, umap, or auto (umap where it is installed).")
]
Engine = Annotated[str, typer.Option(help="local: this machine; ray: a Ray cluster, with the same result.")]
Address = Annotated[
    str | None,
    typer.Option(help="With --engine ray: a running cluster, or auto; by default a new one, here."),
]
Workers = Annotated[
    int | None, typer.Option(help="With --engine ray: worker processes; one per core by default.", min=1)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
