"""Texts of rows that are more than one column: templates, and conversations as chat data has them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InvalidInput, InvalidParameter
from .items import Unreadable

_FIELD = re.compile(r"\{(\w[^{}]*)\}")
TURNS = ("all", "user", "assistant", "system")
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
}
CHATS = ("messages", "conversations", "conversation")
"""Columns of turns: `role` and `content`, or `from` and `value`."""
ALPACA = ("instruction", "input", "output")

Read = Callable[[Sequence[Any]], Any]
"""A function of the values of some columns that returns the text of a row."""


def is_template(text: str) -> bool:
    """Tell whether a text names columns in braces.

    >>> is_template("{title}: {body}"), is_template("body")
    (True, False)
    """
    return _FIELD.search(text) is not None


def text_of(spec: str | None, names: Sequence[str], where: str) -> tuple[list[str], Read] | None:
    """Return the columns that make up the text of a row, and what makes it; None: one column, as it is.

    `spec`: a template such as ``"{title}: {body}"``, a column of turns with those that count
    (``"messages:user"``), a column, or None: conversations are recognised by their columns.
    """
    if spec is None:
        chat = next((name for name in CHATS if name in names), None)
        if chat is not None:
            return [chat], lambda values: turns_text(values[0], "all")
        if all(name in names for name in ("instruction", "output")):
            own = [name for name in ALPACA if name in names]
            return own, _joined
        return None
    if is_template(spec) and spec not in names:
        return _template(spec, names, where)
    column, colon, turns = spec.rpartition(":")
    if colon and spec not in names and column in names:
        if turns not in TURNS:
            raise InvalidParameter(
                f"text={spec!r}: the turns that count are {', '.join(TURNS)}; got {turns!r}"
            )
        return [column], lambda values: turns_text(values[0], turns)
    if spec in CHATS and spec in names:
        return [spec], lambda values: turns_text(values[0], "all")
    return None


def _template(spec: str, names: Sequence[str], where: str) -> tuple[list[str], Read]:
    own = list(dict.fromkeys(_FIELD.findall(spec)))
    missing = [name for name in own if name not in names]
    if missing:
        raise InvalidInput(f"{where} has no column {missing[0]!r}, which text={spec!r} names")
    pattern = spec.replace("\\n", "\n").replace("\\t", "\t")

    def made(values: Sequence[Any]) -> Any:
        by_name = dict(zip(own, values, strict=True))
        wrong = next((value for value in values if isinstance(value, Unreadable)), None)
        if wrong is not None:
            return wrong
        if all(value is None for value in values):
            return None
        return _FIELD.sub(lambda found: _plain(by_name[found[1]]), pattern)

    return own, made


def _joined(values: Sequence[Any]) -> Any:
    return "\n".join(_plain(value) for value in values if value not in (None, "")) or None


def turns_text(turns: Any, which: str) -> Any:
    r"""Return the text of a conversation: of all turns, or of one side.

    >>> turns_text([{"role": "user", "content": "Hi"}, {"from": "gpt", "value": "Hello"}], "all")
    'Hi\nHello'
    >>> turns_text([{"role": "user", "content": "Hi"}, {"from": "gpt", "value": "Hello"}], "assistant")
    'Hello'
    """
    if turns is None or isinstance(turns, (str, Unreadable)):
        return turns
    if isinstance(turns, Mapping) or not hasattr(turns, "__iter__"):
        return Unreadable("a conversation that is no list of turns")
    said = []
    for turn in turns:
        if not isinstance(turn, Mapping):
            return Unreadable("a turn of a conversation that is no object with named values")
        role = str(turn.get("role", turn.get("from", "user"))).lower()
        content = turn.get("content", turn.get("value"))
        if which in ("all", _ROLES.get(role, role)) and content is not None:
            said.append(_plain(content))
    return "\n".join(said) or Unreadable(f"no turns of {which!r}" if which != "all" else "no turns")


def _plain(value: Any) -> str:
    """Return a value as text; of a list of parts, as some chats have, those that are text."""
    if isinstance(value, list):
        parts = [part.get("text", "") if isinstance(part, Mapping) else part for part in value]
        return "\n".join(str(part) for part in parts if part)
    return "" if value is None else str(value)
