"""Texts that are nearly the same as held-out ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.aims.texts import LEAST, find_alike
from gmmatch.data import Dataset, Items, Unreadable

WORDS = ["play", "call", "send", "the", "a", "my", "please", "jazz", "mother", "money", "to", "bank", "list"]
WORDS += ["book", "table", "alarm", "for", "seven"]


def items(texts: list[Any]) -> Items:
    return Items("text", len(texts), lambda start, stop: texts[start:stop])


def made_up(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(4, 12))) for _ in range(count)]


def overlap(one: str, other: str) -> float:
    """Return the Jaccard index of the sequences of four letters."""

    def parts(text: str) -> set[str]:
        clean = f" {' '.join(re.findall(r'[a-z0-9_]+', text.lower()))} "
        return {clean[at : at + 4] for at in range(len(clean) - 3)}

    return len(parts(one) & parts(other)) / len(parts(one) | parts(other))


def test_as_by_comparing_all_with_all() -> None:
    train, test = made_up(400, 1), made_up(150, 2)
    train[::5] = [f"{text.capitalize()}, please!" for text in test[:80]]
    every = np.array([[overlap(one, other) for other in test] for one in train])
    found = find_alike(items(train), items(test))
    assert (every[found.train, found.test] >= LEAST).all()
    assert np.allclose(found.likeness, every[found.train, found.test])
    # Every text that is surely alike, with the one that it is most like.
    sure = np.flatnonzero(every.max(axis=1) >= 0.7)
    assert np.isin(sure, found.train).mean() >= 0.99
    assert np.isin(np.flatnonzero(every.max(axis=1) >= LEAST), found.train).mean() >= 0.97
    assert (every[found.train].max(axis=1) == every[found.train, found.test]).mean() >= 0.99


def test_chunks_and_order_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = made_up(200, 1), made_up(60, 2)
    train[:60] = [text.upper() for text in test]
    first = find_alike(items(train), items(test))
    monkeypatch.setattr("gmmatch.aims.texts._AT_ONCE", 7)
    again = find_alike(items(train), items(test))
    assert (first.train == again.train).all()
    assert (first.test == again.test).all()
    back = find_alike(items(train[::-1]), items(test))
    assert (np.sort(199 - back.train) == first.train).all()


def test_texts_without_letters_are_like_none() -> None:
    assert not len(find_alike(items(["", "!?", "a b"]), items(["", "...", "call me"])).train)
    assert find_alike(items([Unreadable("broken"), "Hi"]), items(["hi"])).train.tolist() == [1]
    assert not len(find_alike(items(["call me"]), items([])).train)
    other = "žluťoučký kůň"
    assert find_alike(items([other.upper()]), items([other])).likeness.tolist() == [1.0]


def edited() -> tuple[Dataset, Dataset, list[str]]:
    rng = np.random.default_rng(0)
    train, test = made_up(300, 3), made_up(40, 4)
    train[:40] = [f"{text}?" for text in test]
    rows, others = rng.normal(size=(300, 8)), rng.normal(size=(40, 8))
    labels = np.arange(300) % 3
    return (
        Dataset(rows, "train", "list", labels=labels, content=items(train)),
        Dataset(others, "test", "list", content=items(test)),
        train,
    )


def test_held_out_texts_are_kept_out(tmp_path: Path) -> None:
    data, test, _ = edited()
    leaks = gmmatch.leaks(data, test)
    assert set(range(40)) <= set(leaks.train.tolist())
    assert leaks.by_text == len(leaks)
    pair = dict(zip(leaks.train.tolist(), leaks.test.tolist(), strict=True))
    assert sum(pair[row] == row for row in range(40)) >= 38
    apart = np.linalg.norm(data.rows[leaks.train] - test.rows[leaks.test], axis=1)
    assert np.allclose(leaks.distance, apart)
    assert leaks.to_pandas().columns.tolist() == ["train", "test", "distance", "overlap"]
    for batch_size in (None, 64):
        kept = gmmatch.select(data, keep=1.0, holdout=test, batch_size=batch_size)
        assert sorted(kept.indices.tolist()) == sorted(set(range(300)) - set(leaks.train.tolist()))
        assert kept.info.leaks is not None
        assert kept.info.leaks["by_text"] == len(leaks)
    assert "of nearly the same text" in str(kept.info.hint)


def test_files_of_texts(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    _, _, texts = edited()
    (tmp_path / "train.txt").write_text("\n".join(texts))
    (tmp_path / "test.txt").write_text("\n".join(text.replace("?", "") for text in texts[:40]))
    data = gmmatch.open(tmp_path / "train.txt", encoder="wordllama")
    kept = gmmatch.select(
        data, keep=1.0, holdout=gmmatch.open(tmp_path / "test.txt", encoder="wordllama"), guard="off"
    )
    assert not np.isin(np.arange(40), kept.indices).any()


@pytest.mark.parametrize("labelled", [True, False])
def test_texts_that_differ_in_signs_alone_are_duplicates(labelled: bool) -> None:
    rng = np.random.default_rng(0)
    texts = [f"{word} {number}" for number in range(50) for word in WORDS[:4]]
    texts[100:130] = [f"{text.upper()}!" for text in texts[:30]]
    rows = rng.normal(size=(200, 8))
    rows[199] = rows[5]  # and one that is a duplicate of a duplicate by its numbers
    data = Dataset(
        rows, "texts", "list", labels=np.arange(200) % 2 if labelled else None, content=items(texts)
    )
    for options in ({}, {"batch_size": 64}, {"guard": "off"}):
        kept = gmmatch.select(data, keep=1.0, duplicates="drop", **options).mask()
        assert (
            kept[:30].astype(int) + kept[100:130] + np.r_[np.zeros(5), kept[199], np.zeros(24)] == 1
        ).all()
        assert kept.sum() == 169
