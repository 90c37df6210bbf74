"""Draw the photos that seem wrong most, each under the label that it has and the one that fits better.

python examples/contact_sheet.py photos suspects.csv sheet.png
"""

import csv
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageOps

ACROSS, DOWN, SIDE, WORDS = 10, 4, 112, 18  # photos, and pixels of each and of the line above it


def main(photos, suspects, out):
    with Path(suspects).open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))[: ACROSS * DOWN]
    sheet = Image.new("RGB", (ACROSS * SIDE, DOWN * (SIDE + WORDS)), "white")
    pen = ImageDraw.Draw(sheet)
    for place, row in enumerate(rows):
        left, top = place % ACROSS * SIDE, place // ACROSS * (SIDE + WORDS)
        photo = ImageOps.exif_transpose(Image.open(Path(photos) / row["id"])).convert("RGB")
        sheet.paste(ImageOps.pad(photo, (SIDE - 8, SIDE - 8), color="white"), (left + 4, top + WORDS))
        pen.text((left + 4, top + 3), f"{row['label']}: {row['suggested'] or 'none'}?"[:20], fill="black")
    sheet.save(out)
    print(f"the {len(rows)} photos that seem wrong most: {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
