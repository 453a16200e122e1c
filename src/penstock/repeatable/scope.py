"""The code of one function, followed statement by statement, far enough to tell a set from what is sorted.

Loops are gone through twice, so that what their first round leaves is seen; after branches a name has what any of them left.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import itertools
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.repeatable.bytecode import loads, writes
from penstock.repeatable.calls import HASH, SET_ORDER, Look
from penstock.repeatable.chance import Cause, Kind
from penstock.repeatable.proven import cause_of_call, unknown
from penstock.repeatable.source import Definition, bound_parameters, definitions, stored_names
from penstock.repeatable.values import (
    Bound,
    Known,
    Method,
    NotImported,
    OneOf,
    Shape,
    Value,
    Written,
    attribute,
    constant,
    elements,
    is_number,
    is_property,
    is_set,
    is_unordered,
    joined,
)

_UNKNOWN = Shape.UNKNOWN


def follow(look: Look, function: types.FunctionType, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
    """Follow a function; where it has no source, whatever its code names counts as used."""
    written = definitions(function)
    if written:
        return joined([Scope(look, function).follow(node, given, named) for node in written])
    _look_at_names(look, function)
    return _UNKNOWN


def _look_at_names(look: Look, function: types.FunctionType) -> None:
    scope = Scope(look, function)
    for name in writes(function.__code__):
        look.meet(Cause(Kind.STATE, f"sets {name}, which is kept from record to record"))
    for first, *rest in loads(function.__code__):
        value = scope.outside(first)
        for part in rest:
            look.use(value)
            value = scope.attribute(value, part)
        look.use(value)
        if isinstance(value, Known) and value.value is builtins.hash:
            look.meet(Cause(Kind.ORDER, HASH))
        if isinstance(value, Known) and isinstance(value.value, types.FunctionType):
            look.call(value, [], {})
        elif isinstance(value, Known) and callable(value.value):
            look.meet(cause_of_call(value.value))
        elif isinstance(value, NotImported):
            look.meet(unknown(value.name))


class Scope:
    """The names of one function while its code is followed."""

    def __init__(self, look: Look, function: types.FunctionType, outer: Scope | None = None) -> None:
        self._look = look
        self._function = function
        self._outer = outer
        self._locals: dict[str, Value] = {}
        self._owned: frozenset[str] = frozenset()
        self._globals: frozenset[str] = frozenset()
        self._returned: list[Value] = []
        self._yields = False

    def inner(self, node: Definition, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Follow the code of a function that is written inside of this one."""
        return Scope(self._look, self._function, self).follow(node, given, named)

    def follow(self, node: Definition, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Follow the code of the function; what it returns, as far as that is known."""
        stored, self._globals = stored_names(node)
        parameters = bound_parameters(node.args, self._function if self._outer is None else None, given, named)
        self._owned = frozenset(stored | parameters.keys())
        self._locals = dict(parameters)
        if isinstance(node, ast.Lambda):
            return self.value(node.body)
        self._statements(node.body)
        return _UNKNOWN if self._yields else joined(self._returned)

    # -- names ---------------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value:
        """What a name stands for."""
        if name in self._globals:
            return self._global(name)
        if name in self._owned:
            return self._locals.get(name, _UNKNOWN)
        return self._outer.lookup(name) if self._outer is not None else self.outside(name)

    def outside(self, name: str) -> Value:
        """What a name stands for that the function does not set itself."""
        cells = dict(zip(self._function.__code__.co_freevars, self._function.__closure__ or ()))
        if name in cells:
            try:
                return Known(cells[name].cell_contents)
            except ValueError:  # not set yet: a function that names itself
                return _UNKNOWN
        return self._global(name)

    def _global(self, name: str) -> Value:
        if name in self._function.__globals__:
            return Known(self._function.__globals__[name])
        return Known(getattr(builtins, name)) if hasattr(builtins, name) else _UNKNOWN

    def _owns(self, name: str) -> bool:
        return name in self._owned or (self._outer is not None and self._outer._owns(name))

    def attribute(self, owner: Value, name: str) -> Value:
        """What an attribute is; that of a property is what its function gives."""
        found = attribute(owner, name)
        if isinstance(found, Bound) and is_property(owner, name):
            return self._look.call(found, [], {})
        return found

    def assign(self, target: ast.expr, value: Value) -> None:
        """A name, an attribute or an element is set."""
        if isinstance(target, ast.Name):
            if target.id in self._globals or not self._owns(target.id):
                self._keeps(f"sets {target.id}, which is kept from record to record", target)
            scope: Scope | None = self
            while scope is not None and target.id not in scope._owned:
                scope = scope._outer
            if scope is not None:
                scope._locals[target.id] = value
        elif isinstance(target, ast.Attribute | ast.Subscript):
            owner = self.value(target.value)
            if isinstance(target, ast.Subscript):
                self.value(target.slice)
            if isinstance(owner, Known):
                self._keeps(f"sets {_text(target)}, which is kept from record to record", target)
        elif isinstance(target, ast.Tuple | ast.List):
            if is_unordered(value):
                self._met(Kind.ORDER, f"takes elements {SET_ORDER}", target)
            held = value.value if isinstance(value, Known) and isinstance(value.value, tuple) else ()
            known = [Known(one) for one in held] if len(held) == len(target.elts) else []
            for one, part in itertools.zip_longest(target.elts, known, fillvalue=_UNKNOWN):
                assert isinstance(one, ast.expr)
                assert not isinstance(part, ast.expr)
                self.assign(one, part)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, _UNKNOWN)

    def _keeps(self, what: str, node: ast.expr) -> None:
        self._met(Kind.STATE, what, node)

    def _met(self, kind: Kind, what: str, node: ast.expr | ast.stmt) -> None:
        self._look.meet(Cause(kind, what), node.lineno)

    # -- statements ----------------------------------------------------------------------------------------------------

    def _statements(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._look.at(statement.lineno)
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return):
            self._returned.append(_UNKNOWN if node.value is None else self.value(node.value))
        elif isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self.value(node.value))
        elif isinstance(node, ast.AugAssign):
            self._add_to(node)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._for(node)
        elif isinstance(node, ast.While):
            self.value(node.test)
            for _ in range(2):
                self._branch(node.body)
            self._statements(node.orelse)
        elif isinstance(node, ast.If):
            self.value(node.test)
            self._branches([node.body, node.orelse])
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                opened = self.value(item.context_expr)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, opened)
            self._statements(node.body)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            self._try(node)
        elif isinstance(node, ast.Match):
            self.value(node.subject)
            self._branches([case.body for case in node.cases])
        elif isinstance(node, ast.Delete):
            self._delete(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._locals[node.name] = self._written(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.Expr):
            self.value(node.value)

    def _add_to(self, node: ast.AugAssign) -> None:
        value = self.value(node.value)
        if isinstance(node.target, ast.Name):
            before = self.lookup(node.target.id)
            value = before if is_unordered(before) else value if is_unordered(value) else _UNKNOWN
        self.assign(node.target, value)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        through = self.value(node.iter)
        if is_unordered(through):
            self._met(Kind.ORDER, f"goes through elements {SET_ORDER}", node)
        self.assign(node.target, elements(through))
        for _ in range(2):
            self._branch(node.body)
        self._statements(node.orelse)

    def _branch(self, statements: Iterable[ast.stmt]) -> None:
        self._branches([statements, ()])

    def _branches(self, branches: Iterable[Iterable[ast.stmt]]) -> None:
        """Each may be what is run: afterwards a name has what any of them left."""
        before, ends = dict(self._locals), []
        for branch in branches:
            self._locals = dict(before)
            self._statements(branch)
            ends.append(self._locals)
        names = {name for end in ends for name in end}
        self._locals = {name: joined([end.get(name, _UNKNOWN) for end in ends]) for name in names}

    def _try(self, node: Any) -> None:
        self._statements(node.body)
        self._branches([*([handler.body for handler in node.handlers]), node.orelse])
        self._statements(node.finalbody)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and isinstance(self.value(target.value), Known):
                self._keeps(f"deletes {_text(target)}, which is kept from record to record", target)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                found = _module(name)
            else:
                base = _module(node.module or "") if not node.level else _UNKNOWN
                found = base if base is _UNKNOWN else attribute(base, alias.name)
            self._locals[alias.asname or alias.name.partition(".")[0]] = found

    # -- expressions ---------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """What an expression gives."""
        follow = _EXPRESSIONS.get(type(node))
        if follow is not None:
            found: Value = follow(self, node)
            return found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return _UNKNOWN

    def _of_name(self, node: ast.Name) -> Value:
        return self._look.use(self.lookup(node.id), node.lineno)

    def _of_attribute(self, node: ast.Attribute) -> Value:
        return self._look.use(self.attribute(self.value(node.value), node.attr), node.lineno)

    def _of_call(self, node: ast.Call) -> Value:
        called = self.value(node.func)
        given = [self.value(one) for one in node.args if not isinstance(one, ast.Starred)]
        for one in node.args:
            if isinstance(one, ast.Starred):
                self._spread(one)
        named = {word.arg: self.value(word.value) for word in node.keywords if word.arg is not None}
        for word in node.keywords:
            if word.arg is None:
                self.value(word.value)
        self._look.at(node.lineno)
        for value in [*given, *named.values()]:
            # Whoever is given a function may call it.
            if isinstance(value, Known) and isinstance(value.value, types.FunctionType | types.MethodType | functools.partial):
                self._look.call(value, [], {})
        if isinstance(called, Method) and called.name == "sort":
            self._sorted(node.func)
        return self._look.call(called, given, named)

    def _sorted(self, method: ast.expr) -> None:
        """What took its order from a set has one of its own now."""
        owner = method.value if isinstance(method, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in self._owned:
            self._locals[owner.id] = _UNKNOWN

    def _spread(self, node: ast.Starred) -> Value:
        if is_unordered(self.value(node.value)):
            self._met(Kind.ORDER, f"takes elements {SET_ORDER}", node)
        return _UNKNOWN

    def _of_set(self, node: ast.Set) -> Value:
        held = [self.value(one.value if isinstance(one, ast.Starred) else one) for one in node.elts]
        return _UNKNOWN if all(map(is_number, held)) else Shape.SET

    def _of_several(self, node: ast.Tuple | ast.List) -> Value:
        held = []
        for one in node.elts:
            if isinstance(one, ast.Starred):
                if is_unordered(self.value(one.value)):
                    held.append(Shape.IN_SETS_ORDER)
            else:
                held.append(self.value(one))  # type: ignore[arg-type]
        if any(map(is_unordered, held)):
            return Shape.IN_SETS_ORDER
        return OneOf(tuple(held)) if isinstance(node, ast.Tuple) and held else _UNKNOWN

    def _of_comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> Value:
        kept, unordered = dict(self._locals), False
        owned = self._owned
        for part in node.generators:
            through = self.value(part.iter)
            unordered = unordered or is_unordered(through)
            self._owned |= {name.id for name in ast.walk(part.target) if isinstance(name, ast.Name)}
            self.assign(part.target, elements(through))
            for condition in part.ifs:
                self.value(condition)
        for made in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.value(made)
        self._locals, self._owned = kept, owned
        if isinstance(node, ast.SetComp):
            return Shape.SET
        return Shape.IN_SETS_ORDER if unordered else _UNKNOWN

    def _of_operation(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        of_sets = is_set(left) or left is Shape.KEYS or (is_set(right) and not isinstance(node.op, ast.Sub))
        if of_sets and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub):
            return Shape.SET
        if isinstance(node.op, ast.Mod) and isinstance(left, Known) and isinstance(left.value, str) and is_unordered(right):
            self._met(Kind.ORDER, f"writes elements {SET_ORDER}", node)
        if is_unordered(left) or is_unordered(right):
            return Shape.IN_SETS_ORDER
        return Shape.NUMBER if is_number(left) and is_number(right) else _UNKNOWN

    def _of_index(self, node: ast.Subscript) -> Value:
        owner = self.value(node.value)
        self.value(node.slice)
        if owner is Shape.IN_SETS_ORDER:
            self._met(Kind.ORDER, f"takes an element {SET_ORDER}", node)
        return elements(owner)

    def _of_text(self, node: ast.FormattedValue) -> Value:
        if is_unordered(self.value(node.value)):
            self._met(Kind.ORDER, f"writes elements {SET_ORDER}", node)
        return _UNKNOWN

    def _of_choice(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        return joined([self.value(node.body), self.value(node.orelse)])

    def _of_either(self, node: ast.BoolOp) -> Value:
        return joined([self.value(one) for one in node.values])

    def _of_assignment(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def _of_yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        self._yields = True
        if node.value is not None and is_unordered(self.value(node.value)) and isinstance(node, ast.YieldFrom):
            self._met(Kind.ORDER, f"yields elements {SET_ORDER}", node)
        return _UNKNOWN

    def _written(self, node: Definition) -> Value:
        """A function inside of this one: it is looked into where it is written, whoever calls it."""
        for default in [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]:
            self.value(default)
        written = Written(node, self)
        if not isinstance(node, ast.Lambda):
            self._locals[node.name] = written  # it may call itself
        self._look.call(written, [], {})
        return written


_EXPRESSIONS: dict[type[ast.expr], Any] = {
    ast.Name: Scope._of_name,
    ast.Attribute: Scope._of_attribute,
    ast.Call: Scope._of_call,
    ast.Constant: lambda _, node: constant(node),
    ast.Set: Scope._of_set,
    ast.Tuple: Scope._of_several,
    ast.List: Scope._of_several,
    ast.Starred: Scope._spread,
    ast.ListComp: Scope._of_comprehension,
    ast.SetComp: Scope._of_comprehension,
    ast.DictComp: Scope._of_comprehension,
    ast.GeneratorExp: Scope._of_comprehension,
    ast.BinOp: Scope._of_operation,
    ast.Subscript: Scope._of_index,
    ast.FormattedValue: Scope._of_text,
    ast.IfExp: Scope._of_choice,
    ast.BoolOp: Scope._of_either,
    ast.NamedExpr: Scope._of_assignment,
    ast.Yield: Scope._of_yield,
    ast.YieldFrom: Scope._of_yield,
    ast.Lambda: Scope._written,
}


def _module(name: str) -> Value:
    """A module that a function imports; of those that are not imported yet only the standard library's are."""
    if name not in sys.modules and name.partition(".")[0] in sys.stdlib_module_names:
        try:
            importlib.import_module(name)
        except ImportError:
            return NotImported(name)
    return Known(sys.modules[name]) if name in sys.modules else NotImported(name)


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else text[:37] + "..."
