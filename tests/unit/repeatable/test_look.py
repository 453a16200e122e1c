"""What is seen in functions: each that must not be shuffled, and each that must be."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import datetime as dt
import functools
import hashlib
import importlib
import io
import itertools
import json
import logging
import math
import operator
import os
import pathlib
import random
import re
import secrets
import socket
import string
import subprocess
import sys
import threading
import time
import types
import urllib.request
import uuid
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import SystemRandom
from time import time as now
from typing import Any

import numpy as np
import pandas as pd
import pytest

from penstock.repeatable.look import Finding, first_finding

LOG = logging.getLogger(__name__)
WORD = re.compile(r"\w+")
STOP = {"a", "the"}
KINDS = frozenset({"new", "old"})
PORTS = {80, 443}
TABLE = {"a": 1}
SEEN: list[Any] = []
CACHE: dict[Any, Any] = {}
NUMBERS = itertools.count()
SEEDED = random.Random(7)
SESSION = io.StringIO()
COUNTED = 0


def salted(value: Any) -> Any:
    return f"{value}-{random.randint(0, 9)}"


def helper(value: Any) -> Any:
    return salted(value)


def words_of(line: str) -> set[str]:
    return set(line.split())


def counted(value: Any) -> Any:
    global COUNTED
    COUNTED += 1
    return COUNTED


def unique(words: list[str]) -> Iterator[str]:
    seen = set()
    for word in words:
        if word not in seen:
            seen.add(word)
            yield word


def in_order_of_a_set(words: list[str]) -> Iterator[str]:
    for word in set(words):
        yield word.upper()


def sorted_at_last(words: list[str]) -> list[str]:
    found = list(set(words))
    found.sort()
    return found


def overwritten(words: Any) -> Any:
    words = set(words)
    words = sorted(words)
    return [word.upper() for word in words]


def set_in_one_branch(words: Any) -> Any:
    if len(words) > 3:
        words = set(words)
    return [word.upper() for word in words]


def fills_a_set_in_a_loop(words: Any) -> Any:
    found: Any = []
    for word in words:
        if word in found:
            return list(found)
        found = {word} | set(found)
    return None


def imports_inside(value: Any) -> Any:
    import random as chance

    return chance.random()


def imports_what_is_not_here(value: Any) -> Any:
    import requests  # type: ignore[import-untyped,unused-ignore]

    return requests.get(value, timeout=9)


def imports_a_name(value: Any) -> Any:
    from time import time as clock

    return clock()


def parses(value: Any) -> Any:
    try:
        return json.loads(value)
    except ValueError as exc:
        LOG.warning("not JSON: %s", exc)
        raise ValueError(f"expected one of {STOP}") from exc


def matches(value: Any) -> Any:
    match value:
        case {"kind": "new", **rest}:
            return rest
        case [first, *_]:
            return first
    return None


def local_function(value: Any) -> Any:
    total = 0

    def add(number: int) -> None:
        nonlocal total
        total += number

    for number in value:
        add(number)
    return total


def recursive_inside(value: Any) -> Any:
    def walk(node: Any) -> Any:
        return [walk(child) for child in node] if node else node

    def other(node: Any) -> Any:
        return walk(node) or other(node[1:])

    return other(value), walk(value)


def recursive_and_chance(value: Any) -> Any:
    def walk(node: Any) -> Any:
        return [walk(child) for child in node] if node else node

    return walk(value), uuid.uuid4()


def nested(value: Any) -> Any:
    for a in value:
        for b in a:
            for c in b:
                for d in c:
                    for e in d:
                        for f in e:
                            for g in f:
                                yield [(x, y) for x in g for y in x]


def recursive(value: Any) -> Any:
    return value if not value else recursive(value[1:])


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return wrapper


@logged
def decorated(value: Any) -> Any:
    return salted(value)


@logged
def decorated_and_pure(value: Any) -> Any:
    return value.upper()


@functools.cache
def cached(value: str) -> str:
    return value.upper()


@functools.lru_cache(maxsize=9)
def cached_chance(value: str) -> str:
    return str(salted(value))


STEPS = [str.upper, salted]
BY_KIND = {"a": decorated_and_pure, "b": salted}


@dataclasses.dataclass(frozen=True)
class Order:
    user: str
    lines: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()

    @property
    def total(self) -> int:
        return len(self.lines)

    def key(self) -> str:
        return f"{self.user}:{self.total}"

    @classmethod
    def read(cls, text: str) -> Order:
        return cls(**json.loads(text))

    @staticmethod
    def upper(text: str) -> str:
        return text.upper()

    @staticmethod
    def stamped(text: str) -> str:
        return f"{text}{time.time()}"


@dataclasses.dataclass
class Made:
    at: float = 0.0

    def __post_init__(self) -> None:
        self.at = time.time()


class Salt:
    def __init__(self, sides: int) -> None:
        self.sides = sides
        self.generator = random.Random(sides)
        self.known: dict[str, str] = {}
        self.stop = {"a", "b"}
        self.last: Any = None

    def __call__(self, key: Any, value: Any) -> Any:
        return self.generator.randint(0, self.sides)

    def pure(self, value: Any) -> Any:
        return value * self.sides

    def remembers(self, value: Any) -> Any:
        self.last = value
        return value

    def remembers_in_a_table(self, value: Any) -> Any:
        self.known[value] = value
        return value

    def through_another(self, value: Any) -> Any:
        return self.remembers(value)

    def is_stopped(self, value: Any) -> bool:
        return value in self.stop

    def stops(self, value: Any) -> list[str]:
        return [value.replace(word, "") for word in self.stop]

    @property
    def drawn(self) -> float:
        return self.generator.random()

    def reads_a_property(self, value: Any) -> Any:
        return self.drawn


class Pure:
    def __call__(self, key: Any, value: Any) -> Any:
        return self.twice(value)

    def twice(self, value: Any) -> Any:
        return value * 2


class Builder:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def add(self, part: str) -> Builder:
        self.parts.append(part)
        self.last = part
        return self


def by_closure(kept: Any) -> Callable[[Any], Any]:
    def remember(value: Any) -> Any:
        kept.append(value)
        return len(kept)

    return remember


def by_nonlocal() -> Callable[[Any], Any]:
    number = 0

    def number_of(value: Any) -> Any:
        nonlocal number
        number += 1
        return number

    return number_of


def multiplied(by: int, value: int) -> int:
    return by * value


CHANCE: list[tuple[Any, str]] = [
    (lambda v: random.random(), "random.random"),
    (lambda v: random.choice(v), "random.choice"),
    (random.random, "random.random"),
    (lambda v: SEEDED.random(), "Random"),
    (lambda v: random.Random().random(), "without a seed"),
    (lambda v: secrets.token_hex(), "secrets.token_hex"),
    (lambda v: uuid.uuid4(), "uuid.uuid4"),
    (lambda v: str(uuid.uuid1()), "uuid.uuid1"),
    (lambda v: os.urandom(8), "os.urandom"),
    (lambda v: np.random.rand(), "chance"),
    (lambda v: np.random.default_rng().random(), "without a seed"),
    (lambda v: time.time(), "time.time, which is a clock"),
    (lambda v: now(), "time.time"),
    (lambda v: time.time_ns() // 1000, "clock"),
    (lambda v: time.monotonic(), "clock"),
    (lambda v: time.perf_counter(), "clock"),
    (lambda v: time.strftime("%Y"), "of now"),
    (lambda v: time.localtime(), "of now"),
    (lambda v: datetime.datetime.now(), "datetime.now"),
    (lambda v: datetime.datetime.now(datetime.UTC), "datetime.now") if sys.version_info >= (3, 11) else (time.time, "clock"),
    (lambda v: dt.datetime.utcnow(), "datetime.utcnow"),
    (lambda v: date.today(), "date.today"),
    (helper, "random.randint"),
    (lambda v: helper(v), "random.randint"),
    (lambda v: [helper(x) for x in v], "random.randint"),
    (lambda v: list(map(salted, v)), "random.randint"),
    (lambda v: sorted(v, key=lambda x: random.random()), "random.random"),
    (decorated, "random.randint"),
    (cached_chance, "random.randint"),
    (recursive_and_chance, "uuid.uuid4"),
    (imports_inside, "random.random"),
    (imports_a_name, "time.time"),
    (functools.partial(helper), "random.randint"),
    (Salt(3), "chance"),
    (Salt(3).reads_a_property, "chance"),
    (lambda v: Order.stamped(v), "time.time"),
    (lambda v: Made(), "time.time"),
    (lambda v: Order("a").stamped(v), "time.time"),
    (lambda v: [step(v) for step in STEPS], "random.randint"),
    (lambda v: BY_KIND[v](v), "random.randint"),
    (lambda v, draw=random.random: draw(), "random.random"),
    (lambda v: (lambda: time.time())(), "time.time"),
]

ORDER: list[tuple[Any, str]] = [
    (lambda v: hash(v), "hash()"),
    (lambda v: hash(v) % 4, "hash()"),
    (lambda v: v.__hash__(), "hash()"),
    (lambda v: id(v), "address"),
    (in_order_of_a_set, "order of a set"),
    (lambda v: ",".join(set(v)), "join()"),
    (lambda v: ",".join({w.lower() for w in v}), "join()"),
    (lambda v: ",".join(list(set(v))), "join()"),
    (lambda v: ",".join(w for w in set(v)), "join()"),
    (lambda v: list(set(v))[1], "takes an element"),
    (lambda v: set(v).pop(), "pop"),
    (lambda v: next(iter(set(v))), "next()"),
    (lambda v: str(set(v)), "str()"),
    (lambda v: f"{set(v)}", "writes elements"),
    (lambda v: "%s" % STOP, "writes elements"),  # noqa: UP031
    (lambda v: json.dumps(list(set(v))), "json.dumps"),
    (lambda v: functools.reduce(operator.add, set(v)), "reduce()"),
    (lambda v: [*set(v)][1], "takes an element"),
    (lambda v: max(*set(v)), "takes elements"),
    (set_in_one_branch, "returns elements"),
    (fills_a_set_in_a_loop, "returns elements"),
    (Salt(3).stops, "returns elements"),
    (lambda v: set(v.split()), "returns elements"),
    (lambda v: {w for w in v.split()}, "returns elements"),  # noqa: C416
    (lambda v: [w.upper() for w in STOP], "returns elements"),
    (lambda v: [w for w in set(v) & STOP], "returns elements"),  # noqa: C416
    (lambda v: [(w, 1) for w in words_of(v)], "returns elements"),
    (lambda v: words_of(v), "returns elements"),
    (lambda v: (v, set(v)), "returns elements"),
    (lambda v: v.keys() & STOP, "returns elements"),
    (lambda v: set(v).union("a"), "returns elements"),
    (lambda v: dict.fromkeys(set(v), 1), "returns elements"),
    (lambda v: list(enumerate(set(v))), "returns elements"),
    (lambda v: v if v else set(v), "returns elements"),
    (lambda v: KINDS, "returns elements"),
]

OUTSIDE: list[tuple[Any, str]] = [
    (lambda v: open(v).read(), "open, which reads from outside"),  # noqa: SIM115
    (lambda v: Path(v).read_text(), "Path.read_text"),
    (lambda v: pathlib.Path(v).exists(), "Path.exists"),
    (lambda v: os.path.exists(v), "exists"),
    (lambda v: os.listdir(v), "os.listdir"),
    (lambda v: os.environ["HOME"], "os.environ"),
    (lambda v: os.environ.get("HOME"), "os.environ"),
    (lambda v: os.getenv("HOME"), "os.getenv"),
    (lambda v: os.getpid(), "os.getpid"),
    (lambda v: threading.get_ident(), "get_ident"),
    (lambda v: socket.gethostname(), "socket.gethostname"),
    (lambda v: subprocess.run(["date"], check=False), "subprocess.run"),
    (lambda v: urllib.request.urlopen(v), "urlopen"),
    (imports_what_is_not_here, "requests.get"),
]

STATE: list[tuple[Any, str]] = [
    (counted, "sets COUNTED"),
    (by_nonlocal(), "sets number"),
    (by_closure([]), "changes a list"),
    (lambda v: SEEN.append(v), "changes a list"),
    (lambda v: CACHE.setdefault(v, 1), "changes a dict"),
    (lambda v: next(NUMBERS), "a count"),
    (lambda v, kept=[]: kept.append(v), "changes a list"),
    (lambda v, kept=deque(): kept.append(v), "changes a deque"),
    (lambda v, kept=Counter(): kept.update(v), "changes a Counter"),
    (lambda v, kept=(x for x in "abc"): next(kept), "generator"),
    (Salt(3).remembers, "sets self.last"),
    (Salt(3).remembers_in_a_table, "sets self.known[value]"),
    (Salt(3).through_another, "sets self.last"),
    (lambda v: SESSION.read(), "StringIO"),
]

REPEATABLE: list[Any] = [
    lambda v: v,
    lambda k, v: v,
    lambda v: v.split(),
    str.split,
    lambda v: v.lower().split(" "),
    lambda v: WORD.findall(v),
    lambda v: re.sub(r"\s+", " ", v),
    lambda v: json.loads(v)["user"],
    lambda v: json.dumps(v, sort_keys=True),
    json.loads,
    lambda v: v["user"] in STOP,
    lambda v: v in {"a", "b"},
    lambda v: v not in KINDS and v in TABLE,
    lambda v: [w for w in v.split() if w not in STOP],
    lambda v: sorted(set(v)),
    lambda v: sorted(list(set(v))),  # noqa: C414
    lambda v: len(set(v.split())),
    lambda v: sorted({w.lower() for w in v}),
    lambda v: sorted(words_of(v)),
    lambda v: any(w in v for w in STOP),
    lambda v: sum(1 for w in set(v)),
    lambda v: max(set(v)),
    lambda v: set(v) & STOP == set(),
    lambda v: bool(STOP.intersection(v)),
    lambda v: [p for p in PORTS],  # noqa: C416
    lambda v: {1, 2},
    lambda v: dict.fromkeys(v),
    lambda v: list(dict.fromkeys(v.split())),
    lambda v: Counter(v).most_common(3),
    lambda v: TABLE.get(v, 0) + TABLE["a"],
    lambda v: hash(len(v)),
    lambda v: hash(7),
    lambda v: zlib.crc32(v.encode()) % 4,
    lambda v: hashlib.sha256(v).hexdigest(),
    lambda v: uuid.uuid5(uuid.NAMESPACE_DNS, v),
    lambda v: uuid.UUID(v),
    lambda v: random.Random(v).random(),
    lambda v: math.floor(v / 3),
    lambda v: Decimal(v),
    lambda v: datetime.datetime.fromisoformat(v),
    lambda v: datetime.timedelta(hours=1).total_seconds(),
    lambda v: time.strftime("%Y", v),
    lambda v: os.path.join("a", v),
    lambda v: Path(v).suffix,
    lambda v: string.ascii_letters,
    lambda v: (v["user"], {**v, "n": 1}),
    lambda v: [*v.split(), "end"],
    lambda v: f"{v['a']}-{v['b']:>5}",
    lambda v: Order("a").key(),
    lambda v: Order.read(v).key(),
    lambda v: Order.upper(v),
    lambda v: Builder().add(v).add(v).parts,
    lambda v: [step(v) for step in (str.upper, str.strip)],
    lambda v: LOG.info("seen %s", v),
    lambda v: print(v),
    lambda v: operator.itemgetter("a")(v),
    operator.itemgetter("user"),
    functools.partial(multiplied, 3),
    functools.partial(re.sub, "a", "b"),
    WORD.findall,
    TABLE.get,
    len,
    int,
    Order,
    Order("a").key,
    Order.key,
    Pure(),
    Salt(3).pure,
    Salt(3).is_stopped,
    unique,
    sorted_at_last,
    overwritten,
    parses,
    matches,
    local_function,
    recursive,
    recursive_inside,
    nested,
    decorated_and_pure,
    cached,
    types.SimpleNamespace,
    lambda v: [x for xs in v for x in xs],
    lambda v: {k: x for k, x in v.items() if x},
    lambda v: (y := v + 1) and y,
    lambda v: collections.OrderedDict(v),
    lambda v: OrderedDict(v).popitem(),
    lambda v: defaultdict(list, v),
    lambda v: None if v is None else v["x"] if "y" in v else 0,
]


def name_of(case: Any) -> str:
    found = getattr(case, "__name__", type(case).__name__)
    code = getattr(case, "__code__", None)
    return f"{found}:{code.co_firstlineno}" if code is not None else str(found)


def look(function: Any) -> Finding | None:
    return first_finding(function, returns_records=True)


@pytest.mark.parametrize(("function", "what"), [*CHANCE, *ORDER, *OUTSIDE, *STATE], ids=lambda case: name_of(case))
def test_should_see_what_may_differ_when_it_is_run_again(function: Any, what: str) -> None:
    found = look(function)
    assert found is not None
    assert what in found.what


@pytest.mark.parametrize("function", REPEATABLE, ids=name_of)
def test_should_take_for_repeatable_what_is(function: Any) -> None:
    assert look(function) is None


def test_should_name_the_function_and_the_line_that_makes_the_difference() -> None:
    found = look(lambda value: helper(value))
    assert found is not None
    assert found.function == "salted"
    file, line = found.where.rsplit(":", 1)
    assert Path(file).name == Path(__file__).name
    assert "randint" in Path(__file__).read_text().splitlines()[int(line) - 1]


def test_should_mind_a_set_that_is_returned_only_where_it_becomes_records() -> None:
    assert first_finding(lambda value: STOP & set(value)) is None


def test_should_tell_lambdas_of_one_line_apart() -> None:
    first, second = lambda v: v + 1, lambda v: v + random.random()  # fmt: skip
    assert look(second) is not None
    if sys.version_info >= (3, 11):
        assert look(first) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("lambda v: random.random()", "random.random"),
        ("lambda v: [time.time() for _ in v]", "time.time"),
        ("lambda v: hash(v)", "hash()"),
        ("lambda v: os.environ.get(v)", "os.environ"),
        ("lambda v: salted(v)", "random.randint"),
    ],
)
def test_should_look_at_the_names_where_there_is_no_source(text: str, what: str) -> None:
    found = look(eval(text))  # noqa: S307 - the cases are the texts of this file
    assert found is not None
    assert what in found.what


@pytest.mark.parametrize("text", ["lambda v: v.split()", "lambda v: json.loads(v)['a']", "lambda k, v: WORD.findall(v)"])
def test_should_take_what_has_no_source_for_repeatable_unless_a_name_speaks_against_it(text: str) -> None:
    assert look(eval(text)) is None  # noqa: S307 - the cases are the texts of this file


def test_should_see_what_is_set_without_source() -> None:
    names: dict[str, Any] = {}
    exec("total = 0\ndef count(v):\n    global total\n    total += 1\n    return total\n", names)
    found = look(names["count"])
    assert found is not None
    assert "sets total" in found.what


def test_should_run_nothing_of_the_users() -> None:
    class Tricky:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

    tricky = Tricky()
    assert look(lambda value: tricky.anything(value)) is None
    assert look(lambda value: value in tricky) is None  # type: ignore[operator]


INSTALLED = """
import os
import random

_cache = {}


def cached(value):
    _cache[value] = os.environ.get("HOME")
    return [word for word in set(value)]


def drawn(value):
    return _first(value)


def _first(value):
    return random.random()


def deep(value):
    return _one(value)


def _one(value):
    return _two(value)


def _two(value):
    return _first(value)


class Word:
    def __init__(self, text):
        self.text = text

    def upper(self):
        return self.text.upper()

class Codec:
    def __call__(self, topic, data):
        self.last = data
        return data
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package that was installed."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "wordlib.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    monkeypatch.delitem(sys.modules, "wordlib", raising=False)
    return importlib.import_module("wordlib")


def test_should_take_what_was_installed_for_not_repeatable(library: Any) -> None:
    for function in (library.Codec(), lambda value: library.cached(value), lambda value: library.drawn(value), library.deep):
        found = look(function)
        assert found is not None
        assert "not known to give the same records again" in found.what
    found = look(lambda value: library.drawn(value))
    assert found is not None
    assert Path(__file__).name in found.where  # the user's own line


UNKNOWN: list[tuple[Callable[..., Any], str]] = [
    (lambda v: random.SystemRandom().randrange(8), "random.SystemRandom"),
    (lambda v: SystemRandom().random(), "random.SystemRandom"),
    (lambda v: np.random.default_rng(7).random(), "default_rng"),
    (lambda v: np.sqrt(v), "ufunc"),
    (lambda v: pd.Timestamp.now().isoformat(), "pandas"),
    (lambda v: pd.Timestamp(v), "Timestamp"),
    (lambda v: v.drawn(), ".drawn() of a value of unknown type"),
    (lambda v: v.now(), ".now() of a value of unknown type"),
    (lambda v: v(1), "a function that is not known before the record"),
    (lambda v: getattr(random, v)(), "a function that is not known before the record"),
    (lambda v: sys.getrefcount(v), "sys.getrefcount"),
    (lambda v: importlib.import_module(v), "importlib.import_module"),
    (lambda v: threading.Thread(), "threading.Thread"),
]


@pytest.mark.parametrize(("function", "what"), UNKNOWN, ids=range(len(UNKNOWN)))
def test_should_take_what_is_not_known_for_not_repeatable(function: Callable[..., Any], what: str) -> None:
    found = look(function)
    assert found is not None
    assert what in found.what


def test_should_look_at_all_of_an_application_that_was_installed_itself(library: Any) -> None:
    found = first_finding(library.cached, package="wordlib")
    assert found is not None
    assert "os.environ" in found.what or "_cache" in found.what
    assert first_finding(library.deep, package="wordlib") is not None
    assert first_finding(library.Codec(), package="wordlib") is not None


def test_should_follow_classes_of_an_application_that_was_installed_itself(library: Any) -> None:
    assert first_finding(lambda value: library.Word(value).upper(), package="wordlib") is None
    found = first_finding(lambda value: library.Word(value).upper())
    assert found is not None
    assert "wordlib.Word" in found.what


@pytest.mark.parametrize(
    ("source", "repeats"),
    [
        ("lambda v: v.lower().split()", True),
        ("lambda v: len(json.dumps(v))", True),
        ("lambda v: SystemRandom().random()", False),
        ("lambda v: np.sqrt(v)", False),
    ],
)
def test_should_judge_functions_without_source_by_their_names(source: str, repeats: bool) -> None:
    function = eval(source, {"json": json, "SystemRandom": SystemRandom, "np": np})  # noqa: S307 - code without a file is what this is about
    assert (look(function) is None) is repeats
