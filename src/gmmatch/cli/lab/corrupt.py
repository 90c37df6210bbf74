"""``gmmatch corrupt``: make a dataset wrong on purpose, and say where."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import InvalidParameter
from ...lab.corrupt.inputs import corrupt_input
from .. import options
from ..friendly import say
from ..options import READ, WRITE, option

DAMAGE = "What is done to it"
Input = Annotated[
    Path | None,
    typer.Argument(
        metavar="INPUT",
        show_default=False,
        help="A folder of images, an array (.npy, .npz) of images, embeddings or labels, or a label file"
        " (.csv, .tsv, .txt, .jsonl, .parquet, .arrow, IDX).",
    ),
]
Kind = Annotated[
    list[str] | None,
    option(
        "What to do. Images: gaussian_noise, occlusion, resolution, fog, motion_blur (repeat for"
        " several; default all). Labels, and folders of images, which go into wrong folders then: symmetric"
        " (default of labels), pair, matrix, instance. Embeddings:"
        " far-cluster (default), outliers, other-class, sign-flip, adversary.",
        "--kind",
        "-k",
        panel=DAMAGE,
    ),
]
Share = Annotated[
    str | None,
    option(
        "How much of the rows to corrupt, as 20% or 0.2. Default 20%; with --kind matrix what the"
        " matrix implies.",
        panel=DAMAGE,
        metavar="SHARE",
    ),
]
Output = Annotated[
    Path | None, options.output("Where to write: a new folder or file. The mask goes beside it.", "PATH")
]
Preview = Annotated[
    Path | None,
    option(
        "Write a contact sheet: one image (the first of INPUT, or a sample) under all kinds and severities.",
        panel=WRITE,
    ),
]


def corrupt(
    source: Input = None,
    kind: Kind = None,
    share: Share = None,
    output: Output = None,
    severity: Annotated[int, option("Strength of image damage, 1 to 5.", panel=DAMAGE)] = 3,
    seed: Annotated[int, option("Same seed, same output.", panel=DAMAGE)] = 0,
    labels: Annotated[
        str | None,
        options.column("Labels, for --kind other-class: a file. Of a table: as --column.", "FILE_OR_COLUMN"),
    ] = None,
    features: Annotated[Path | None, option("Array file, for --kind instance.", panel=READ)] = None,
    matrix: Annotated[
        Path | None, option("Transition matrix (.npy, .csv), for --kind matrix.", panel=READ)
    ] = None,
    distance: Annotated[
        float | None, option("How far embeddings go, in units of the data's radius.", panel=DAMAGE)
    ] = None,
    column: Annotated[str | None, options.column("Label column of a table.")] = None,
    array: Annotated[str | None, options.column("Name of the array in a .npz INPUT.", "NAME")] = None,
    preview: Preview = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    quiet: Annotated[bool, option("Print nothing but errors.", "--quiet", "-q")] = False,
) -> None:
    """Make a dataset wrong on purpose, exactly and repeatably, and write down where.

    Exactly the rounded share of the rows is changed, the others stay as they are. The mask is written
    beside the output: OUT.mask.npy for arrays, OUT.mask.csv for folders, and so on.

    Examples
    --------
        gmmatch corrupt photos/ --share 20% -o spoilt/

        gmmatch corrupt photos/ --kind symmetric --share 20% -o misplaced/

        gmmatch corrupt images.npy --kind fog --kind motion_blur --severity 5 -o foggy.npy

        gmmatch corrupt labels.csv --kind symmetric --share 40% -o noisy.csv

        gmmatch corrupt embeddings.npy --kind far-cluster --share 45% -o bad.npy

        gmmatch corrupt --preview sheet.png
    """
    start = time.perf_counter()
    facts = corrupt_input(
        source, output, None if share is None else _share(share), kind, severity, seed,
        labels=labels, features=features, matrix=matrix, distance=distance, column=column, array=array,
        preview=preview, overwrite=overwrite,
    )  # fmt: skip
    facts["seconds"] = round(time.perf_counter() - start, 3)
    if as_json:
        typer.echo(json.dumps(facts))
    elif not quiet:
        say(*_told(facts))


def _share(text: str) -> float:
    """Return the fraction that ``20%`` or ``0.2`` stands for.

    >>> _share("20%"), _share("0.2")
    (0.2, 0.2)
    """
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InvalidParameter(
            f"--share must be a percentage or a fraction, as 20% or 0.2; got {text!r}"
        ) from None
    if not 0 <= share <= 1:
        raise InvalidParameter(f"--share must be between 0% and 100%; got {text!r}")
    return share


def _told(facts: dict[str, Any]) -> list[str]:
    """Return the summary for people."""
    lines = []
    if "output" in facts:
        kinds = ", ".join(f"{count} {name}" for name, count in facts["kinds"].items()) or "none"
        lines.append(f"corrupted {facts['corrupted']:,} of {facts['rows']:,} {facts['holds']} ({kinds})")
        lines.append(f"wrote {facts['output']} and {facts['mask']}")
    if "preview" in facts:
        lines.append(f"wrote {facts['preview']}")
    return lines
