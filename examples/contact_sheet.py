"""Draw the photos that seem wrong most, each with the label that it has and the one that fits better.

python examples/contact_sheet.py photos suspects.csv sheet.png
"""

import csv
import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

ACROSS, DOWN = 10, 4


def main(photos, suspects, out):
    with Path(suspects).open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))[: ACROSS * DOWN]
    figure = Figure(figsize=(ACROSS, 1.25 * DOWN), layout="constrained")
    for axes, row in zip(figure.subplots(DOWN, ACROSS).flat, rows, strict=False):
        axes.imshow(Image.open(Path(photos) / row["id"]), cmap="gray")
        axes.set_title(f"{row['label']} → {row['suggested']}", fontsize=7)
        axes.axis("off")
    figure.savefig(out, dpi=110)
    print(f"the {len(rows)} photos that seem wrong most: {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
