"""Texts of several columns, conversations, and tables of numbers and categories."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gmmatch
from gmmatch.data import Unreadable, open_dataset
from gmmatch.errors import GmmatchError

TOPICS = ["plane ticket", "train ride", "bread recipe", "soup recipe"]


def chats(n: int = 40) -> list[dict]:
    return [
        {
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": f"{TOPICS[row % 4]} {row}"},
                {"role": "assistant", "content": [{"type": "text", "text": f"answer {row}"}]},
            ]
        }
        for row in range(n)
    ]


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def texts(data):
    return data.content.read(0, 2)


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("messages", "Be kind.\nplane ticket 0\nanswer 0"),
        ("messages:all", "Be kind.\nplane ticket 0\nanswer 0"),
        ("messages:user", "plane ticket 0"),
        ("messages:assistant", "answer 0"),
    ],
)
def test_turns_that_count(tmp_path, which, expected) -> None:
    path = write(tmp_path / "chat.jsonl", chats())
    assert texts(open_dataset(path, text=which))[0] == expected


def test_other_chats_are_recognised(tmp_path) -> None:
    share = [
        {"conversations": [{"from": "human", "value": f"q{n}"}, {"from": "gpt", "value": "a"}]}
        for n in range(9)
    ]
    alpaca = [{"instruction": f"do {n}", "input": "", "output": "done"} for n in range(9)]
    assert texts(open_dataset(write(tmp_path / "s.jsonl", share), holds="text"))[1] == "q1\na"
    assert texts(open_dataset(write(tmp_path / "a.jsonl", alpaca), holds="text"))[1] == "do 1\ndone"


def test_a_template_of_columns(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("title,body\nOne,first\nTwo,\n")
    assert texts(open_dataset(path, text="{title}\\n{body}")) == ["One\nfirst", "Two\n"]
    with pytest.raises(GmmatchError, match="no column 'name'"):
        open_dataset(path, text="{name}: {body}")


def test_a_selection_of_chats_comes_back_as_the_same_lines(tmp_path) -> None:
    pytest.importorskip("wordllama")
    path = write(tmp_path / "chat.jsonl", chats())
    kept = gmmatch.select(gmmatch.open(path, encoder="wordllama", text="messages:user"), keep=8)
    kept.materialize(tmp_path / "kept")
    lines, given = (tmp_path / "kept" / "kept.jsonl").read_text().splitlines(), path.read_text().splitlines()
    assert lines == [given[row] for row in kept.indices]


def test_turns_that_are_none_and_odd_conversations(tmp_path) -> None:
    path = write(tmp_path / "odd.jsonl", [{"messages": []}, {"messages": 3}, {"messages": [4]}, *chats(3)])
    found = open_dataset(path, text="messages:user").content.read(0, 4)
    assert [isinstance(one, Unreadable) for one in found] == [True, True, True, False]
    with pytest.raises(GmmatchError, match="the turns that count are"):
        open_dataset(path, text="messages:nobody")


def test_a_table_of_numbers_and_categories_with_gaps(tmp_path) -> None:
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], 60)
    age = rng.normal(40, 10, 60).round(2)
    lines = ["age,colour,label"]
    for row in range(60):
        shown = "" if row == 5 else age[row]
        lines.append(f"{shown},{'' if row == 7 else colour[row]},{'yes' if colour[row] == 'red' else 'no'}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines))
    data = gmmatch.open(path, labels="label")
    assert data.shape == (60, 5)  # the number, its gaps, three colours
    rows = data.rows
    present = np.delete(age, 5)
    low, middle, high = np.quantile(present, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(np.delete(rows[:, 0], 5), (present - middle) * 1.349 / (high - low), atol=1e-9)
    assert (rows[5, 0], rows[5, 1]) == (0.0, 1.0)
    assert (rows[:, 2:].sum(axis=1) == (np.arange(60) != 7)).all()
    assert any("taken as categories" in note for note in data.notes)
    assert len(gmmatch.select(data, keep=0.2)) == 12


def test_a_column_of_many_texts_is_refused_with_the_way_out(tmp_path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("\n".join(["name,age,label", *(f"person {n},{n},{n % 2}" for n in range(80))]))
    with pytest.raises(GmmatchError, match=r"text=\.\.\."):
        gmmatch.open(path, labels="label")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (lambda n: f'"{n},5"', r"got amount; amount has decimal commas, as '0,5'; write 0\.5$"),
        (
            lambda n: "n/a" if n == 70 else str(n),
            r"got amount; amount holds numbers, but 'n/a' in row 70; leave such cells empty$",
        ),
        (
            lambda n: f"2020-01-01 {n}",
            r"try ids='amount' or name texts .* remove what is neither, such as dates$",
        ),
    ],
)
def test_columns_that_are_nearly_numbers_are_told_apart(tmp_path, cell, said) -> None:
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["amount,age,label", *(f"{cell(n)},{n},{n % 2}" for n in range(80))]))
    with pytest.raises(GmmatchError, match=said):
        gmmatch.open(path, labels="label")


def test_the_refusal_of_a_table_names_only_the_columns_that_cannot_be_read(tmp_path) -> None:
    path = tmp_path / "people.csv"
    lines = [f"{2000 + n}/1/{n},{'abc'[n % 3]},{n},{n % 2}" for n in range(80)]
    path.write_text("\n".join(["day,colour,age,label", *lines]))
    with pytest.raises(GmmatchError, match="numbers or have at most 50 categories; got day; "):
        gmmatch.open(path, labels="label")
