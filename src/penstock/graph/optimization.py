"""Which rewrites `topology.optimization` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError

TOPOLOGY_OPTIMIZATION = "topology.optimization"
OPTIMIZE = "all"
NO_OPTIMIZATION = "none"
REUSE_KTABLE_SOURCE_TOPICS = "reuse.ktable.source.topics"
MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
SINGLE_STORE_SELF_JOIN = "single.store.self.join"
_NAMES = (REUSE_KTABLE_SOURCE_TOPICS, MERGE_REPARTITION_TOPICS, SINGLE_STORE_SELF_JOIN)


@dataclass(frozen=True)
class Optimizations:
    """The rewrites to apply."""

    reuse_ktable_source_topics: bool = False
    merge_repartition_topics: bool = False
    single_store_self_join: bool = False


def optimizations_of(config: Mapping[str, Any] | None) -> Optimizations:
    """The rewrites a configuration asks for; none where it says nothing.

    >>> optimizations_of({"topology.optimization": "merge.repartition.topics"})
    Optimizations(reuse_ktable_source_topics=False, merge_repartition_topics=True, single_store_self_join=False)
    """
    value = (config or {}).get(TOPOLOGY_OPTIMIZATION) or NO_OPTIMIZATION
    asked = [part.strip() for part in value.split(",")] if isinstance(value, str) else [str(part) for part in value]
    if asked == [NO_OPTIMIZATION]:
        return Optimizations()
    if asked == [OPTIMIZE]:
        return Optimizations(True, True, True)
    for name in asked:
        if name not in _NAMES:
            raise ConfigError(
                f"{TOPOLOGY_OPTIMIZATION} = {value!r}: {name!r} is not an optimisation; "
                f"allowed are all, none, or a comma-separated list of {', '.join(_NAMES)}"
            )
    return Optimizations(*(name in asked for name in _NAMES))
