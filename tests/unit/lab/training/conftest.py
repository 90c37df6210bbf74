from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.datasets import load_digits

Pictures = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


@pytest.fixture(scope="session")
def digits28() -> Pictures:
    """Scikit-learn's handwritten digits, enlarged to 28 x 28 pixels."""
    found = load_digits()
    large = np.kron(found.images, np.ones((1, 4, 4)))[:, 2:-2, 2:-2]
    return (large * (255 / 16)).astype(np.uint8), found.target.astype(np.int64)


@pytest.fixture(scope="session")
def small() -> Pictures:
    """Forty-two noisy 12 x 12 pictures of three classes: stripes across, stripes down, neither."""
    rng = np.random.default_rng(0)
    labels = np.arange(42) % 3
    images = rng.integers(0, 80, (42, 12, 12))
    images[labels == 0, ::2] += 150
    images[labels == 1, :, ::2] += 150
    return images.astype(np.uint8), labels
