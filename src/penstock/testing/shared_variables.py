"""Variables that a topology's functions and its test share. In production each worker has its own copy."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from penstock.pickling import dumps
from penstock.topology.specs import NodeSpec
from penstock.user_code import added_at, outer_stack_level
from penstock.variables import functions_in, variables_of

_MUTABLE = (list, dict, set, bytearray, deque)


class SharedVariableWarning(UserWarning):
    """A function of the topology and the test share a variable, which works only in the test driver."""


class SharedVariables:
    """The shared mutable variables of functions: lists, dicts and sets, and variables that functions assign."""

    def __init__(self, nodes: Iterable[NodeSpec]) -> None:
        self._before: dict[tuple[str, int], tuple[NodeSpec, FunctionType, bytes]] = {}
        for node in nodes:
            for function in functions_in(node):
                for variable in variables_of(function):
                    key = variable.name, id(variable.value)
                    if (variable.assigned or isinstance(variable.value, _MUTABLE)) and key not in self._before:
                        content = _content(variable.value)
                        if content is not None:
                            self._before[key] = node, function, content

    def warn_of_changes(self) -> None:
        """Warn once of each variable that has changed."""
        for (name, _), (node, function, before) in self._before.items():
            now = next((variable.value for variable in variables_of(function) if variable.name == name), None)
            if _content(now) != before:
                warnings.warn(
                    f"{name}, which {function.__qualname__} of {node.name}{added_at(node.added_at)} uses, has changed during the "
                    "test. This works in the test driver only: on Spark each worker has its own copy of it. Keep state in a "
                    "store, and read results from an output topic.",
                    SharedVariableWarning,
                    stacklevel=outer_stack_level(),
                )
        self._before.clear()


def _content(value: Any) -> bytes | None:
    try:
        return dumps(value)
    except Exception:  # noqa: BLE001  (unpicklable variables are refused elsewhere, if they must be sent to workers)
        return None
