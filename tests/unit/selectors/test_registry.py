"""Methods of one's own, and what the registry says of all of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

import gmmatch
from gmmatch import plugins
from gmmatch.encoders import FAMILIES, Family, encoder, register_encoder
from gmmatch.encoders.plain import PixelEncoder
from gmmatch.errors import InvalidInput, InvalidParameter, UnknownParameter
from gmmatch.selectors import METHODS, Easy, GMMatching, Group, Method, Picks, Selector

SHARED = {"keep", "center", "by_class", "budgets", "guard", "random_state"}
ROWS = np.random.default_rng(0).normal(size=(40, 3))


class Last(Selector):
    """Keep the last rows.

    Parameters
    ----------
    skip
        How many rows at the end to leave out.
    """

    name = "last"
    skip: int = 0

    def _check(self) -> None:
        if self.skip < 0:
            raise InvalidParameter(f"skip must be at least 0; got {self.skip}")

    def _select(self, group: Group, k: int) -> Picks:
        order = np.arange(len(group.members))[::-1][self.skip : self.skip + k]
        zeros = np.zeros(k)
        return Picks(order, zeros, zeros, np.zeros(3), 0.0)


@pytest.fixture
def registered() -> Iterator[Method]:
    yield gmmatch.register_method("last", Last, needs_labels=True, nested=True)
    del METHODS["last"]


def test_a_method_of_ones_own_is_selected_by_name(registered: Method) -> None:
    assert "last" in gmmatch.methods()
    labels = np.repeat([0, 1], 20)
    found = gmmatch.select(ROWS, 4, labels, "last", skip=1)
    assert sorted(found.indices) == [17, 18, 37, 38]
    assert found.method == "last"
    with pytest.raises(InvalidInput, match="method 'last' needs labels, one per row"):
        gmmatch.select(ROWS, 4, method="last")
    with pytest.raises(InvalidParameter, match="skip must be at least 0; got -1"):
        gmmatch.select(ROWS, 4, labels, "last", skip=-1)
    with pytest.raises(InvalidParameter, match="other engines are for gm-matching"):
        gmmatch.select(ROWS, 4, labels, "last", engine="ray")
    assert registered.keeps == "Keep the last rows."
    assert registered.needs == "labels"


def test_names_that_are_taken_and_things_that_are_no_method_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="the method 'random' is there already"):
        gmmatch.register_method("random", Last)
    with pytest.raises(InvalidParameter, match="must be a subclass of Selector; got <class 'dict'>"):
        gmmatch.register_method("mine", dict)  # type: ignore[arg-type]
    with pytest.raises(UnknownParameter, match="a method has no parameter 'nest'"):
        gmmatch.register_method("mine", Last, nest=True)
    with pytest.raises(InvalidParameter, match="must be text; got ''"):
        gmmatch.register_method("", Last)
    with pytest.raises(InvalidParameter, match="the encoder 'pixels' is there already"):
        register_encoder("pixels", PixelEncoder, "image")
    assert set(gmmatch.methods()) == set(METHODS)


class _Point(EntryPoint):
    """An entry point that gives what it is told to."""

    def __new__(cls, name: str, found: Any) -> _Point:
        self = super().__new__(cls)
        EntryPoint.__init__(self, name, "module:thing", "group")
        vars(self).update(found=found, dist=None)
        return self

    def __init__(self, name: str, found: Any) -> None:
        pass

    def load(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_installed_packages_add_methods_and_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "gmmatch.methods": [_Point("a-class", Last), _Point("an-entry", Method("other", Easy, nested=True))],
        "gmmatch.encoders": [_Point("tiny", Family(PixelEncoder, "image", None, None, "small"))],
    }
    monkeypatch.setattr(plugins, "entry_points", lambda group: points[group])
    for registry, names in ((METHODS, ("a-class", "an-entry")), (FAMILIES, ("tiny",))):
        monkeypatch.setattr(registry, "_entries", dict(registry))
        monkeypatch.setattr(registry, "_complete", False)
        assert set(names) <= set(registry)
    assert METHODS["an-entry"].name == "an-entry"
    assert len(gmmatch.select(ROWS, 5, method="a-class")) == 5
    assert encoder("tiny", size=2).dimension == 12


@pytest.mark.parametrize(
    ("found", "message"),
    [(ImportError("no module named x"), "no module named x"), (3, "must be a subclass"), (Last, "already")],
)
def test_a_package_that_does_not_work_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, found: Any, message: str
) -> None:
    name = "random" if found is Last else "broken"
    monkeypatch.setattr(plugins, "entry_points", lambda group: [_Point(name, found)])
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS))
    monkeypatch.setattr(METHODS, "_complete", False)
    with pytest.warns(UserWarning, match=f"the method '{name}' is left out: .*{message}"):
        assert len(gmmatch.select(ROWS, 5, method="random")) == 5


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_parameter_of_a_method_is_described_once_and_has_a_default(method: Method) -> None:
    section = inspect.cleandoc(method.selector.__doc__ or "").split("Parameters\n----------\n")[1]
    entries = [line for line in section.split("\n\n")[0].split("\n") if line and not line.startswith(" ")]
    signature = inspect.signature(method.selector).parameters
    assert sorted(", ".join(entries).split(", ")) == sorted(signature)
    assert all(each.default is not inspect.Parameter.empty for each in signature.values())
    assert set(signature) >= SHARED


def test_an_estimator_keeps_the_conventions_of_scikit_learn() -> None:
    estimator = GMMatching(0.2, step="projection", center=[1.0, 2.0])
    twin = clone(estimator)
    assert twin is not estimator
    assert twin.get_params() == estimator.get_params()
    assert repr(twin) == "GMMatching(keep=0.2, center=[1.0, 2.0], step='projection')"
    assert repr(GMMatching()) == "GMMatching()"
    assert estimator.set_params(keep=7).keep == 7
    with pytest.raises(ValueError, match="GMMatching has no parameter 'kep'"):
        estimator.set_params(kep=7)
    with pytest.raises(TypeError, match="colour"):
        GMMatching(colour="red")
    pipeline = Pipeline([("pick", GMMatching())])
    for params in ParameterGrid({"pick__keep": [3, 5]}):
        assert clone(pipeline).set_params(**params).get_params()["pick__keep"] == params["pick__keep"]
    assert not get_tags(estimator).target_tags.required


def test_parameters_of_all_methods_are_checked_in_one_place() -> None:
    for selector in (Last, Easy, GMMatching):
        with pytest.raises(InvalidParameter, match="by_class must be True or False; got 'no'"):
            selector(0.5, by_class="no").fit(ROWS)
        with pytest.raises(InvalidParameter, match="guard must be 'auto' or 'off'"):
            selector(0.5, guard="on").fit(ROWS)
        with pytest.raises(InvalidParameter, match="center must be"):
            selector(0.5, center="middle").fit(ROWS)
