"""How a global or a read-only store is filled: a source, a topic, and the processor that writes to the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import TopologyError
from penstock.serdes.serde import as_deserializer
from penstock.timestamps import resolve_timestamp_extractor
from penstock.topology.specs import Deserializer, ProcessorSupplier, TimestampExtractor

_REQUIRED = ("topic", "processor_name", "state_update_supplier")
_DESERIALIZERS = ("key_deserializer", "value_deserializer")
_ALL = ("timestamp_extractor", *_DESERIALIZERS, *_REQUIRED)


@dataclass(frozen=True)
class StoreFeed:
    """The arguments of `add_global_store` and `add_read_only_state_store`, sorted out."""

    timestamp_extractor: TimestampExtractor | None
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    topic: str
    processor_name: str
    state_update_supplier: ProcessorSupplier

    @classmethod
    def of(cls, source_name: str, positional: Sequence[Any], named: Mapping[str, Any]) -> StoreFeed:
        """From what a caller gave: the deserializers come before the topic, as in Java, or by name.

        >>> StoreFeed.of("source", ("rates", "keep-rates", dict), {}).processor_name
        'keep-rates'
        >>> StoreFeed.of("source", (None, None), {"topic": "rates", "processor_name": "p", "state_update_supplier": dict}).topic
        'rates'
        """
        if positional and isinstance(positional[0], str):
            order: tuple[str, ...] = _REQUIRED
        else:
            order = _ALL if len(positional) == len(_ALL) else (*_DESERIALIZERS, *_REQUIRED)
        arguments = dict(zip(order, positional, strict=False))
        unknown = [*positional[len(order) :], *(name for name in named if name not in _ALL or name in arguments)]
        if unknown:
            raise TopologyError(f"The store read by {source_name} got arguments that are unknown or given twice: {unknown}.")
        arguments.update(named)
        missing = [name for name in _REQUIRED if arguments.get(name) is None]
        if missing:
            raise TopologyError(f"The store read by {source_name} lacks {', '.join(missing)}.")
        extractor = arguments.get("timestamp_extractor")
        return cls(
            None if extractor is None else resolve_timestamp_extractor(extractor),
            as_deserializer(arguments.get("key_deserializer")),
            as_deserializer(arguments.get("value_deserializer")),
            *(arguments[name] for name in _REQUIRED),
        )
