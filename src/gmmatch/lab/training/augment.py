"""Random crops and flips of a whole batch at once."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def augment(images: Tensor, crop: int, flip: bool, rng: np.random.Generator) -> Tensor:
    """Return the batch with each image shifted and mirrored on its own.

    The batch is padded with `crop` black pixels on each side; then one gather cuts every image at
    its own place, reading the columns backwards where it is mirrored.

    `images`: shape (rows, height, width, channels). `crop`: largest shift in pixels, each way; 0 for none.
    `flip`: whether to mirror each image with probability one half. `rng`: drawn from on the CPU, so that a
    run draws the same on every device.
    """
    if not crop and not flip:
        return images
    rows, height, width, _ = images.shape
    tops, lefts = rng.integers(0, 2 * crop + 1, size=(2, rows, 1))
    down = tops + np.arange(height)
    across = lefts + np.arange(width)
    if flip:
        mirrored = rng.random(rows) < 0.5
        across[mirrored] = across[mirrored, ::-1]
    padded = F.pad(images, (0, 0, crop, crop, crop, crop))
    row = torch.arange(rows, device=images.device)[:, None, None]
    y = torch.from_numpy(down).to(images.device)[:, :, None]
    x = torch.from_numpy(across).to(images.device)[:, None, :]
    return padded[row, y, x]
