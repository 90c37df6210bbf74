"""Count the functions and files that one call crosses: what a reader of that call has to read.

`python tools/walk.py` makes each call twice: `gmmatch select photos/ --report page.html` and
`gmmatch.select(X, labels=y)`. In the second, when caches are warm, it counts the distinct functions of the
package that are entered, in all threads, and the files that they are in. `--src FOLDER` walks the package in
another folder, for example of a checkout of the last release. `--list` names the functions, file by file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

N_CLASSES, ROWS_EACH, SIDE = 4, 40, 12


def walk(call: Callable[[], Any], package: Path) -> dict[str, set[str]]:
    """Return the functions of a package that a call enters, by file, without comprehensions and lambdas."""
    entered: dict[str, set[str]] = defaultdict(set)
    start = f"{package}/"

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(start) and not code.co_name.startswith("<"):
            entered[code.co_filename.removeprefix(start)].add(code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return dict(entered)


def journeys(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the calls to walk, by what a user types; their data is written to a folder."""
    import numpy as np
    from PIL import Image

    import gmmatch
    from gmmatch.cli import main

    rng = np.random.default_rng(0)
    middles = rng.integers(40, 200, (N_CLASSES, SIDE, SIDE, 3))
    images = np.clip(np.repeat(middles, ROWS_EACH, axis=0) + rng.normal(0, 20, (160, SIDE, SIDE, 3)), 0, 255)
    labels = np.repeat(np.arange(N_CLASSES), ROWS_EACH)
    for number, (image, label) in enumerate(zip(images.astype(np.uint8), labels, strict=True)):
        place = folder / "photos" / f"class{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03d}.png")
    rows = images.reshape(len(images), -1).astype(np.float32)
    words = ["select", str(folder / "photos"), "--encoder", "pixels", "--report", str(folder / "page.html")]
    words += ["-o", str(folder / "kept.parquet"), "--overwrite", "--keep", "0.2"]

    def command() -> None:
        sys.argv = ["gmmatch", *words]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise

    return {
        "select photos/ --report": command,
        "select(X, labels=y)": lambda: gmmatch.select(rows, labels=labels, keep=0.2),
    }


def main() -> None:
    """Walk, and print what was crossed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--src", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    sys.path.insert(0, str(asked.src.resolve()))
    import gmmatch

    package = Path(gmmatch.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        for words, call in journeys(Path(folder)).items():
            walk(call, package)
            crossed = walk(call, package)
            functions = sum(map(len, crossed.values()))
            print(f"{words:28}{functions:>6} functions in {len(crossed)} files")
            if asked.list:
                for file, names in sorted(crossed.items()):
                    print(f"  {file}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
