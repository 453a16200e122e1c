"""The syntax tree of a function, found by its place in its file."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType

from penstock.repeatable.values import Known, Shape, Value

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def definitions(function: FunctionType) -> list[Definition]:
    """Where a function is written; several where lambdas of a line cannot be told apart, none where there is no source."""
    code = function.__code__
    if not linecache.getlines(code.co_filename, function.__globals__):
        return []
    tree = _parsed("".join(linecache.getlines(code.co_filename, function.__globals__)))
    if tree is None:
        return []
    found = [
        node for node in tree.get(code.co_firstlineno, ()) if _name(node) == code.co_name and _parameters(node) == _names(code)
    ]
    return _told_apart(found, code) if len(found) > 1 else found


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> dict[int, list[Definition]] | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # not what was compiled: a notebook's magic, a template
        return None
    found: dict[int, list[Definition]] = {}
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            decorators = [] if isinstance(node, ast.Lambda) else [decorator.lineno for decorator in node.decorator_list]
            found.setdefault(min([node.lineno, *decorators]), []).append(node)
    return found


def _told_apart(found: list[Definition], code: CodeType) -> list[Definition]:
    """From Python 3.11 on code knows the columns it was written in."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return found
    spans = {span for span in positions() if None not in span}
    exact = [node for node in found if isinstance(node, ast.Lambda) and _span(node.body) in spans]
    inside = [node for node in exact or found if any(_contains(node, span) for span in spans)]
    return inside or found


def _span(node: ast.expr) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _contains(node: Definition, span: tuple[int, int, int, int]) -> bool:
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return start < (span[0], span[2]) and (span[1], span[3]) <= end


def _name(node: Definition) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _parameters(node: Definition) -> tuple[str, ...]:
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return tuple(argument.arg for argument in [*named, *(more for more in (given.vararg, given.kwarg) if more is not None)])


def _names(code: CodeType) -> tuple[str, ...]:
    more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]


def stored_names(node: Definition) -> tuple[frozenset[str], frozenset[str]]:
    """The names a function sets and owns, and those it says are global; not those of functions inside of it."""
    if isinstance(node, ast.Lambda):
        return frozenset(name.target.id for name in ast.walk(node.body) if isinstance(name, ast.NamedExpr)), frozenset()
    stored, elsewhere, of_module = set[str](), set[str](), set[str]()
    left: list[ast.AST] = list(node.body)
    while left:
        one = left.pop()
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            stored.add(one.name)
            continue
        if isinstance(one, ast.Lambda):
            continue
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store | ast.Del):
            stored.add(one.id)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            stored |= {alias.asname or alias.name.partition(".")[0] for alias in one.names}
        elif isinstance(one, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and one.name:
            stored.add(one.name)
        elif isinstance(one, ast.MatchMapping) and one.rest:
            stored.add(one.rest)
        elif isinstance(one, ast.Global):
            of_module |= set(one.names)
        elif isinstance(one, ast.Nonlocal):
            elsewhere |= set(one.names)
        left += ast.iter_child_nodes(one)
    return frozenset(stored - elsewhere - of_module), frozenset(of_module)


def bound_parameters(
    given: ast.arguments, function: FunctionType | None, values: Sequence[Value], named: Mapping[str, Value]
) -> dict[str, Value]:
    """Parameters with what they are given; with their defaults where they are given nothing."""
    places = [one.arg for one in [*given.posonlyargs, *given.args]]
    found: dict[str, Value] = dict.fromkeys([*places, *(one.arg for one in given.kwonlyargs)], Shape.UNKNOWN)
    found |= {one.arg: Shape.UNKNOWN for one in (given.vararg, given.kwarg) if one is not None}
    if function is not None:
        defaults = function.__defaults__ or ()
        found |= dict(zip(places[len(places) - len(defaults) :], map(Known, defaults)))
        found |= {name: Known(value) for name, value in (function.__kwdefaults__ or {}).items()}
    found |= dict(zip(places, values))
    return found | {name: value for name, value in named.items() if name in found}
