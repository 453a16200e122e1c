"""What differs between the kinds of windows: the store, the operator, the serde of windowed keys, the grace period."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.errors import TopologyError
from penstock.graph.materialize import (
    DslStoreBuilder,
    MaterializedStore,
    SessionStoreMaterializer,
    SlidingWindowStoreMaterializer,
    WindowStoreMaterializer,
)
from penstock.operators import KStreamSessionWindowAggregate, KStreamSlidingWindowAggregate, KStreamWindowAggregate
from penstock.serdes.guessed import GuessedSerde, guess
from penstock.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde
from penstock.user_code import misuse
from penstock.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StrategyType,
    UnlimitedWindows,
    Windows,
)

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]


class Windowing(ABC):
    """One kind of windows, as an aggregation needs it."""

    # Whether count() with options but without a store name uses up one more index, as earlier versions did.
    count_uses_extra_index = True

    @property
    @abstractmethod
    def grace_period_ms(self) -> int:
        """How long after its end a window still changes."""

    @abstractmethod
    def store(self, materialized: MaterializedStore, emit_strategy: EmitStrategy) -> DslStoreBuilder:
        """The store of the windows."""

    @abstractmethod
    def aggregate(
        self,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Aggregator | None = None,
    ) -> Any:
        """The operator that keeps them."""

    @abstractmethod
    def windowed_serde(self, key_serde: Any) -> Any:
        """The serde of windowed keys."""

    def key_serde(self, key_serde: Any) -> Any:
        """The serde of windowed keys where that of the keys is known."""
        if isinstance(key_serde, GuessedSerde):  # a default one may be of windowed keys itself
            return guess(self.windowed_serde(key_serde.own), "key")
        return None if key_serde is None else self.windowed_serde(key_serde)

    def check_emit_strategy(self, emit_strategy: EmitStrategy) -> None:  # noqa: B027  most windows have no limits
        """Refuse a strategy these windows cannot have."""


class TimeWindowing(Windowing):
    """Tumbling, hopping and unlimited windows."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows

    @property
    def grace_period_ms(self) -> int:
        """How long after its end a window still changes."""
        return self.windows.grace_period_ms

    def store(self, materialized: MaterializedStore, emit_strategy: EmitStrategy) -> DslStoreBuilder:
        """A window store."""
        return WindowStoreMaterializer(materialized, self.windows, emit_strategy)

    def aggregate(
        self,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Aggregator | None = None,
    ) -> Any:
        """The aggregation over time windows."""
        return KStreamWindowAggregate(self.windows, store_name, emit_strategy, initializer, aggregator)

    def windowed_serde(self, key_serde: Any) -> Any:
        """A key and the start of its window."""
        return TimeWindowedSerde(key_serde, self.windows.size)

    def check_emit_strategy(self, emit_strategy: EmitStrategy) -> None:
        """A window that never ends has no final result."""
        if isinstance(self.windows, UnlimitedWindows) and emit_strategy.type is StrategyType.ON_WINDOW_CLOSE:
            raise TopologyError("EmitStrategy.on_window_close() cannot be used for UnlimitedWindows: they never close")


class SlidingWindowing(Windowing):
    """Sliding windows."""

    count_uses_extra_index = False

    def __init__(self, windows: SlidingWindows) -> None:
        self.windows = windows

    @property
    def grace_period_ms(self) -> int:
        """How long after its end a window still changes."""
        return self.windows.grace_period_ms

    def store(self, materialized: MaterializedStore, emit_strategy: EmitStrategy) -> DslStoreBuilder:
        """A window store that keeps enough to make new windows."""
        return SlidingWindowStoreMaterializer(materialized, self.windows, emit_strategy)

    def aggregate(
        self,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Aggregator | None = None,
    ) -> Any:
        """The aggregation over sliding windows."""
        return KStreamSlidingWindowAggregate(self.windows, store_name, emit_strategy, initializer, aggregator)

    def windowed_serde(self, key_serde: Any) -> Any:
        """A key and the start of its window."""
        return TimeWindowedSerde(key_serde, self.windows.time_difference_ms)


class SessionWindowing(Windowing):
    """Sessions; they close one gap later, because a record may still extend them."""

    def __init__(self, windows: SessionWindows) -> None:
        self.windows = windows

    @property
    def grace_period_ms(self) -> int:
        """How long after its end a session still changes."""
        return self.windows.grace_period_ms + self.windows.inactivity_gap_ms

    def store(self, materialized: MaterializedStore, emit_strategy: EmitStrategy) -> DslStoreBuilder:
        """A session store."""
        return SessionStoreMaterializer(materialized, self.windows, emit_strategy)

    def aggregate(
        self,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Aggregator | None = None,
    ) -> Any:
        """The aggregation over sessions, which needs a merger."""
        if merger is None:
            raise TypeError("an aggregation over sessions needs merger=: how two sessions that meet become one")
        return KStreamSessionWindowAggregate(self.windows, store_name, emit_strategy, initializer, aggregator, merger)

    def windowed_serde(self, key_serde: Any) -> Any:
        """A key with the end and the start of its session."""
        return SessionWindowedSerde(key_serde)


def time_windowing(windows: Any) -> Windowing:
    """What `windowed_by` was given, if it is a kind of windows whose bounds do not depend on the other records' gaps."""
    if isinstance(windows, SlidingWindows):
        return SlidingWindowing(windows)
    if isinstance(windows, Windows) and not isinstance(windows, JoinWindows):
        for name in ("size", "grace_period_ms"):
            given = getattr(windows, name, None)
            if not isinstance(given, int):
                raise misuse(f"{type(windows).__name__}.{name} must be a number of milliseconds, got {given!r}")
        return TimeWindowing(windows)
    raise misuse(
        "windowed_by takes TimeWindows, UnlimitedWindows, SlidingWindows, SessionWindows or a subclass of Windows, "
        f"got {windows!r}"
    )
