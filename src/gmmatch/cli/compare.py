"""`gmmatch compare`: which method would serve your data."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..selectors import compared_methods
from ..validation import parse_keep
from . import _options as options
from ._friendly import show_progress
from ._options import CHOOSE, READ, option
from .reproduce import print_means

MEASURE = "How they are measured"
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Embeddings (.npy, .npz, Parquet, Arrow, safetensors), a table of numbers (.csv), or images"
        " (a folder, uint8 .npy).",
    ),
]
Methods = Annotated[
    str | None,
    option(
        "Names that `gmmatch methods` lists, with commas; name+guard: trusted rows first."
        f"  [default: {', '.join(compared_methods())}]",
        panel=CHOOSE,
        metavar="A,B,...",
        show_default=False,
    ),
]
Damage = Annotated[
    str,
    option(
        "Damage done to the training part on purpose, with commas: clean (none), labels-20,"
        " images-20, gross-20; any percentage.",
        panel=MEASURE,
        metavar="A,B,...",
    ),
]
Proxy = Annotated[
    str,
    option(
        "Whose features of images the methods see: pixels, a network (trained here) or an encoder"
        " such as efficientnet-lite0.",
        panel=READ,
    ),
]
HeldOut = Annotated[
    str,
    option(
        "Share of each class held out to measure on; its labels are believed.", panel=MEASURE, metavar="SHARE"
    ),
]


def compare(
    source: Data,
    labels: options.Labels = None,
    methods: Methods = None,
    keep: Annotated[
        str, option("Shares to keep, with commas.", panel=CHOOSE, metavar="10%,20%")
    ] = "5%,10%,30%",
    budgets: options.Budgets = "proportional",
    corrupt: Damage = "clean",
    target: Annotated[
        str, option("What learns the kept rows: linear-probe, or for images a network.", panel=MEASURE)
    ] = "linear-probe",
    encoder: Proxy = "pixels",
    embedding: options.Embedding = None,
    on_bad_rows: options.OnBadRows = "error",
    unlabelled: options.Unlabelled = "error",
    test_share: HeldOut = "25%",
    seeds: Annotated[int, option("How many splits to average over.", panel=MEASURE, min=1)] = 3,
    epochs: Annotated[
        int | None, option("Of a network's training.", panel=MEASURE, min=1, show_default=False)
    ] = None,
    severity: Annotated[int, option("Of damaged images.", panel=MEASURE, min=1, max=5)] = 3,
    output: options.Folder = Path("out/compare"),
    workers: options.Processes = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Try several methods on DATA: keep some rows by each, learn them, and measure on held-out rows.

    Prints a table, and writes it (Markdown, CSV, LaTeX) with a picture. What is done already is not
    done again.

    Examples
    --------
        gmmatch compare embeddings.npy --labels labels.npy

        gmmatch compare flowers.csv --labels species --corrupt clean,labels-20 --keep 10%,30%

        gmmatch compare flowers.csv --labels species --budgets sqrt

        gmmatch compare photos/ --encoder efficientnet-lite0 --methods random,herding,gm-matching

        gmmatch compare images.npy --labels labels.npy --encoder resnet8 --target resnet8
    """
    from ..experiments.compare import OwnData, Plan, as_shown
    from ..experiments.compare import compare as run
    from ..experiments.grid import summarise

    held_out = parse_keep(test_share)
    plan = Plan(
        methods=compared_methods() if methods is None else options.words(methods, "--methods"),
        keeps=tuple(_share(word) for word in options.words(keep, "--keep")),
        scenarios=options.words(corrupt, "--corrupt"),
        target=target,
        proxy=encoder,
        seeds=seeds,
        epochs=epochs,
        severity=severity,
        budgets=budgets,
    )
    data = OwnData(source, labels, embedding, float(held_out), on_bad_rows, unlabelled)
    with show_progress(quiet):
        say = None if quiet else lambda words: typer.echo(words, err=True)
        done, files = run(data, plan, output, workers=workers, say=say)
    means = summarise(done.records)
    if as_json:
        facts = {
            "rows": len(data.content[0]),
            "classes": len(data.content[2]),
            "cells": len(done.records),
            "new": done.new,
            "seconds": round(done.seconds, 3),
            "output": str(output),
            "files": [str(file) for file in files],
            "results": [asdict(mean) for mean in means],
        }
        typer.echo(json.dumps(facts))
        return
    print_means(summarise(as_shown(done.records)))
    for file in files:
        typer.echo(f"wrote {file}")


def _share(word: str) -> float:
    share = parse_keep(word)
    return 1.0 if share == 1 and "." not in word and "%" not in word else share
