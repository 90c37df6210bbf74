"""What aims achieve: near-copies of a test set, rows like a reference, shards that come one by one.

``python -m benchmarks.curate [--only texts photos reference shards]`` writes docs/results/curate.md.

Needs GMMATCH_DATA with clinc150.csv, letters.csv and cifar10.npz, and wordllama; `photos` needs what
`_features` needs. SemHash is measured where it is installed. Results are kept as JSON lines in the file that
`--out` names, so that parts can be measured one by one; the page is written of all that are there.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gmmatch
from gmmatch import corrupt
from gmmatch.data import Dataset, Items

from ._page import RESULTS, Page, table

Rows = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Result = dict[str, Any]

PLANTED = 1_000
EDITS = ("capitals and a question mark", "two letters swapped", '"please" in front', "a word left out")
SHARDS = 10
FIRST = "match_to, labels"


def _lines() -> list[dict[str, str]]:
    with (Path(os.environ["GMMATCH_DATA"]) / "clinc150.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _letters() -> tuple[Rows, Labels]:
    with (Path(os.environ["GMMATCH_DATA"]) / "letters.csv").open() as file:
        table = list(csv.reader(file))[1:]
    rows = np.array([line[1:] for line in table], dtype=np.float32)
    truth = np.array([ord(line[0]) - ord("A") for line in table], dtype=np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    return ((rows - rows.mean(axis=0)) / rows.std(axis=0))[order], truth[order]


def _embedded(texts: list[str]) -> Rows:
    from gmmatch.encoders.registry import encoder

    return np.asarray(encoder("wordllama").encode(texts), np.float32)


def edit(text: str, kind: int, rng: np.random.Generator) -> str:
    """Return a text as somebody might have copied it."""
    words = text.split()
    if kind == 0:
        return f"{text.capitalize()}?"
    if kind == 1:
        long = [place for place, word in enumerate(words) if len(word) > 3] or [0]
        place = int(rng.choice(long))
        word, at = words[place], int(rng.integers(max(1, len(words[place]) - 1)))
        words[place] = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
        return " ".join(words)
    if kind == 2:
        return f"please {text}"
    place = int(rng.integers(len(words)))
    return " ".join(words[:place] + words[place + 1 :]) or text


def _of_texts(rows: Rows, texts: list[str], name: str) -> Dataset:
    return Dataset(rows, name, "list", content=Items("text", len(texts), lambda a, b: texts[a:b]))


def measure_texts() -> list[Result]:
    """Plant edited copies of CLINC150's test texts among its training texts, and look for them."""
    rng, lines = np.random.default_rng(0), _lines()
    train, test = ([line["text"] for line in lines if line["split"] == part] for part in ("train", "test"))
    source, kinds = rng.choice(len(test), PLANTED, replace=False), np.arange(PLANTED) % len(EDITS)
    planted = [edit(test[row], kind, rng) for row, kind in zip(source.tolist(), kinds.tolist(), strict=True)]
    rows = _embedded([*train, *planted, *test])
    pool, held_out = rows[: -len(test)], rows[-len(test) :]

    def told(name: str, found: dict[int, int], seconds: float, **more: Any) -> Result:
        """Count planted rows that were found with their own text, and all others that were found."""
        hits = np.array([found.get(len(train) + at) for at in range(PLANTED)], dtype=object)
        exact = np.array([hit is not None for hit in hits])
        own = np.array(
            [
                hit is not None and test[hit] == test[row]
                for hit, row in zip(hits, source.tolist(), strict=True)
            ]
        )
        return {
            "part": "texts",
            "name": name,
            "recall": float(exact.mean()),
            "by_edit": [float(exact[kinds == kind].mean()) for kind in range(len(EDITS))],
            "precision": float(own.sum() / max(1, exact.sum())),
            "alike_before": sum(row < len(train) for row in found),
            "seconds": seconds,
            **more,
        }

    results = []
    texts = [*train, *planted]
    for name, data, foreign in (
        ("rows alone", gmmatch.open(pool), gmmatch.open(held_out)),
        ("rows and texts", _of_texts(pool, texts, "train"), _of_texts(held_out, test, "test")),
    ):
        started = time.process_time()
        leaks = gmmatch.leaks(data, foreign)
        pairs = dict(zip(leaks.train.tolist(), leaks.test.tolist(), strict=True))
        results.append(told(f"gmmatch, {name}", pairs, time.process_time() - started, cosine=leaks.cosine))
    try:
        from semhash import SemHash
    except ImportError:
        return results

    class Known:
        """Gives SemHash the same embeddings."""

        def __init__(self) -> None:
            self.rows = dict(zip([*texts, *test], rows, strict=True))

        def encode(self, sentences: Any, **_: Any) -> Rows:
            return np.stack([self.rows[text] for text in sentences])

    for threshold in (0.9, 0.8, 0.7):
        started = time.process_time()
        finder = SemHash.from_records(records=test, model=Known())  # type: ignore[arg-type]
        outcome = finder.deduplicate(records=texts, threshold=threshold)
        found: dict[int, int] = {}
        places: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            places.setdefault(text, []).append(row)
        numbers = {text: row for row, text in reversed(list(enumerate(test)))}
        for entry in outcome.filtered:
            best = max(entry.duplicates, key=lambda pair: pair[1])[0] if entry.duplicates else entry.record
            for row in places[entry.record]:
                found[row] = numbers.get(best, -1)
        results.append(told(f"SemHash, cosine {threshold}", found, time.process_time() - started))
    return results


def _photo_edits() -> dict[str, Callable[[Any, np.random.Generator], Any]]:
    """Return what becomes of a photo of Pillow that somebody copies, by name."""
    from PIL import Image

    def packed(photo: Any, quality: int) -> Any:
        stream = io.BytesIO()
        photo.save(stream, "JPEG", quality=quality)
        return Image.open(stream)

    def cropped(photo: Any, rng: np.random.Generator) -> Any:
        x, y = rng.integers(0, 5, 2).tolist()
        return photo.crop((x, y, x + 28, y + 28)).resize((32, 32), Image.Resampling.BICUBIC)

    def resized(photo: Any, rng: np.random.Generator) -> Any:
        side = int(rng.choice([20, 24, 48, 64]))
        return photo.resize((side, side), Image.Resampling.BICUBIC)

    return {
        "packed again": lambda photo, rng: packed(photo, 50),
        "cropped": cropped,
        "another size": resized,
        "cropped and packed again": lambda photo, rng: packed(cropped(photo, rng), 75),
    }


def _of_photos(rows: Rows, photos: list[Any], name: str) -> Dataset:
    return Dataset(rows, name, "list", content=Items("image", len(photos), lambda a, b: photos[a:b]))


def measure_photos(most: int = 500, tests: int = 1_000) -> list[Result]:
    """Plant edited copies of CIFAR-10's test photos among training photos, and look for them."""
    from PIL import Image

    from ._features import archive, encode

    rng, data = np.random.default_rng(0), archive()

    def photos(part: str, count: int) -> list[Any]:
        offsets, jpeg = data[f"{part}_offsets"], data[f"{part}_jpeg"]
        files = [jpeg[offsets[row] : offsets[row + 1]].tobytes() for row in range(count)]
        return [np.asarray(Image.open(io.BytesIO(file))) for file in files]

    train, test = photos("train", most), photos("test", tests)
    source, edits = rng.choice(tests, PLANTED, replace=False), _photo_edits()
    kinds = np.arange(PLANTED) % len(edits)
    planted = [
        np.asarray(list(edits.values())[kind](Image.fromarray(test[row]), rng))
        for row, kind in zip(source.tolist(), kinds.tolist(), strict=True)
    ]
    sides = [Image.fromarray(photo).resize((32, 32), Image.Resampling.BICUBIC) for photo in planted]
    rows = encode(np.stack([*train, *map(np.asarray, sides), *test]))
    pool, held_out = rows[:-tests], rows[-tests:]
    apart = np.linalg.norm(pool[most:] - held_out[source], axis=1)
    results = []
    for name, one, other in (
        ("rows alone", gmmatch.open(pool), gmmatch.open(held_out)),
        (
            "rows and photos",
            _of_photos(pool, [*train, *planted], "train"),
            _of_photos(held_out, test, "test"),
        ),
    ):
        started = time.process_time()
        leaks = gmmatch.leaks(one, other)
        pairs = dict(zip(leaks.train.tolist(), leaks.test.tolist(), strict=True))
        hit = np.array([most + at in pairs for at in range(PLANTED)])
        own = np.array([pairs.get(most + at) == row for at, row in enumerate(source.tolist())])
        results.append(
            {
                "part": "photos",
                "name": f"gmmatch, {name}",
                "recall": float(hit.mean()),
                "by_edit": [float(hit[kinds == kind].mean()) for kind in range(len(edits))],
                "precision": float(own.sum() / max(1, hit.sum())),
                "alike_before": sum(row < most for row in pairs),
                "reach": leaks.reach,
                "apart": [float(np.median(apart[kinds == kind])) for kind in range(len(edits))],
                "seconds": time.process_time() - started,
            }
        )
    return results


def measure_reference(seed: int = 0, n_reference: int = 50, keep: int = 500) -> list[Result]:
    """Pick rows like 50 rows of 10 intents, with a fifth of the labels wrong and rows of no intent."""
    lines = _lines()
    rows = _embedded([line["text"] for line in lines])
    intents = np.array([line["intent"] for line in lines])
    part = np.array([line["split"] for line in lines])
    rng = np.random.default_rng(seed)
    pool = np.flatnonzero((part == "train") | (intents == "out_of_scope"))
    names = np.unique(intents[part == "train"])
    wanted = rng.choice(names, 10, replace=False)
    others = np.flatnonzero((part == "val") & np.isin(intents, wanted))
    chosen = np.concatenate(
        [rng.choice(others[intents[others] == name], n_reference // 10, replace=False) for name in wanted]
    )
    reference = rows[chosen]
    truth = intents[pool]
    given = np.where(truth == "out_of_scope", rng.choice(names, len(pool)), truth)
    codes = corrupt.corrupt_labels(np.searchsorted(names, given), 0.2, "symmetric", rng=seed)[0]
    own = rows[pool]
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)
    near = unit @ (reference / np.linalg.norm(reference, axis=1, keepdims=True)).T
    nearest = np.argsort(-near.max(axis=1), kind="stable")[:keep]
    found = {
        FIRST: gmmatch.select(own, codes, keep=keep, match_to=reference).indices,
        "match_to, no labels": gmmatch.select(own, keep=keep, match_to=reference).indices,
        "nearest to a reference row (RDS+)": nearest,
        "weights of hashed word pairs (DSIR)": _dsir(
            [lines[row]["text"] for row in pool],
            [lines[row]["text"] for row in chosen],
            keep,
            rng,
        ),
    }
    results = []
    for name, picks in found.items():
        counts = np.array([(truth[picks] == intent).sum() for intent in wanted])
        results.append(
            {
                "part": "reference",
                "name": name,
                "seed": seed,
                "right": float(np.isin(truth[picks], wanted).mean()),
                "intents": int((counts > 0).sum()),
                "fewest": int(counts.min()),
                "open_set": int((truth[picks] == "out_of_scope").sum()),
                "wrong_label": float((names[codes[picks]] != truth[picks]).mean()),
            }
        )
    return results


def _dsir(
    texts: list[str], reference: list[str], keep: int, rng: np.random.Generator, buckets: int = 10_000
) -> Labels:
    """Return rows drawn by importance weights of hashed words and pairs of words (Xie and others 2023)."""
    import zlib

    def counts(text: str) -> npt.NDArray[np.int64]:
        words = text.lower().split()
        parts = words + [" ".join(pair) for pair in itertools.pairwise(words)]
        return np.array([zlib.crc32(word.encode()) % buckets for word in parts], dtype=np.int64)

    hashed = [counts(text) for text in texts]
    target, source = (
        np.bincount(np.concatenate(some), minlength=buckets) + 1e-3
        for some in ([counts(text) for text in reference], hashed)
    )
    # Half of the target is the pool itself: what 50 short texts do not hold says nothing.
    ratio = np.log(0.5 + 0.5 * (target / target.sum()) / (source / source.sum()))
    weights = np.array([ratio[own].sum() for own in hashed])
    return np.argsort(-(weights + rng.gumbel(size=len(weights))), kind="stable")[:keep].astype(np.int64)


def learn(rows: Rows, labels: Labels, test: Rows, truth: Labels) -> list[float]:
    """Return the accuracy of three learners in per cent: logistic regression, neighbours, RBF-SVM."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    from ._learners import logistic, tuned

    middle, spread = rows.mean(axis=0), max(float(rows.std(axis=0).mean()), 1e-9)
    kept, asked = (rows - middle) / spread, (test - middle) / spread
    learners = (
        logistic(kept, labels, tuned(kept, labels)),
        KNeighborsClassifier(5, weights="distance").fit(kept, labels),
        SVC(C=10.0).fit(kept, labels),
    )
    return [100 * float((learner.predict(asked) == truth).mean()) for learner in learners]


def measure_shards(n_rows: int = 6_000, keep: int = 600) -> list[Result]:
    """Add ten shards of letters one by one, against one run over all of them."""
    rows, truth = _letters()
    test, test_truth = rows[n_rows : n_rows + 3_000], truth[n_rows : n_rows + 3_000]
    rows, truth = rows[:n_rows], truth[:n_rows]
    means = np.stack([rows[truth == code].mean(axis=0, dtype=np.float64) for code in range(26)])

    def told(name: str, picks: Labels) -> Result:
        own = [rows[picks[truth[picks] == code]].mean(axis=0) for code in range(26)]
        apart = np.linalg.norm(np.stack(own) - means, axis=1)
        error = float(np.average(apart, weights=np.bincount(truth[picks], minlength=26)))
        return {
            "part": "shards",
            "name": name,
            "objective": error,
            "learners": learn(rows[picks], truth[picks], test, test_truth),
        }

    results = []
    for name, params in (("", {}), (", rows alone", {"strategy": "rows", "lift": "off"})):
        one = gmmatch.select(rows, truth, keep=keep, **params).indices  # type: ignore[arg-type]
        kept, found = [], None
        for shard in np.array_split(np.arange(n_rows), SHARDS):
            count = f"+{keep // SHARDS}"
            found = gmmatch.select(rows[shard], truth[shard], keep=count, include=found, **params)  # type: ignore[arg-type]
            kept.append(shard[found.indices])
        results += [told(f"one run{name}", one), told(f"ten shards{name}", np.concatenate(kept))]
    budgets = np.bincount(truth[one], minlength=26)
    for name, parts in (("one run", 1), ("ten shards", SHARDS)):
        chosen = [
            _greedy(rows, np.flatnonzero(truth == code), means[code], int(budgets[code]), parts)
            for code in range(26)
        ]
        results.append(told(f"{name}, by a loop that knows the last target", np.concatenate(chosen)))
    return results


def _greedy(rows: Rows, members: Labels, target: npt.NDArray[np.float64], keep: int, parts: int) -> Labels:
    """Match a target part by part, by the plain loop of the residual step."""
    theta, picks = np.zeros(len(target)), []
    for number, part in enumerate(np.array_split(members, parts)):
        left = part.tolist()
        for _ in range(round(keep * (number + 1) / parts) - len(picks)):
            apart = np.square(theta + target - rows[left]).sum(axis=1)
            picks.append(left.pop(int(apart.argmin())))
            theta = theta + target - rows[picks[-1]]
    return np.array(picks, np.int64)


PARTS: dict[str, Callable[[], list[Result]]] = {
    "texts": measure_texts,
    "photos": measure_photos,
    "reference": lambda: [result for seed in range(3) for result in measure_reference(seed)],
    "shards": measure_shards,
}


def _per_cent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _scores(values: list[float]) -> list[str]:
    return [f"{value:.1f}" for value in values]


def _copies(some: list[Result], edits: Sequence[str]) -> str:
    rows = [
        [
            own["name"],
            *map(_per_cent, [own["recall"], *own["by_edit"]]),
            _per_cent(own["precision"]) if own["recall"] else "-",
            f"{own['alike_before']:,}",
            f"{own['seconds']:.1f}",
        ]
        for own in some
    ]
    return table(["", "recall", *edits, "precision", "alike before", "seconds"], rows)


def _references(some: list[Result]) -> str:
    keys = ("right", "intents", "fewest", "open_set", "wrong_label")
    rows = []
    for name in dict.fromkeys(own["name"] for own in some):
        mean = {key: float(np.mean([own[key] for own in some if own["name"] == name])) for key in keys}
        rows.append(
            [name, _per_cent(mean["right"]), *_scores([mean[key] for key in keys[1:4]]),
             _per_cent(mean["wrong_label"])]
        )  # fmt: skip
    head = ["", "of the 10 intents", "intents picked", "picks of the rarest", "of no intent", "wrong label"]
    return table(head, rows)


def page(results: list[Result]) -> Page:
    """Return the page of all results."""
    texts, photos, references, shards = (
        [own for own in results if own["part"] == part] for part in PARTS
    )  # in the order of PARTS
    rows = [[own["name"], f"{own['objective']:.3f}", *_scores(own["learners"])] for own in shards]
    lost = np.subtract(shards[0]["learners"], shards[1]["learners"])
    reach, (packed, cropped) = photos[0]["reach"], photos[0]["apart"][:2]
    return Page(
        "What aims achieve",
        "Are copies of a test set found, are the picks like a reference, and what do shards cost that come"
        " one by one?",
        f"Embeddings alone hardly find copies: {_per_cent(texts[0]['recall'])} of edited texts and"
        f" {_per_cent(photos[0]['recall'])} of edited photos; with the texts and photos themselves it is"
        f" {_per_cent(texts[1]['recall'])} and {_per_cent(photos[1]['recall'])}. Ten shards cost"
        f" {', '.join(_scores(list(lost)))} points for the three learners below. Of the picks that should be"
        " like a reference"
        f" {_per_cent(float(np.mean([own['right'] for own in references if own['name'] == FIRST])))} are of"
        " its intents, if the rows have labels.",
        "`python -m benchmarks.curate`. [What aims are](../howto/aims.md). Texts are embedded by WordLlama,"
        " photos by EfficientNet-Lite0; the seconds are of one core. *Precision* is the share of the"
        " planted rows found whose pair is what was copied. *Alike before* are rows that are found though"
        " they were not planted. The rivals: SemHash on the same embeddings; the rows nearest to a"
        " reference row (RDS+); weights of hashed words and pairs of words, half of the target being the"
        " pool (DSIR).",
        "what a cost changes: it says where the sequence of picks ends, and prefers nothing.",
        [
            "## Copies of a test set among texts: `holdout`",
            f"{PLANTED:,} edited copies of CLINC150's 4,500 test texts among its 15,000 training texts.",
            _copies(texts, EDITS),
            "## Copies of a test set among photos",
            f"{PLANTED:,} copies of CIFAR-10's first 1,000 test photos among 500 training photos: a quarter"
            " each packed again as JPEG of quality 50, cropped to 28 of 32 pixels and enlarged, of another"
            " size (20 to 64 pixels), and cropped and packed again (quality 75). The photos were"
            " recompressed before: their pixels differ from the original CIFAR-10 by 5.8/255 on average.",
            _copies(photos, list(_photo_edits())),
            f"Rows are near-duplicates within {reach:.3g} of each other. Half of the copies that were packed"
            f" again are farther than {packed:.3g} from their photo, and half of the cropped ones farther"
            f" than {cropped:.3g}: the features of small photos change much.",
            "## Rows like a reference: `match_to`",
            "CLINC150's training texts of 150 intents, a fifth of the labels wrong, and 1,200 texts of no"
            " intent under random labels. The reference has 50 rows of 10 intents; 500 rows are picked;"
            " means of three draws.",
            _references(references),
            "## Shards that come one by one: `include`",
            "Letters in ten shards of 600 rows, 60 rows picked of each, against one run over all 6,000"
            " rows. *Error* is the distance of the picks' mean from that of the class, weighted by picks."
            " *Rows alone* matches neither teaching picks nor Fourier features. The last two lines are a"
            " plain loop that knows the mean of all rows from the beginning: what shards cost whoever"
            " picks.",
            table(["", "error", "logistic regression", "neighbours", "RBF-SVM"], rows),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path, default=Path("out/curate.jsonl"))
    parser.add_argument("--pages", type=Path, default=RESULTS, help="folder of the page")
    asked = parser.parse_args()
    results = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    for part in asked.only:
        results = [own for own in results if own["part"] != part] + PARTS[part]()
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text("".join(f"{json.dumps(own)}\n" for own in results))
    page(results).write(asked.pages / "curate.md")


if __name__ == "__main__":
    main()
