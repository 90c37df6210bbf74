"""Small changes of a module, one at a time: what could be a mistake of somebody who writes it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

SRC = Path(__file__).parents[1] / "src"
COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Add,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitXor: ast.BitAnd,
}  # fmt: skip

# What follows is left as it is, since no result depends on it: a change there is no fault.
# Progress that is shown; hints to a reader about what comes next; how many threads a library may use.
IDLE_CALLS = ("advance", "task", "announce", "settle", "threadpool_limits", "limit_threads")
# `strict` of zip is an assertion, as `assert` is; the others tell a library what it need not do.
IDLE_KEYWORDS = ("strict", "ahead", "copy", "overwrite_a", "check_finite")
# How much is done at a time, or which of two ways to one result is taken; that the ways agree is tested.
IDLE_NAMES = {
    "GRAM_BYTES": "a Gram matrix, or a product per pick",
    "_GRAM_PAYS_FROM": "the same",
    "_PRODUCTS_PAY_TO": "the same, in a compiled loop",
    "_CACHE_BYTES": "the same",
    "gram_pays": "the same",
    "products_pay": "the same",
    "_CALL_VALUES": "picks between two reports of progress",
    "_TILE_ROWS": "tiles of a matrix of products",
    "_TOGETHER_VALUES": "batches that are read in one go",
    "SEGMENT_ROWS": "batches that are sent to a worker in one go",
    "_AHEAD": "work that waits for a thread; picks that are put in order at a time",
    "_BUNDLES": "chains that a worker is given in one go",
    "_BLOCKS_AT_ONCE": "blocks in one product of matrices",
    "_SORTED_AT_ONCE": "picks in one sort",
    "_HALVINGS": "of a range that is found to its last digit before",
    "_MANY_PROTOTYPES": "all points, or the two beside a number",
    "_CHUNK_BYTES": "columns of which medians are found at a time",
    "_MANY_GROUPS": "quantiles group by group, or of all groups from one order",
    "_CENTERS_AT_ONCE": "points in one product of matrices",
    "_MOST_KEPT": "probabilities are kept, or found again from the same head",
}


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    module: str
    line: int
    lines: range  # of the statement, without what is inside it
    owner: str  # the outermost function or method that is changed, or nothing
    names: tuple[str, ...]  # what the statement assigns to
    change: str
    place: tuple[int, int]  # which node, and which of the changes that it allows

    def tree(self) -> ast.Module:
        """Return the changed module."""
        tree = ast.parse(source(self.module))
        node = list(places(tree))[self.place[0]].node
        new = list(changes(node))[self.place[1]][1]
        ast.copy_location(new, node)
        changed: ast.Module = ast.fix_missing_locations(_Swap(node, new).visit(tree))
        return changed


class Place(NamedTuple):
    """A node of a module that runs."""

    node: ast.AST
    owner: str
    statement: ast.stmt | None


def source(module: str) -> str:
    """Return the text of a module."""
    return (SRC / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def places(tree: ast.Module) -> Iterator[Place]:
    """Yield the nodes of a module that run, each with its function or method and its statement."""

    def below(node: ast.AST, owner: str, depth: int, statement: ast.stmt | None) -> Iterator[Place]:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or _idle(child):
                    continue
                inner, deeper = owner, depth
                if isinstance(child, ast.FunctionDef | ast.ClassDef) and depth < 2 and _open(owner, tree):
                    inner, deeper = f"{owner}.{child.name}".lstrip("."), depth + 1
                own = child if isinstance(child, ast.stmt) else statement
                yield Place(child, inner, own)
                yield from below(child, inner, deeper, own)

    return below(tree, "", 0, None)


def _open(owner: str, tree: ast.Module) -> bool:
    """Tell whether a name is no function: what is inside a function belongs to it."""
    return (
        all(not (isinstance(n, ast.FunctionDef) and n.name == owner) for n in tree.body) and "." not in owner
    )


def _idle(node: ast.AST) -> bool:
    """Tell whether a node does nothing that a test should notice: imports, names for types, docstrings."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise | ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Call) and ast.unparse(node.func) in IDLE_CALLS:
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _idle(node.value):
        return True
    if isinstance(node, ast.keyword) and node.arg in IDLE_KEYWORDS:
        return True
    if isinstance(node, ast.FunctionDef) and node.name in IDLE_NAMES:
        return True
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in IDLE_NAMES:
        return True
    return isinstance(node, ast.Assign) and ast.unparse(node.value).split("[")[0] in (
        "npt.NDArray", "tuple", "list", "dict", "Callable", "Literal",
    )  # fmt: skip


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node could be instead, with a word that says so."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[at] = COMPARE[type(operator)]()
            yield "compare", other
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATE:
        other = copy.deepcopy(node)
        other.op = OPERATE[type(node.op)]()
        yield "operate", other
    elif isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and-or", other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield "constant", ast.Constant(_other(node.value))
    elif (
        isinstance(node, ast.If | ast.While | ast.IfExp)
        and not isinstance(node.test, ast.Compare | ast.BoolOp)
        and ast.unparse(node.test).split("(")[0] not in IDLE_NAMES
    ):
        other = copy.deepcopy(node)
        other.test = ast.UnaryOp(ast.Not(), other.test)
        yield "condition", other
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(
        node, ast.Break | ast.Continue
    ):
        yield "left out", ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "return nothing", ast.Return(ast.Constant(None))


def _other(value: float) -> float:
    if isinstance(value, bool):
        return not value
    return 2 * value or 1.0 if isinstance(value, float) else value + 1


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().generic_visit(node)


def mutants(module: str) -> Iterator[Mutant]:
    """Yield every change of a module."""
    for number, (node, owner, statement) in enumerate(places(ast.parse(source(module)))):
        for turn, (word, new) in enumerate(changes(node)):
            assert statement is not None
            body = getattr(statement, "body", None)
            end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
            lines = range(statement.lineno, max(end, statement.lineno) + 1)
            said = f"{word}: {ast.unparse(node).splitlines()[0]} -> {ast.unparse(new).splitlines()[0]}"
            names = tuple(
                n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
            yield Mutant(module, node.lineno, lines, owner, names, said, (number, turn))
