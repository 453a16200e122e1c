"""The serdes of sources, sinks and stores: those they were given, or the application's defaults."""

from __future__ import annotations

import copy
from typing import Any, cast

from penstock.config.streams_config import StreamsConfig
from penstock.errors import PenstockError, StreamsError
from penstock.serdes.contract import as_deserializer, as_serializer
from penstock.serdes.guessed import or_default
from penstock.serdes.serde import WrappingNullable
from penstock.topology.registry import TopologyRegistry
from penstock.topology.specs import Deserializer, Serializer, SinkSpec, SourceSpec
from penstock.user_code import added_at


def source_deserializer(given: Any, context: Any, part: str, node: str) -> Deserializer:
    """The deserializer of a source's keys or values."""
    owner = f"source node {node}"
    half = as_deserializer(given if given is not None else _default_serde(context, part, "source", owner))
    return cast(Deserializer, _prepared(half, context, part, owner))


def sink_serializer(given: Any, context: Any, part: str, node: str) -> Serializer:
    """The serializer of a sink's keys or values."""
    owner = f"sink node {node}"
    half = as_serializer(given if given is not None else _default_serde(context, part, "sink", owner))
    return cast(Serializer, _prepared(half, context, part, owner))


def check_serdes(registry: TopologyRegistry, config: StreamsConfig) -> None:
    """Refuse a source, a sink or a store without a serde, before anything starts."""
    defaults = DefaultSerdes(config)
    try:
        for node in registry.nodes.values():
            shown = f"{node.name}{added_at(node.added_at)}"
            if isinstance(node, SourceSpec):
                source_deserializer(node.key_deserializer, defaults, "key", shown)
                source_deserializer(node.value_deserializer, defaults, "value", shown)
            elif isinstance(node, SinkSpec):
                sink_serializer(node.key_serializer, defaults, "key", shown)
                sink_serializer(node.value_serializer, defaults, "value", shown)
        for name, store in {**registry.stores, **registry.global_stores}.items():
            users = registry.store_users.get(name, ())
            owner = f"store {name}{added_at(registry.nodes[users[0]].added_at if users else '')}"
            builder = store.chosen()
            for part in ("key", "value"):
                if hasattr(builder, f"{part}_serde"):  # a builder of the user's own need not have one
                    _check_store_serde(getattr(builder, f"{part}_serde"), defaults, part, owner)
    finally:
        config.close_default_serdes()  # they were made for the check


class DefaultSerdes:
    """The part of a task's context that knows the default serdes."""

    def __init__(self, config: StreamsConfig) -> None:
        self._config = config

    @property
    def key_serde(self) -> Any:
        """The default serde of keys."""
        return self._config.default_key_serde

    @property
    def value_serde(self) -> Any:
        """The default serde of values."""
        return self._config.default_value_serde


def _check_store_serde(given: Any, defaults: DefaultSerdes, part: str, owner: str) -> None:
    serde = or_default(given if given is not None else _default_serde(defaults, part, "store", owner), defaults)
    _prepared(as_serializer(serde), defaults, part, owner)
    _prepared(as_deserializer(serde), defaults, part, owner)


def _prepared(half: Any, context: Any, part: str, owner: str) -> Any:
    half = or_default(half, context)
    if isinstance(half, WrappingNullable):
        # A copy: the topology may be run again with other defaults.
        half = copy.copy(half)
        try:
            half.set_if_unset(context)
        except PenstockError as exc:
            raise StreamsError(f"Failed to initialize {part} serdes for {owner}: {exc}") from exc
    return half


def _default_serde(context: Any, part: str, kind: str, owner: str) -> Any:
    try:
        serde = context.key_serde if part == "key" else context.value_serde
    except PenstockError as exc:
        raise StreamsError(f"Failed to initialize {part} serdes for {owner}: {exc}") from exc
    if serde is None:
        raise StreamsError(
            f"Failed to initialize {part} serdes for {owner}: it has no {part} serde and there is no default. "
            f"Give the {kind} a {part} serde, or set default.{part}.serde."
        )
    return serde
