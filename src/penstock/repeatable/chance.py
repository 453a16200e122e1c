"""What counts as chance: whatever may give something else when the same records are read again, in another process or later."""

from __future__ import annotations

import datetime
import enum
import inspect
import random
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple


class Kind(enum.Enum):
    """Where a difference comes from; in code that was installed only the first counts."""

    CHANCE = enum.auto()
    ORDER = enum.auto()
    OUTSIDE = enum.auto()
    STATE = enum.auto()


class Cause(NamedTuple):
    """Why something gives different records."""

    kind: Kind
    what: str


_CHANCE, _CLOCK, _FILES = "which is chance", "which is a clock", "which reads from outside"
_NETWORK, _HOST = "which asks somebody else", "which differs between processes and hosts"

_NAMED: dict[str, tuple[Kind, str, str]] = {
    "os": (Kind.CHANCE, _CHANCE, "urandom getrandom"),
    "uuid": (Kind.CHANCE, _CHANCE, "uuid1 uuid4 uuid6 uuid7 getnode"),
    "time": (
        Kind.CHANCE,
        _CLOCK,
        "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns thread_time "
        "thread_time_ns clock_gettime clock_gettime_ns",
    ),
    "builtins": (Kind.OUTSIDE, _FILES, "open input"),
    "os ": (Kind.OUTSIDE, _FILES, "open read listdir scandir walk stat lstat access readlink popen system"),
    "os.path": (
        Kind.OUTSIDE,
        _FILES,
        "exists lexists isfile isdir islink getsize getmtime getctime getatime realpath abspath expanduser expandvars",
    ),
    "pathlib.Path": (
        Kind.OUTSIDE,
        _FILES,
        "read_text read_bytes write_text write_bytes open exists stat lstat is_file is_dir iterdir glob rglob cwd home resolve",
    ),
    "builtins ": (Kind.ORDER, "which is an address in memory", "id"),
    "os  ": (
        Kind.OUTSIDE,
        _HOST,
        "environ environb getenv getenvb getpid getppid getcwd getlogin cpu_count uname times getloadavg",
    ),
    "threading": (Kind.OUTSIDE, _HOST, "get_ident get_native_id current_thread"),
    "multiprocessing": (Kind.OUTSIDE, _HOST, "current_process cpu_count"),
    "platform": (Kind.OUTSIDE, _HOST, "node uname platform machine processor"),
    "getpass": (Kind.OUTSIDE, _HOST, "getuser getpass"),
}
"""Single names of modules and classes; blanks tell entries of the same module apart."""

_WHOLE: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(("secrets", "numpy.random"), (Kind.CHANCE, _CHANCE)),
    **dict.fromkeys(("subprocess", "tempfile", "shelve", "dbm", "glob", "fileinput", "mmap"), (Kind.OUTSIDE, _FILES)),
    **dict.fromkeys(
        (
            *("socket", "urllib.request", "http.client", "ftplib", "smtplib", "poplib", "imaplib", "xmlrpc.client"),
            *("requests", "httpx", "aiohttp", "urllib3", "grpc", "boto3", "botocore", "redis", "pymongo", "paramiko"),
            *("sqlite3", "sqlalchemy", "psycopg", "psycopg2", "pymysql", "mysql", "cx_Oracle", "oracledb", "pyodbc"),
        ),
        (Kind.OUTSIDE, _NETWORK),
    ),
}
"""Modules of which everything counts but constants and exceptions."""

_SEEDED = frozenset({"Random", "RandomState", "Generator", "SeedSequence", "default_rng", "PCG64", "Philox", "MT19937", "SFC64"})
"""What makes generators of random numbers: with a seed they repeat."""

NOW_UNLESS_TOLD = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}
"""Functions of `time` that take the time of now where they are called with so few arguments."""

_NOW = frozenset({"now", "utcnow", "today"})


def cause_of(value: Any) -> Cause | None:
    """Why a value that code uses makes a difference; None where nothing is known of it.

    >>> import time
    >>> cause_of(time.time), cause_of(random.choice).what, cause_of(len)
    (Cause(kind=<Kind.CHANCE: 1>, what='uses time.time, which is a clock'), 'uses random.choice, which is chance', None)
    """
    if value is None or isinstance(value, bool | int | float | str | bytes | tuple | list | dict | set | frozenset):
        return None
    named = _by_identity().get(id(value))
    if named is not None:
        return named
    owner = _owner_of(value)
    if isinstance(owner, random.Random) or isinstance(value, random.Random):
        return Cause(Kind.CHANCE, f"uses {_shown(value)}, {_CHANCE}")
    if isinstance(owner, type) and issubclass(owner, datetime.date) and _name_of(value) in _NOW:
        return clock_of(owner, _name_of(value))
    if inspect.ismodule(value) or _is_exception(value) or is_seeded(value):
        return None
    found = _of_module(_module_of(value), _shown(value)) or (
        None if owner is None else _of_module(_module_of(owner), _shown(value))
    )
    if found is None and isinstance(value, Iterator):
        return Cause(Kind.STATE, f"uses {_article(type(value).__qualname__)} that goes on where it was at the last record")
    return found


def cause_of_name(name: str, is_called_with: int | None = None) -> Cause | None:
    """The same for a name of a module that is not imported here: `requests.get`; it may be called, with so many arguments."""
    module, _, last = name.rpartition(".")
    if last in _SEEDED and is_called_with == 0:
        return Cause(Kind.CHANCE, f"uses {name} without a seed, {_CHANCE}")
    if last in _SEEDED or last.endswith(("Error", "Exception", "Timeout")):
        return None
    for entry, (kind, why, names) in _NAMED.items():
        if entry.strip() == module and last in names.split():
            return Cause(kind, f"uses {name}, {why}")
    return _of_module(module, name)


def clock_of(owner: type, name: str) -> Cause | None:
    """What it means to ask a class of dates for the time of now."""
    return (
        Cause(Kind.CHANCE, f"uses {owner.__name__}.{name}, {_CLOCK}")
        if issubclass(owner, datetime.date) and name in _NOW
        else None
    )


def is_seeded(value: Any) -> bool:
    """Whether calling it makes a generator of random numbers, which repeats where it is given a seed."""
    return _name_of(value) in _SEEDED and (value is random.Random or _module_of(value).startswith("numpy"))


def unseeded(value: Any) -> Cause:
    """What it means to make a generator of random numbers without a seed."""
    return Cause(Kind.CHANCE, f"uses {_shown(value)} without a seed, {_CHANCE}")


_known: dict[int, Cause] = {}
_known_modules: list[bool] = []


def _by_identity() -> dict[int, Cause]:
    """Named things by what they are, of the modules that are imported: nobody can use others."""
    global _known, _known_modules
    modules = [entry.strip().removesuffix(".Path") in sys.modules for entry in _NAMED]
    if modules != _known_modules:
        found = {}
        for entry, (kind, why, names) in _NAMED.items():
            home = entry.strip()
            owner: Any = sys.modules.get(home.removesuffix(".Path"))
            owner = getattr(owner, "Path", None) if home.endswith(".Path") else owner
            for name in names.split() if owner is not None else ():
                value = inspect.getattr_static(owner, name, None)
                if value is not None:
                    shown = (
                        name if home == "builtins" else f"{home.rpartition('.')[2] if home == 'pathlib.Path' else home}.{name}"
                    )
                    found[id(getattr(value, "__func__", value))] = Cause(kind, f"uses {shown}, {why}")
        _known, _known_modules = found, modules
    return _known


def _of_module(module: str, shown: str) -> Cause | None:
    for name, (kind, why) in _WHOLE.items():
        if module == name or module.startswith(name + ".") or module == "_" + name:
            return Cause(kind, f"uses {shown}, {why}")
    return None


def _owner_of(value: Any) -> Any:
    return value.__self__ if isinstance(value, types.MethodType | types.BuiltinFunctionType | types.MethodWrapperType) else None


def _is_named(value: Any) -> bool:
    # Others may answer with code of their own.
    return isinstance(value, type) or inspect.isroutine(value) or type(value).__name__ == "cython_function_or_method"


def _module_of(value: Any) -> str:
    module = value.__module__ if _is_named(value) and hasattr(value, "__module__") else None
    return module if isinstance(module, str) else type(value).__module__


def _name_of(value: Any) -> str:
    return str(getattr(value, "__name__", "")) if _is_named(value) else ""


def _shown(value: Any) -> str:
    owner, name = _owner_of(value), _name_of(value)
    if not name:
        return _article(type(value).__qualname__)
    return f"{_module_of(value if owner is None or inspect.ismodule(owner) else owner)}.{name}".removeprefix("builtins.")


def _is_exception(value: Any) -> bool:
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
