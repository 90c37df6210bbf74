"""The parameters of the estimators, for the reference: their base class makes `__init__` when it is run."""

import inspect
from typing import Any

import griffe

import gmmatch


class Signatures(griffe.Extension):
    """Give the estimator the parameters that it has when it is run."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Write down the parameters of the one estimator that is a public name."""
        if pkg.name != "gmmatch":
            return
        found = [
            griffe.Parameter(
                each.name,
                kind=griffe.ParameterKind.keyword_only,
                default=repr(each.default),
                annotation=None
                if each.annotation is each.empty
                else inspect.formatannotation(each.annotation),
            )
            for each in inspect.signature(gmmatch.GMMatching).parameters.values()
        ]
        # In place of the mark that says whose default it is.
        pkg["api.select"].parameters["guard"].default = '"auto"'
        function = griffe.Function("__init__", parameters=griffe.Parameters(griffe.Parameter("self"), *found))
        pkg["selectors.gm_matching.GMMatching"].set_member("__init__", function)
