"""Real photos and texts that the tests make: pieces of the photographs that come with scikit-image."""

import csv

import numpy as np
from PIL import Image
from skimage import data

SENTENCES = {
    "balance": ("how much money is in my account", "show my balance", "what is left in checking"),
    "transfer": ("send fifty euros to anna", "move money to my savings", "pay the rent to my landlord"),
    "card": ("my card was stolen", "block the credit card", "i lost my debit card yesterday"),
}
ENDINGS = ("", " please", " now", " today", " for me", " right away", " again", " thanks")


def photo_folder(folder, each=12, seed=0):
    """Write a folder per photograph, of pieces in several sizes, modes and kinds of file."""
    rng = np.random.default_rng(seed)
    pictures = {"astronaut": data.astronaut(), "coffee": data.coffee(), "camera": data.camera()}
    for label, picture in pictures.items():
        (folder / label).mkdir(parents=True)
        for number in range(each):
            high, wide = rng.integers(60, 200, 2)
            top, left = (int(rng.integers(0, side - size)) for side, size in
                         zip(picture.shape, (high, wide), strict=False))  # fmt: skip
            piece = Image.fromarray(np.ascontiguousarray(picture[top : top + high, left : left + wide]))
            if number % 4 == 1:
                piece = piece.convert("RGBA")
                piece.putalpha(200)
            elif number % 4 == 2:
                piece = piece.convert("CMYK")
            elif number % 4 == 3:
                piece = piece.convert("L")
            ending = {"CMYK": "jpg", "L": "tif"}.get(piece.mode, "png")
            piece.save(folder / label / f"{number:02d}.{ending}")
    return folder


def text_table(path):
    """Write a table of short texts with their intents."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["body", "intent"])
        for intent, sentences in SENTENCES.items():
            writer.writerows([sentence + end, intent] for sentence in sentences for end in ENDINGS)
    return path
