"""Whose code it is: the user's own, what was installed, or the standard library's and penstock's, which are not followed."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from typing import Any


def package_of(function: Any) -> str:
    """The package that the code of a function, or of an object's class, belongs to; nothing where that cannot be told."""
    if isinstance(function, functools.partial):
        return package_of(function.func)
    named = isinstance(function, types.FunctionType | types.MethodType | type)
    module = function.__module__ if named else type(function).__module__
    package = str(module).partition(".")[0]
    return "" if package in ("builtins", "__main__", "penstock") or package in sys.stdlib_module_names else package


_LIBRARY = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_PENSTOCK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def is_installed(filename: str) -> bool:
    """Whether a file was installed, rather than written beside the application."""
    return any(part in filename for part in _INSTALLED)


def is_library(filename: str) -> bool:
    """Whether a file is Python's own or penstock's."""
    if filename.startswith(("<frozen", _PENSTOCK)):
        return True
    return not is_installed(filename) and filename.startswith(_LIBRARY)
