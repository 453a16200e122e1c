"""Whose code it is: the user's own, what was installed, or the standard library's and penstock's, which are not followed."""

from __future__ import annotations

import os
import sysconfig

_LIBRARY = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_PENSTOCK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def installed_package(filename: str) -> str | None:
    """The package that a file was installed with; None where it was written beside the application.

    >>> installed_package("/venv/lib/python3.11/site-packages/shop/orders.py"), installed_package("/home/me/shop.py")
    ('shop', None)
    """
    for part in _INSTALLED:
        if part in filename:
            return filename.rpartition(part)[2].partition(os.sep)[0].removesuffix(".py")
    return None


def is_library(filename: str) -> bool:
    """Whether a file is Python's own or penstock's."""
    if filename.startswith(("<frozen", _PENSTOCK)):
        return True
    return installed_package(filename) is None and filename.startswith(_LIBRARY)
