"""References to applications on the command line: `module:attribute`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.dsl.builder import StreamsBuilder
from penstock.errors import PenstockError
from penstock.topology.topology import Topology


class AppReferenceError(PenstockError, ValueError):
    """A reference without a topology."""


def load_topology(reference: str, config: Mapping[str, Any] | None = None) -> Topology:
    """Return the topology of `module:attribute`: a Topology, a StreamsBuilder, or a function that returns one.

    The module is an import path or a file. `config` is passed to `StreamsBuilder.build`.
    """
    value = _attribute(reference)
    if callable(value) and not isinstance(value, Topology | StreamsBuilder):
        value = value()
    if isinstance(value, StreamsBuilder):
        value = value.build(config)
    if not isinstance(value, Topology):
        raise AppReferenceError(
            f"{reference} is {_article(value)}, not a topology: pass a Topology, a StreamsBuilder, "
            "or a function without arguments that returns one"
        )
    return value


def import_from_here() -> None:
    """Search modules in the current folder first, as `python -m` does."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _attribute(reference: str) -> Any:
    module_name, separator, path = reference.rpartition(":")
    if not separator or not module_name or not path:
        raise AppReferenceError(f"{reference!r} is not of the form module:attribute, for example shop.app:topology")
    module = _module(module_name)
    value: Any = module
    for name in path.split("."):
        if not hasattr(value, name):
            found = ", ".join(sorted(name for name, object in vars(module).items() if _may_be_topology(module, name, object)))
            hint = f"; it has {found}" if found else ""
            raise AppReferenceError(f"the module {module_name} has no {path!r}{hint}")
        value = getattr(value, name)
    return value


def _module(name: str) -> Any:
    file = Path(name)
    if file.suffix == ".py":
        return _module_of_file(file)
    import_from_here()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(exc.name + ".")):
            raise AppReferenceError(f"there is no module {name!r} in {Path.cwd()} or on the Python path") from exc
        raise


def _module_of_file(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        raise AppReferenceError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return module


def _may_be_topology(module: Any, name: str, value: Any) -> bool:
    if isinstance(value, Topology | StreamsBuilder):
        return True
    return not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__


def _article(value: Any) -> str:
    kind = type(value).__name__
    return f"an {kind}" if kind[0].lower() in "aeiou" else f"a {kind}"
