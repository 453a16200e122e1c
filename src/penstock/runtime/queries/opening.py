"""From a store's builder to what queries read: which kind of store it is, and how its files are opened for reading."""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from rocksdict import Cache

from penstock.config.streams_config import StreamsConfig
from penstock.errors import InvalidStateStoreError
from penstock.ids import TaskId
from penstock.query.columns import is_builtin
from penstock.runtime.queries.reader_context import ReaderContext
from penstock.runtime.queries.secondary import SecondaryPartition
from penstock.serdes.guessed import GuessedSerde
from penstock.state.builders import AbstractStoreBuilder
from penstock.state.capabilities import rocksdb_of
from penstock.state.engines.rocksdb import DB_FOLDER
from penstock.state.store import StoreBuilder

_BLOCK_CACHE_BYTES = 64 * 1024 * 1024


class CustomStore:
    """A custom store of the user; it can only be read through its `query`."""

    on_disk = False

    def __init__(self, builder: StoreBuilder[Any]) -> None:
        self.name: str = builder.name
        self.kind = type(builder).__name__

    def open_typed(self, engine: Any, task_id: TaskId, folder: Path) -> Any:
        """Return this object: nothing can be read without `query`."""
        return self


class ReadableStore:
    """A store of the topology that queries can read: its kind, its serdes, its builder."""

    def __init__(self, builder: StoreBuilder[Any], config: StreamsConfig, changelog: str | None) -> None:
        builder = builder.chosen()
        if not isinstance(builder, AbstractStoreBuilder):
            raise InvalidStateStoreError(custom_store_message(builder.name, type(builder).__name__))
        self.builder = builder
        self.name: str = builder.name
        self.config = config
        self.changelog = changelog
        engine = builder.build_engine()
        typed = builder.build_reader(engine)
        self.kind, self.values = kind_of(typed)
        self.on_disk = rocksdb_of(engine) is not None
        self.window_size: int | None = typed.window_size if self.kind == "window" else None

    @property
    def key_serde(self) -> Any:
        """The serde of its keys, the default one where it was given none."""
        return self._or_default(self.builder.key_serde, "key")

    @property
    def value_serde(self) -> Any:
        """The serde of its values, the default one where it was given none."""
        return self._or_default(self.builder.value_serde, "value")

    def _or_default(self, serde: Any, part: str) -> Any:
        has_default = self.config.get(f"default.{part}.serde") is not None
        if serde is None or (isinstance(serde, GuessedSerde) and has_default):
            return self.config.default_key_serde if part == "key" else self.config.default_value_serde
        return serde.own if isinstance(serde, GuessedSerde) else serde

    @cached_property
    def has_builtin_serdes(self) -> bool:
        """Whether only the library's code runs to read an entry; code of the user may take any time."""
        return is_builtin(self.key_serde) and is_builtin(self.value_serde)

    def open_typed(self, engine: Any, task_id: TaskId, folder: Path) -> Any:
        """The typed layer over an engine, opened for reading."""
        store = self.builder.build_reader(engine)
        store.init(ReaderContext(self.config, task_id, folder, self.changelog), store)
        return store

    def partition_on_disk(self, task_id: TaskId, task_folder: Path, log_folder: Path) -> SecondaryPartition:
        """The partition whose files are in a task's folder on this host."""

        def open_store(log_folder: Path) -> Any:
            engine = self.builder.build_engine()
            db = rocksdb_of(engine)
            assert db is not None
            db.read_as_secondary(log_folder, _block_cache())
            return self.open_typed(engine, task_id, task_folder)

        return SecondaryPartition(self.name, task_id, task_folder / DB_FOLDER / self.name, log_folder, open_store)


def custom_store_message(name: str, builder: str) -> str:
    """Return the error message for a reader of a store that only answers queries."""
    return (
        f"store {name} is of a kind of its own ({builder}), which cannot be read from outside: implement query() in the store "
        "and ask it with KafkaStreams.query(StateQueryRequest.in_store(name).with_query(…))"
    )


def queryable_store(builder: StoreBuilder[Any], config: StreamsConfig, changelog: str | None) -> ReadableStore | CustomStore:
    """A store of the topology that queries can ask."""
    builder = builder.chosen()
    return ReadableStore(builder, config, changelog) if isinstance(builder, AbstractStoreBuilder) else CustomStore(builder)


def kind_of(store: Any) -> tuple[str, str]:
    """What a typed store holds, and how its values look."""
    kind: tuple[str, str] | None = store.query_kind
    if kind is None:
        raise InvalidStateStoreError(f"store {store.name} cannot be queried: it is a {type(store).__name__}")
    return kind


@lru_cache(maxsize=1)
def _block_cache() -> Cache:
    """All readers of a process share one block cache: there may be many of them."""
    return Cache(_BLOCK_CACHE_BYTES)
