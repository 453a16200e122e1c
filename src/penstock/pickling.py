"""Whether what the user wrote can be pickled for Spark's workers: each operator alone, so that the one that cannot is named.

The pickler is pyspark's own cloudpickle, which is one file without imports of pyspark. Where pyspark is not loaded (in tests
of a topology), that file alone is: all of pyspark would take a quarter of a second.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

from penstock.errors import ConfigError, TopologyError
from penstock.topology.registry import TopologyRegistry
from penstock.topology.specs import NodeSpec, ProcessorSpec, SinkSpec
from penstock.user_code import added_at
from penstock.variables import functions_in, variables_of


def check_picklable(registry: TopologyRegistry, config: Mapping[str, Any]) -> None:
    """Refuse nodes, stores and settings that cannot be pickled, before anything starts."""
    for node in registry.nodes.values():
        reason = _refusal(node)
        if reason is not None:
            raise TopologyError(
                f"{_kind(node)} {node.name}{added_at(node.added_at)} cannot be sent to Spark's workers: {reason}{_cause(node)}. "
                f"{_CURE}"
            )
    for name, store in {**registry.stores, **registry.global_stores}.items():
        reason = _refusal(store)
        if reason is not None:
            users = registry.store_users.get(name, ())
            line = registry.nodes[users[0]].added_at if users else ""
            raise TopologyError(f"Store {name}{added_at(line)} cannot be sent to Spark's workers: {reason}. {_CURE}")
    for key, value in config.items():
        reason = _refusal(value)
        if reason is not None:
            raise ConfigError(f"The value of {key} cannot be sent to Spark's workers: {reason}. {_CURE}")


_CURE = (
    "Locks, connections, clients, open files and the like are made where they are used: in init() of a processor, "
    "in configure() of a handler or a serde, or at the first call."
)


def _refusal(value: Any) -> str | None:
    try:
        dumps(value)
    except Exception as exc:  # noqa: BLE001  (objects raise what they like when they are pickled)
        return str(exc) or repr(exc)
    return None


def _kind(node: NodeSpec) -> str:
    return "Processor" if isinstance(node, ProcessorSpec) else "Sink" if isinstance(node, SinkSpec) else "Source"


def _cause(node: NodeSpec) -> str:
    """The variables that are to blame, as far as they can be found."""
    found = dict.fromkeys(_blamed(node))
    return f" ({', '.join(found)})" if found else ""


def _blamed(node: NodeSpec) -> Iterator[str]:
    for function in functions_in(node):
        for variable in variables_of(function):
            if not isinstance(variable.value, (FunctionType, type)) and _refusal(variable.value) is not None:
                yield f"{variable.name} in {variable.function}"


def dumps(value: Any) -> bytes:
    """A value as Spark sends it."""
    data: bytes = _cloudpickle().dumps(value)
    return data


@functools.cache
def _cloudpickle() -> Any:
    if "pyspark" in sys.modules:
        return importlib.import_module("pyspark.cloudpickle")
    package = importlib.util.find_spec("pyspark")
    folders = [] if package is None else package.submodule_search_locations or []
    for folder in folders:
        file = Path(folder) / "cloudpickle" / "cloudpickle.py"
        if file.is_file():
            return _loaded(file)
    return importlib.import_module("pyspark.cloudpickle")


def _loaded(file: Path) -> Any:
    name = "penstock_cloudpickle"  # not its own name: pyspark would find half of itself loaded
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
