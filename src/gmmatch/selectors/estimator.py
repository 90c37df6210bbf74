"""What scikit-learn asks of an estimator, without importing scikit-learn: its parameters are its fields."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, dataclass_transform

from ..former import warn_former
from ..validation import check_parameters


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
class Estimator:
    """Base of estimators whose parameters are annotated class attributes with a default.

    A subclass needs no constructor: it has one that takes its own parameters and those of its bases by name.
    The parameters that its docstring describes are joined by those that the docstrings of its bases do, so
    that each is described once. `sklearn.base.clone`, pipelines and searches take such an estimator.

    Examples
    --------
    >>> class Rounding(Estimator):
    ...     digits: int = 2
    >>> Rounding(digits=3), Rounding().get_params(), Rounding().set_params(digits=1).digits
    (Rounding(digits=3), {'digits': 2}, 1)
    """

    former: ClassVar[Mapping[str, str]] = {}
    """Names that parameters had before, and what they are called now: they work, with a warning."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(eq=False, repr=False, kw_only=True)(cls)
        cls.__doc__ = _described(cls)
        construct: Callable[..., None] = vars(cls)["__init__"]

        @functools.wraps(construct)
        def __init__(self: Estimator, *args: object, **params: object) -> None:
            construct(self, *args, **cls.renamed(params))

        setattr(cls, "__init__", __init__)  # noqa: B010 - its type is that of the fields

    @classmethod
    def renamed(cls, params: Mapping[str, object]) -> dict[str, Any]:
        """Return parameters under the names that they have now."""
        for name in cls.former:
            if name in params:
                warn_former(f"{name} is called {cls.former[name]} now", 4)
        return {cls.former.get(name, name): value for name, value in params.items()}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return all parameters with their defaults, in the order of the constructor."""
        return {name: each.default for name, each in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` changes nothing, for no parameter is an estimator."""
        return {name: getattr(self, name) for name in self.defaults()}

    def set_params(self, **params: object) -> Self:
        """Set some parameters, and return the estimator."""
        params = self.renamed(params)
        check_parameters(params, self.defaults(), type(self).__name__)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self.defaults()
        changed = [f"{n}={v!r}" for n, v in self.get_params().items() if repr(v) != repr(defaults[n])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Return the tags of an estimator; scikit-learn alone calls this, and so is imported already."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def _described(cls: type[Estimator]) -> str:
    """Return the docstring of a class, with the parameters of its base among its own, the budget first."""
    head, own, sections = _parts(cls)
    known = {name for entry in own for name in _names(entry)}
    own += [entry for entry in _parts(cls.__mro__[1])[1] if known.isdisjoint(_names(entry))]
    own.sort(key=lambda entry: "keep" not in _names(entry))
    described = ["\n".join(["Parameters", "----------", *own])] if own else []
    return "\n\n".join([head, *described, *sections])


def _parts(cls: type) -> tuple[str, list[str], list[str]]:
    """Return what a docstring says before its sections, an entry per parameter, and the other sections."""
    head, *parts = re.split(r"\n\n(?=[A-Z]\w+\n-{3,}\n)", inspect.cleandoc(vars(cls).get("__doc__") or ""))
    own = [
        entry for part in parts if part.startswith("Parameters") for entry in re.split(r"\n(?=\S)", part)[2:]
    ]
    return head, own, [part for part in parts if not part.startswith("Parameters")]


def _names(entry: str) -> set[str]:
    """Return the parameters that an entry of a docstring describes."""
    return set(entry.split("\n", 1)[0].split(", "))
