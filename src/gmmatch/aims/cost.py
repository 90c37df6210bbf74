"""What rows cost: tokens, minutes, bytes. The budget is in that unit, and is never exceeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np

from ..arrays import Mask, Vector
from ..data import Dataset
from ..errors import InvalidInput
from ..inputs import numbers_of_rows
from ..records import Selection
from ..validation import Amount, check_keep, is_whole
from .texts import read_texts

_MORE = 1.1  # times as many rows as seem needed, before a run is repeated with more
_WELL_SPENT = 0.9  # of a budget that nothing is said of
_TOKENS = "tokens"
_TOKENS_PER_WORD = 4 / 3  # of English texts
_WORDS_NOTE = (
    "tokens were counted as words, times four thirds; install wordllama, which brings a tokenizer, or pass"
    " the counts of your own"
)
_TOKENIZER_NOTE = "tokens were counted by the Llama 2 tokenizer that wordllama brings"
_TEXTS_AT_ONCE = 1 << 13


@dataclass(frozen=True, eq=False)
class Cost:
    """What each row costs."""

    values: Vector
    name: str
    note: str | None = None

    @classmethod
    def of(cls, given: object, data: Dataset) -> Cost:
        """Read costs: a column, a file, an array, or `tokens`, those of the texts."""
        if isinstance(given, str) and given == _TOKENS and _TOKENS not in data.columns:
            return cls(*_count_tokens(data))
        values, good = numbers_of_rows(given, data, "cost", 0.0)
        with np.errstate(over="ignore"):
            total = values[good].sum()
        if not np.isfinite(total):
            raise InvalidInput("cost adds up to more than a number can hold; count in a larger unit")
        if not values[good].any():
            raise InvalidInput("cost is 0 in every row, so that it limits nothing; leave it out")
        return cls(np.where(np.isfinite(values), values, 0.0), given if isinstance(given, str) else "cost")

    def budget(self, keep: object, allowed: Mask) -> float:
        """Return the most that the picks may cost; a share is one of the cost of all that may be picked."""
        keep, total = check_keep(keep), float(self.values[allowed].sum())
        if isinstance(keep, str):  # what so many rows as are enough cost is known when they are picked
            return total
        return float(keep) if is_whole(keep) or isinstance(keep, Amount) else keep * total

    def rows_for(self, budget: float, allowed: Mask, spent: float = 0.0, rows: int = 0) -> int:
        """Return about how many rows the budget buys, a few more than that.

        `spent`, `rows`: what so many rows have cost already.
        """
        mean = spent / rows if rows and spent else float(self.values[allowed].mean()) or 1.0
        return int(min(allowed.sum(), np.ceil(_MORE * budget / mean) + 1))

    def pick(
        self, fit: Callable[[int], Selection], budget: float, allowed: Mask, first: int, least: int
    ) -> Selection:
        """Pick the rows that the budget pays for.

        The picks are one sequence, so that a run with about as many rows as the budget buys is cut where it
        ends. `fit`: picks so many rows. `first`: how many are in already. `least`: what else must be picked.
        """
        rows = max(self.rows_for(budget, allowed), first + least)
        while True:
            found = fit(rows)
            costs = self.values[found.indices]
            paid = int(np.searchsorted(np.cumsum(costs), budget * (1 + 1e-12), side="right"))
            if paid < len(found) or rows >= allowed.sum():
                break
            wanted = self.rows_for(budget, allowed, float(costs.sum()), rows)
            rows = min(int(allowed.sum()), max(2 * rows, wanted))
        if paid < max(1, first):
            raise InvalidInput(
                f"keep gives {budget:,.6g} of {self.name}, which does not pay for"
                f" {'the rows of include' if first else 'the first row'}; keep more"
            )
        kept, spent = found.head(paid), float(costs[:paid].sum())
        if paid == len(found) or spent >= _WELL_SPENT * budget:
            return kept
        note = (
            f"{spent:,.6g} of {budget:,.6g} {self.name} were spent, because the next pick costs"
            f" {costs[paid]:,.6g}; exclude rows that cost so much"
        )
        hint = "\n".join(filter(None, [kept.info.hint, note]))
        return replace(kept, info=replace(kept.info, hint=hint))


def _count_tokens(data: Dataset) -> tuple[Vector, str, str]:
    """Return the tokens of each text, some texts at a time, what they are, and who counted them.

    By a tokenizer that an installed package brings, if one does; else from the words.
    """
    content = data.content
    if content is None or content.kind != "text":
        raise InvalidInput(
            f'cost="tokens" counts those of texts, and {data.name} holds none; name a column of costs'
        )
    try:
        from tokenizers import Tokenizer

        package = import_module("wordllama")
        file = next((Path(str(package.__file__)).parent / "tokenizers").glob("l2*.json"))
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_padding()
        tokenizer.no_truncation()
    except (ImportError, OSError, StopIteration):
        tokenizer = None
    counts: list[float] = []
    texts = read_texts(content)
    while some := list(islice(texts, _TEXTS_AT_ONCE)):
        if tokenizer is None:
            counts += [_TOKENS_PER_WORD * len(text.split()) for text in some]
        else:
            counts += [len(found.ids) for found in tokenizer.encode_batch(some, add_special_tokens=False)]
    return np.array(counts, np.float64), _TOKENS, _WORDS_NOTE if tokenizer is None else _TOKENIZER_NOTE
