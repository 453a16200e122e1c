"""Names of nodes, stores and repartition topics, and the index they are numbered with.

Names are part of an application's identity: topics and state folders carry them. Giving a name to an operator
therefore still uses up its index, so that naming one operator later never renames the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import TopologyError

MAX_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")

STATE_STORE = "STATE-STORE-"
REPARTITION_TOPIC_SUFFIX = "-repartition"
TABLE_SOURCE_SUFFIX = "-source"

STREAM_SOURCE = "KSTREAM-SOURCE-"
STREAM_SINK = "KSTREAM-SINK-"
STREAM_FILTER = "KSTREAM-FILTER-"
STREAM_MAP = "KSTREAM-MAP-"
STREAM_MAPVALUES = "KSTREAM-MAPVALUES-"
STREAM_FLATMAP = "KSTREAM-FLATMAP-"
STREAM_FLATMAPVALUES = "KSTREAM-FLATMAPVALUES-"
STREAM_MAPBATCHES = "KSTREAM-MAPBATCHES-"
STREAM_KEY_SELECT = "KSTREAM-KEY-SELECT-"
STREAM_PEEK = "KSTREAM-PEEK-"
STREAM_FOREACH = "KSTREAM-FOREACH-"
STREAM_TOFILES = "KSTREAM-TOFILES-"
STREAM_PRINTER = "KSTREAM-PRINTER-"
STREAM_MERGE = "KSTREAM-MERGE-"
STREAM_BRANCH = "KSTREAM-BRANCH-"
STREAM_PROCESSOR = "KSTREAM-PROCESSOR-"
STREAM_PROCESSVALUES = "KSTREAM-PROCESSVALUES-"
STREAM_TOTABLE = "KSTREAM-TOTABLE-"
STREAM_REPARTITION = "KSTREAM-REPARTITION-"
STREAM_WINDOWED = "KSTREAM-WINDOWED-"
STREAM_JOINTHIS = "KSTREAM-JOINTHIS-"
STREAM_JOINOTHER = "KSTREAM-JOINOTHER-"
STREAM_OUTERTHIS = "KSTREAM-OUTERTHIS-"
STREAM_OUTEROTHER = "KSTREAM-OUTEROTHER-"
STREAM_OUTERSHARED = "KSTREAM-OUTERSHARED-"
STREAM_JOIN = "KSTREAM-JOIN-"
STREAM_JOINDATAFRAME = "KSTREAM-JOINDATAFRAME-"
STREAM_LEFTJOIN = "KSTREAM-LEFTJOIN-"
STREAM_AGGREGATE = "KSTREAM-AGGREGATE-"
STREAM_REDUCE = "KSTREAM-REDUCE-"

TABLE_SOURCE = "KTABLE-SOURCE-"
TABLE_SINK = "KTABLE-SINK-"
TABLE_FILTER = "KTABLE-FILTER-"
TABLE_MAPVALUES = "KTABLE-MAPVALUES-"
TABLE_TRANSFORMVALUES = "KTABLE-TRANSFORMVALUES-"
TABLE_TOSTREAM = "KTABLE-TOSTREAM-"
TABLE_SUPPRESS = "KTABLE-SUPPRESS-"
TABLE_SELECT = "KTABLE-SELECT-"
TABLE_AGGREGATE = "KTABLE-AGGREGATE-"
TABLE_REDUCE = "KTABLE-REDUCE-"
TABLE_MERGE = "KTABLE-MERGE-"
TABLE_JOINTHIS = "KTABLE-JOINTHIS-"
TABLE_JOINOTHER = "KTABLE-JOINOTHER-"

FK_SUBSCRIPTION_STORE = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"
FK_SUBSCRIPTION_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
FK_SUBSCRIPTION_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
FK_SUBSCRIPTION_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
FK_RESPONSE_RESOLVER = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
FK_OUTPUT = "KTABLE-FK-JOIN-OUTPUT-"

COGROUP_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
COGROUP_MERGE = "COGROUPKSTREAM-MERGE-"


class NameProvider(Protocol):
    """Hands out generated names; each call uses up one index."""

    def new_processor_name(self, prefix: str) -> str:
        """`prefix` followed by the next index in ten digits."""
        ...

    def new_store_name(self, prefix: str) -> str:
        """`prefix`, the word STATE-STORE and the next index in ten digits."""
        ...


class NameCounter:
    """The one counter of a builder.

    >>> names = NameCounter()
    >>> names.new_processor_name("KSTREAM-SOURCE-"), names.new_store_name("KSTREAM-AGGREGATE-")
    ('KSTREAM-SOURCE-0000000000', 'KSTREAM-AGGREGATE-STATE-STORE-0000000001')
    """

    def __init__(self) -> None:
        self._next = 0

    def _take(self) -> int:
        index = self._next
        self._next += 1
        return index

    def new_processor_name(self, prefix: str) -> str:
        """`prefix` followed by the next index in ten digits."""
        return f"{prefix}{self._take():010d}"

    def new_store_name(self, prefix: str) -> str:
        """`prefix`, the word STATE-STORE and the next index in ten digits."""
        return f"{prefix}{STATE_STORE}{self._take():010d}"


def validate_name(name: str) -> str:
    """The name, if it may be part of a topic's name; a TopologyError otherwise.

    >>> validate_name("orders-by-user")
    'orders-by-user'
    """
    if not name:
        raise TopologyError("a name cannot be empty")
    if name in (".", ".."):
        raise TopologyError('a name cannot be "." or ".."')
    if len(name) > MAX_NAME_LENGTH:
        raise TopologyError(f"a name cannot be longer than {MAX_NAME_LENGTH} characters: {name}")
    if not _LEGAL_NAME.match(name):
        raise TopologyError(
            f'the name "{name}" is illegal: it contains a character other than ASCII alphanumerics, ".", "_" and "-"'
        )
    return name


@dataclass(frozen=True)
class Named:
    """A name the user may have given, and the rules for what it turns into."""

    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            validate_name(self.name)

    def or_generate(self, names: NameProvider, prefix: str) -> str:
        """The user's name, or a generated one; the index is used up either way."""
        generated = names.new_processor_name(prefix)
        return generated if self.name is None else self.name

    def suffixed_or(self, suffix: str, other: str) -> str:
        """The user's name with a suffix, or `other`."""
        return other if self.name is None else self.name + suffix

    def suffixed_or_generate(self, suffix: str, names: NameProvider, prefix: str) -> str:
        """The user's name with a suffix, or a generated name; the index is used up either way."""
        generated = names.new_processor_name(prefix)
        return generated if self.name is None else validate_name(self.name + suffix)
