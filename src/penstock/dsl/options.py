"""Options of the DSL: frozen values, passed where an operator takes them.

`dataclasses.replace(option, field=…)` gives a changed copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from penstock.dsl.arguments import check_name_first, option, serde_of
from penstock.dsl.typevars import KO, V1, V2, K, V
from penstock.errors import TopologyError
from penstock.graph.dsl_stores import DslStoreSuppliers, resolve_dsl_store_suppliers
from penstock.graph.naming import validate_name
from penstock.history import SparkHistory
from penstock.java_names import JavaNames
from penstock.serdes.arguments import is_serde
from penstock.serdes.guessed import guess
from penstock.serdes.serde import Serde
from penstock.topology.specs import StreamPartitioner, TimestampExtractor
from penstock.windows import Duration, to_ms

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream

StoreType = Literal["rocksdb", "in_memory"]


_O = TypeVar("_O", bound=Any)


def renamed(options: _O, name: str | None) -> _O:
    """The options under another name, if one is given beside them."""
    return options if name is None else replace(options, name=name)


def with_guesses(options: _O, key_serde: Any, value_serde: Any, other_value_serde: Any = None) -> _O:
    """The options with serdes where they have none, for the case that there are no default ones either."""
    known = {"key_serde": key_serde, "value_serde": value_serde, "other_value_serde": other_value_serde}
    missing = {
        name: guess(serde, name.split("_")[-2])
        for name, serde in known.items()
        if serde is not None and getattr(options, name, serde) is None
    }
    return replace(options, **missing) if missing else options


def _check_name(name: str | None) -> None:
    if name is not None:
        validate_name(name)


def _check_serdes(options: Any) -> None:
    owner = type(options).__name__
    for what in ("key_serde", "value_serde", "other_value_serde"):
        given = getattr(options, what, None)
        serde = serde_of(owner, what, given)
        if serde is not given:
            object.__setattr__(options, what, serde)


def _topic_config(options: Any) -> None:
    object.__setattr__(options, "topic_config", {str(key): str(value) for key, value in dict(options.topic_config).items()})


@dataclass(frozen=True)
class Consumed(JavaNames, Generic[K, V]):
    """How a topic is read: serdes, timestamps, where to start without committed offsets, the source's name, its history.

    >>> Consumed(name="orders").name
    'orders'
    """

    key_serde: Serde[K] | type[K] | None = None
    value_serde: Serde[V] | type[V] | None = None
    timestamp_extractor: TimestampExtractor | type[Any] | str | None = None
    offset_reset: Any = None
    name: str | None = None
    history: SparkHistory | None = None

    def __post_init__(self) -> None:
        _check_serdes(self)
        _check_name(self.name)


@dataclass(frozen=True)
class Produced(JavaNames, Generic[K, V]):
    """How a stream is written to a topic: serdes, partitioner, the sink's name."""

    key_serde: Serde[K] | type[K] | None = None
    value_serde: Serde[V] | type[V] | None = None
    partitioner: StreamPartitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check_serdes(self)
        _check_name(self.name)


@dataclass(frozen=True)
class Grouped(JavaNames, Generic[K, V]):
    """How records are grouped: the name, which is also that of the repartition topic, and serdes."""

    name: str | None = None
    key_serde: Serde[K] | type[K] | None = None
    value_serde: Serde[V] | type[V] | None = None

    def __post_init__(self) -> None:
        check_name_first("Grouped", "name", self.name)
        _check_serdes(self)
        _check_name(self.name)


@dataclass(frozen=True)
class Materialized(JavaNames, Generic[K, V]):
    """The store of a table: its name, by which it can be queried, serdes, engine, cache, changelog and retention.

    `supplier` (from `Stores`) brings a store of its own, with its own name; `store_type` picks the engine otherwise and
    defaults to the configured one. `topic_config` configures the changelog topic; `retention` is for windowed tables.

    >>> Materialized("counts", store_type="in_memory").store_name
    'counts'
    """

    store_name: str | None = None
    key_serde: Serde[K] | type[K] | None = None
    value_serde: Serde[V] | type[V] | None = None
    _: KW_ONLY
    supplier: Any = None
    store_type: StoreType | DslStoreSuppliers | None = None
    caching: bool = True
    logging: bool = True
    topic_config: Mapping[str, Any] = field(default_factory=dict)
    retention: Duration | None = None

    def __post_init__(self) -> None:
        check_name_first("Materialized", "store_name", self.store_name)
        _check_serdes(self)
        if self.store_name is not None:
            validate_name(self.store_name)
            if self.supplier is not None and self.supplier.name != self.store_name:
                raise TopologyError(
                    f"Materialized has the store name {self.store_name!r} and a supplier, which brings the name "
                    f"{self.supplier.name!r}: give one of the two, or the same name"
                )
        if self.supplier is not None and self.store_type is not None:
            raise TopologyError("Materialized cannot have a store_type and a supplier: the supplier decides the engine")
        if self.store_type is not None:
            resolve_dsl_store_suppliers(self.store_type, "store_type")
        if self.retention is not None and self.retention_ms is not None and self.retention_ms < 0:
            raise TopologyError(f"the retention of a store cannot be negative, got {self.retention}")
        _topic_config(self)

    @property
    def retention_ms(self) -> int | None:
        """The retention in milliseconds."""
        return None if self.retention is None else to_ms(self.retention, "retention")


def as_materialized(given: Materialized[K, V] | str | None) -> Materialized[K, V] | None:
    """What an operator is told of its store: options, or the store's name alone."""
    if isinstance(given, str):
        return Materialized(given)
    return option(
        Materialized, given, None if not is_serde(given) else "Materialized(key_serde=…, value_serde=…), with a name before them"
    )


@dataclass(frozen=True)
class Joined(JavaNames, Generic[K, V1, V2]):
    """A join of a stream with a table: serdes for the repartition, the name, and how long to wait for the table.

    With `grace_period` the table must be versioned: the stream's records are held back that long and looked up as of
    their own time.
    """

    key_serde: Serde[K] | type[K] | None = None
    value_serde: Serde[V1] | type[V1] | None = None
    other_value_serde: Serde[V2] | type[V2] | None = None
    name: str | None = None
    grace_period: Duration | None = None

    def __post_init__(self) -> None:
        _check_serdes(self)
        _check_name(self.name)

    @property
    def grace_period_ms(self) -> int | None:
        """The grace period in milliseconds."""
        return None if self.grace_period is None else to_ms(self.grace_period, "grace_period")


@dataclass(frozen=True)
class StreamJoined(JavaNames, Generic[K, V1, V2]):
    """A join of two streams: serdes, the join's name, the stores' base name, suppliers and changelogs."""

    key_serde: Serde[K] | type[K] | None = None
    value_serde: Serde[V1] | type[V1] | None = None
    other_value_serde: Serde[V2] | type[V2] | None = None
    name: str | None = None
    store_name: str | None = None
    this_store_supplier: Any = None
    other_store_supplier: Any = None
    logging: bool = True
    topic_config: Mapping[str, Any] = field(default_factory=dict)
    store_type: StoreType | DslStoreSuppliers | None = None

    def __post_init__(self) -> None:
        _check_serdes(self)
        _check_name(self.name)
        _check_name(self.store_name)
        if self.store_type is not None:
            resolve_dsl_store_suppliers(self.store_type, "store_type")
        _topic_config(self)


@dataclass(frozen=True)
class TableJoined(JavaNames, Generic[K, KO]):
    """A foreign-key join: its name, and the partitioners of the left and of the right table where they are not the default.

    A partitioner is called with the topic, the key, None for the value, and the number of partitions.
    """

    name: str | None = None
    partitioner: StreamPartitioner | None = None
    other_partitioner: StreamPartitioner | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)


@dataclass(frozen=True)
class Repartitioned(JavaNames, Generic[K, V]):
    """A repartition: the topic's name, serdes, number of partitions and partitioner."""

    name: str | None = None
    key_serde: Serde[K] | type[K] | None = None
    value_serde: Serde[V] | type[V] | None = None
    number_of_partitions: int | None = None
    partitioner: StreamPartitioner | None = None

    def __post_init__(self) -> None:
        check_name_first("Repartitioned", "name", self.name)
        _check_serdes(self)
        _check_name(self.name)
        if self.number_of_partitions is not None and self.number_of_partitions < 1:
            raise TopologyError(f"a repartition topic needs at least one partition, got {self.number_of_partitions}")


@dataclass(frozen=True)
class Branched(JavaNames, Generic[K, V]):
    """One branch of a split: its name, and what becomes of it.

    `function` maps the branch to the stream that goes into the result (None: it does not); `consumer` only takes it.
    """

    name: str | None = None
    function: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None
    consumer: Callable[[KStream[K, V]], None] | None = None

    def __post_init__(self) -> None:
        if self.function is not None and self.consumer is not None:
            raise TopologyError("Branched takes a function or a consumer, not both")
