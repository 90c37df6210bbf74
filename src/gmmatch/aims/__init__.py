"""What is wanted of the picks: one file per aim, each a small frozen record.

`open_aims` reads what they need before rows are judged; `OpenAims.resolve` turns them, once rows are judged,
into what selectors understand: rows that may be picked, rows that come first, and what shares the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import AnyArray, IntArray, Mask
from ..checkpoints import pack
from ..data import Dataset
from ..errors import InvalidInput, InvalidParameter
from ..facts import Evidence, digest_of_arrays
from ..inputs import open_foreign
from ..records import Selection
from ..selectors.groups import Wanted
from ..trust import Verdict
from ..validation import Beyond, CheckedRows, check_choice, check_keep, is_whole, resolve_keep
from .cost import Cost
from .duplicates import Holdout, Leaks, drop_duplicates
from .include import Exclude, Include
from .match_to import Reference, open_references, reference_parts
from .quality import Quality
from .strata import notes_on_strata, open_strata, strata_parts, unmet
from .texts import same_texts

__all__ = ["Aims", "Cost", "Holdout", "Leaks", "OpenAims", "Resolved", "open_aims"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Aims:
    """The aims as they were asked for; see `gmmatch.select`."""

    include: object = None
    exclude: object = None
    holdout: object = None
    duplicates: str = "allow"
    cost: object = None
    strata: object = None
    match_to: object = None
    quality: object = None

    def check(self) -> None:
        """Refuse what is wrong whatever the data."""
        check_choice(self.duplicates, ("allow", "drop"), "duplicates")
        if self.strata is not None and self.match_to is not None:
            raise InvalidParameter("strata and match_to both say what shares the budget; pass one of them")

    def given(self) -> list[Any]:
        """Return all that was given, paths among it: nothing of it may be written to."""
        found: list[Any] = []
        for name, value in vars(self).items():
            several = [*value, *value.values()] if isinstance(value, Mapping) else value
            if name == "strata" and isinstance(value, str):
                several = [*value.split(","), value]
            found += several if isinstance(several, (list, tuple)) else [several]
        return found

    def settings(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return the aims that hold for other data, too: they name columns, and no rows, files or arrays."""
        known = {"tokens", *columns}
        names = self.strata.split(",") if isinstance(self.strata, str) else self.strata
        strata = [str(name).strip() for name in names] if isinstance(names, (list, tuple)) else []
        score = self.quality[0] if isinstance(self.quality, tuple) else self.quality
        holds = {
            "duplicates": (self.duplicates, self.duplicates != "allow"),
            "cost": (self.cost, isinstance(self.cost, str) and self.cost in known),
            "strata": (",".join(strata), bool(strata) and known.issuperset(strata)),
            "quality": (self.quality, isinstance(score, str) and score in known),
        }
        return {name: value for name, (value, anywhere) in holds.items() if anywhere}

    @property
    def by_class(self) -> bool:
        """Whether classes are what shares the budget."""
        return self.strata is None and self.match_to is None


@dataclass(frozen=True, eq=False)
class Resolved:
    """Aims as selectors understand them, and what the information of a run says of them."""

    wanted: Wanted = field(default_factory=Wanted)
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    leaks: Leaks | None = None
    without_quality: Wanted | None = None  # what is wanted but for quality: what a share is a share of
    keep: int | None = None  # how many rows to keep, where that is not as it was asked for


@dataclass(frozen=True, eq=False)
class OpenAims:
    """Aims whose data was read."""

    include: Include
    exclude: Exclude | None = None
    holdout: Holdout | None = None
    drop: bool = False
    texts: IntArray | None = None  # which texts are the same, where duplicates are dropped
    cost: Cost | None = None
    strata: Mapping[str, AnyArray] | None = None
    match_to: list[Reference] | None = None
    quality: Quality | None = None

    def recipe(self) -> dict[str, str]:
        """Return what a saved run must have in common with this one: a digest of all that was read."""
        earlier = self.include.earlier
        known = {name: own for name, own in vars(self).items() if name not in ("include", "texts")}
        known = {name: own for name, own in known.items() if own is not None and own is not False}
        if len(self.include.rows) or earlier is not None:
            others = None if earlier is None else (earlier.info.fingerprint, earlier.indices)
            known["include"] = self.include.rows, others
        return {"aims": digest_of_arrays(pack(known))} if known else {}

    def resolve(
        self,
        checked: CheckedRows,
        verdict: Verdict | None,
        evidence: Evidence | None,
        params: Mapping[str, Any],
        seed: int,
        asked: object,
    ) -> Resolved:
        """Say which rows may be picked, which come first, and what shares the budget.

        `params`: of the method. `asked`: how much to keep, as users say it.
        """
        first, by_class, earlier = self.include.rows, params.get("by_class", True), self.include.earlier
        allowed, notes, info, leaks = self._allowed(checked, evidence, seed)
        parts, keep = None, None
        if self.strata is not None:
            parts = strata_parts(self.strata, checked, by_class, params.get("budgets"))
            info["strata"] = {"columns": list(self.strata), "parts": len(parts.names)}
            notes += notes_on_strata(self.strata)
        if self.match_to is not None:
            if self.cost is None:
                keep = k = resolve_keep(params["keep"], int(allowed.sum()))
            else:
                k = self.cost.rows_for(self.cost.budget(asked, allowed), allowed)
            found = reference_parts(self.match_to, checked, verdict, by_class, seed, k)
            parts, more, info["match_to"] = found
            parts.codes[first[parts.codes[first] < 0]] = 0  # rows that are in already count somewhere
            notes += more
        allowed[first] = True
        if parts is not None:
            allowed &= parts.codes >= 0
        there = int(allowed.sum())
        if keep is not None and there < keep:
            notes.append(f"only {there:,} rows are like match_to; {keep:,} were asked for")
            keep = there
        carried = None if earlier is None else earlier.carried
        wanted = Wanted(None if (allowed == checked.usable).all() else allowed, first, parts, carried)
        if self.quality is None:
            return Resolved(wanted, tuple(notes), info, leaks, keep=keep)
        codes = parts.codes if parts is not None else checked.judged(by_class)[0]
        share = 0.0
        if self.cost is None and not isinstance(params["keep"], str):  # a share is one of all these rows
            keep = keep or resolve_keep(params["keep"], there)
            share = keep / there
        best = self.quality.best(np.zeros(len(allowed), np.int64) if codes is None else codes, allowed, share)
        best[first] = True
        info["quality"] = {"weight": self.quality.weight, "compete": int(best.sum())}
        return Resolved(replace(wanted, allowed=best), tuple(notes), info, leaks, wanted, keep)

    def _allowed(
        self, checked: CheckedRows, evidence: Evidence | None, seed: int
    ) -> tuple[Mask, list[str], dict[str, Any], Leaks | None]:
        """Return which rows may be picked, notes on that, what was found as plain data, and leaks."""
        first, earlier, leaks = self.include.rows, self.include.earlier, None
        allowed, notes, info = checked.usable.copy(), list(self.include.notes), {}
        allowed[self.include.again] = False
        if len(first) or earlier is not None:
            info["include"] = {"rows": len(first)} if earlier is None else {"elsewhere": len(earlier)}
        if self.exclude is not None:
            allowed[self.exclude.rows] = False
            notes += self.exclude.notes
            info["exclude"] = {"rows": len(self.exclude.rows)}
        if self.holdout is not None:
            leaks = self.holdout.leaks(checked, seed)
            allowed[leaks.train] = False
            notes += [leaks.sentence] if len(leaks) else []
            if in_already := int(np.isin(leaks.train, first).sum()):
                notes.append(f"{in_already:,} included rows are near-duplicates of held-out rows, and stay")
        if self.drop:
            distinct, info["duplicates"] = drop_duplicates(checked, seed, evidence, first, self.texts)
            allowed &= distinct
            if dropped := info["duplicates"]["dropped"]:
                notes.append(f"{dropped:,} near-duplicates of other rows were not picked")
        return allowed, notes, info, leaks

    def keep(self, keep: object, checked: CheckedRows) -> Any:
        """Return how much to keep, as selectors take it."""
        asked, earlier = check_keep(keep), self.include.earlier
        if self.cost is not None:  # whatever is paid for is cut later
            return len(checked.rows)
        if isinstance(asked, Beyond):
            return int(asked) + len(self.include.rows)
        if not is_whole(asked):
            return asked
        there = sum(map(len, self.include.before))
        if earlier is not None and earlier.carried is not None:
            there = int(earlier.carried.counts.sum())
        if there and asked <= there:
            raise InvalidInput(
                f"keep gives {asked:,} rows in all, and include has {there:,} of other data; keep more, or"
                f' say how many of this data: keep="+{asked}"'
            )
        return asked - there

    def notes(self, picked: Selection, wanted: Wanted) -> list[str]:
        """Say what could not be met."""
        notes = [None if self.cost is None else self.cost.note]
        if wanted.parts is not None:
            notes.insert(0, unmet(wanted.parts, picked.indices))
            asked = picked.params.get("keep")
            if is_whole(asked) and len(picked) < asked:
                notes.append(
                    f"kept {len(picked):,} rows, the most that strata allow; {asked:,} were asked for"
                )
        return [note for note in notes if note]


def open_aims(
    aims: Aims,
    data: Dataset,
    checked: CheckedRows,
    seed: int,
    encoder: object = None,
    text: str | None = None,
) -> OpenAims:
    """Read what the aims need, and refuse what cannot be."""
    include, width = Include.of(aims.include, data, checked), checked.rows.shape[1]
    drop, content, exclude, holdout = aims.duplicates == "drop", data.content, aims.exclude, aims.holdout
    return OpenAims(
        include,
        None if exclude is None else Exclude.of(exclude, data, checked, include),
        None
        if holdout is None
        else Holdout.of(open_foreign(holdout, encoder, text, data.drop), data, "holdout", width),
        drop,
        same_texts(content) if drop and content is not None and content.kind == "text" else None,
        None if aims.cost is None else Cost.of(aims.cost, data),
        None if aims.strata is None else open_strata(aims.strata, data),
        None
        if aims.match_to is None
        else open_references(aims.match_to, width, seed, encoder, text, data.drop),
        None if aims.quality is None else Quality.of(aims.quality, data),
    )
