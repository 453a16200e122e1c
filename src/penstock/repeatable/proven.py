"""What is known to give the same again: plain Python, and those parts of the standard library that only compute.

Everything else that code calls counts as not repeatable, unless it is code of the user's own, which is followed.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import hashlib
import inspect
import io
import ipaddress
import pathlib
import random
import re
import struct
import sys
import types
import uuid
from typing import Any

from penstock.repeatable.chance import Cause, Kind, _is_exception, _module_of, _owner_of, _shown
from penstock.repeatable.whose import installed_package, is_library

_PURE = frozenset(
    {
        *("abc", "array", "ast", "base64", "binascii", "bisect", "builtins", "bz2", "calendar"),
        *("cmath", "codecs", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal"),
        *("difflib", "enum", "fractions", "functools", "gzip", "hashlib", "heapq", "hmac", "html"),
        *("io", "ipaddress", "itertools", "json", "keyword", "logging", "lzma", "math", "numbers"),
        *("operator", "os.path", "penstock", "posixpath", "ntpath", "genericpath", "pprint", "re", "reprlib"),
        *("sre", "statistics", "string", "struct", "textwrap", "time", "types", "typing", "unicodedata"),
        *("urllib.parse", "uuid", "warnings", "xml", "zlib", "zoneinfo"),
    }
)
"""Modules whose functions and classes compute from their arguments; what differs among them is listed in `chance.py`."""

_DATA = (
    *(str, bytes, bytearray, memoryview, list, tuple, dict, set, frozenset, int, float, complex, range),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID),
    *(collections.Counter, collections.OrderedDict, collections.deque, ipaddress.IPv4Address, ipaddress.IPv4Network),
    *(re.Pattern, re.Match, struct.Struct, io.StringIO, io.BytesIO, type(hashlib.sha256())),
)
_METHODS = frozenset(name for kind in _DATA for name in dir(kind)) - {"now", "utcnow", "today"}


def unknown(what: str) -> Cause:
    """Why code that cannot be seen counts as not repeatable."""
    return Cause(Kind.CHANCE, f"calls {what}, which is not known to give the same records again")


def cause_of_call(called: Any) -> Cause | None:
    """Why calling something that is not followed may give another result; None where it is known to compute only.

    >>> import math, random
    >>> cause_of_call(math.sqrt), cause_of_call(random.SystemRandom).what
    (None, 'calls random.SystemRandom, which is not known to give the same records again')
    """
    return None if _is_proven(called) else unknown(_shown(called))


def cause_of_method(kind: type, name: str) -> Cause | None:
    """The same for a method that is not written in Python, of a class that is known."""
    return None if _is_proven(kind) else unknown(f"{_shown(kind)}.{name}")


def cause_of_data(name: str) -> Cause | None:
    """The same for a method of a value of unknown type, such as a record's: those of plain data are known."""
    return None if name in _METHODS else unknown(f".{name}() of a value of unknown type")


def _is_proven(value: Any) -> bool:
    if _is_exception(value):
        return True
    owner = _owner_of(value)
    if owner is not None and not inspect.ismodule(owner):
        return _is_proven(owner if isinstance(owner, type) else type(owner))
    if isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType | types.ClassMethodDescriptorType):
        return _is_proven(value.__objclass__)
    if value is random.Random or (isinstance(value, type) and issubclass(value, pathlib.PurePath)):
        return True
    return _is_pure(_module_of(value)) or str(getattr(value, "__qualname__", "")).startswith("PurePath")


def _is_pure(module: str) -> bool:
    parts = module.removeprefix("_").split(".")
    return any(".".join(parts[:end]) in _PURE for end in range(1, len(parts) + 1))


def is_own(cls: type, package: str | None) -> bool:
    """Whether a class is the user's, of the application's package or of no package: its code is followed."""
    module = _module_of(cls)
    found = getattr(sys.modules.get(module), "__file__", None)
    if found is None:
        return module not in sys.builtin_module_names
    return not is_library(found) and installed_package(found) in (None, package)
