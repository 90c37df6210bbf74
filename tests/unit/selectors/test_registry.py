"""Methods of one's own, and what the registry says of all of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

import gmmatch
from gmmatch.encoders import FAMILIES, encoder, register_encoder
from gmmatch.encoders.base import PixelEncoder
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
    found = gmmatch.select(ROWS, keep=4, labels=labels, method="last", skip=1)
    assert sorted(found.indices) == [17, 18, 37, 38]
    assert found.method == "last"
    with pytest.raises(InvalidInput, match="method 'last' needs labels, one per row"):
        gmmatch.select(ROWS, keep=4, method="last")
    with pytest.raises(InvalidParameter, match="skip must be at least 0; got -1"):
        gmmatch.select(ROWS, keep=4, labels=labels, method="last", skip=-1)
    with pytest.raises(InvalidParameter, match="other engines are for gm-matching"):
        gmmatch.select(ROWS, keep=4, labels=labels, method="last", engine="ray")
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


PACKAGE = """
from gmmatch.encoders import Family
from gmmatch.encoders.base import PixelEncoder
from gmmatch.selectors import Easy, Method

class Mine(Easy):
    name = "mine"

ENTRY = Method("other", Easy, nested=True)
FAMILY = Family(PixelEncoder, "image", None, None, "small")
"""


def install(folder: Path, points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package with these entry points where Python finds it, and forget what was found before."""
    name = f"package_of_{folder.name}"
    (folder / f"{name}.py").write_text(PACKAGE)
    (folder / f"{name}-1.dist-info").mkdir()
    (folder / f"{name}-1.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (folder / f"{name}-1.dist-info" / "entry_points.txt").write_text(points.replace("PACKAGE", name))
    for registry in (METHODS, FAMILIES):
        ours = {point.name for point in entry_points(group=registry.group)}
        own = {name: entry for name, entry in registry.items() if name not in ours}
        monkeypatch.setattr(registry, "_entries", own)
        monkeypatch.setattr(registry, "_complete", False)
    monkeypatch.syspath_prepend(folder)


def test_installed_packages_add_methods_and_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = (
        "[gmmatch.methods]\na-class = PACKAGE:Mine\nan-entry = PACKAGE:ENTRY\n"
        "[gmmatch.encoders]\ntiny = PACKAGE:FAMILY\n"
    )
    install(tmp_path, points, monkeypatch)
    assert {"a-class", "an-entry"} <= set(gmmatch.methods())
    assert METHODS["an-entry"].name == "an-entry"
    assert len(gmmatch.select(ROWS, keep=5, method="a-class")) == 5
    assert encoder("tiny", size=2).dimension == 12


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("broken = PACKAGE.nowhere:Mine", "is not a package"),
        ("broken = PACKAGE:FAMILY", "must be a subclass of Selector"),
        ("random = PACKAGE:Mine", "is there already"),
    ],
)
def test_a_package_that_does_not_work_is_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, message: str
) -> None:
    install(tmp_path, f"[gmmatch.methods]\n{point}\n", monkeypatch)
    with pytest.warns(UserWarning, match=rf"the method '\w+' of package_of_\w+ is left out: .*{message}"):
        assert "random" in gmmatch.methods()
    assert len(gmmatch.select(ROWS, keep=5, method="random")) == 5


def test_a_method_of_the_core_loads_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "[gmmatch.methods]\nbroken = PACKAGE.nowhere:Mine\n", monkeypatch)
    assert len(gmmatch.select(ROWS, keep=5, method="random")) == 5  # and does not warn


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
