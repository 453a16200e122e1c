"""Whether the keys of topics that are joined lie where Kafka's partitioner puts them, judged by a few keys of each.

A producer with another partitioner, as librdkafka's own is, puts keys into other partitions than a Java producer does. Two topics
that were written in two ways are not co-partitioned, whatever their number of partitions: records of one key are in different
tasks, and a join silently finds nothing. Looked at are the first keys of one partition of each topic: one task tells it for all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from itertools import islice

from penstock.hashing import default_partition
from penstock.topology.specs import SinkSpec, Subtopology

_log = logging.getLogger(__name__)

PARTITION = 0
"""The partition that is looked at."""

# So many different keys are in place by chance in one of a million cases, with two partitions.
_ENOUGH = 20
_MOST = 100
_OF_A_BATCH = 64


class KeyPlacement:
    """The keys that were looked at of one task's topics; `is_complete` when nothing more is to be learnt."""

    def __init__(self, groups: Iterable[frozenset[str]], counts: Mapping[str, int], in_place: frozenset[str]) -> None:
        self._groups = [group for group in groups if len(group) > 1 and all(counts.get(topic, 1) > 1 for topic in group)]
        self._counts = counts
        self._in_place = in_place
        """Topics of our own, which are written with Kafka's partitioner."""
        self._known: dict[str, set[bytes]] = {t: set() for group in self._groups for t in group if t not in in_place}
        self._strays: dict[str, list[bytes]] = {topic: [] for topic in self._known}
        self._open = set(self._known)

    @classmethod
    def of(cls, subtopology: Subtopology, subtopologies: Iterable[Subtopology], counts: Mapping[str, int]) -> KeyPlacement:
        """For the topics that a sub-topology joins."""
        chosen = {
            node.topic
            for other in subtopologies
            for node in other.nodes
            if isinstance(node, SinkSpec) and node.partitioner is not None and isinstance(node.topic, str)
        }
        return cls(subtopology.copartition_groups, counts, frozenset(subtopology.repartition_source_topics) - chosen)

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing to look at any more."""
        return not self._open

    def look(self, topic: str, keys: Iterable[bytes | None]) -> None:
        """Take note of the first keys of a batch of one topic, and tell what does not fit together."""
        if topic not in self._open:
            return
        known, strays = self._known[topic], self._strays[topic]
        for key in islice(keys, _OF_A_BATCH):
            if key is not None and key not in known:
                known.add(key)
                if default_partition(key, self._counts[topic]) != PARTITION:
                    strays.append(key)
        if len(known) >= _MOST:
            self._open.discard(topic)
        self._judge()

    def _judge(self) -> None:
        for group in list(self._groups):
            strange = sorted(topic for topic in group if self._strays.get(topic))
            as_kafka = sorted(topic for topic in group if self._is_in_place(topic))
            if strange and as_kafka:
                self._tell(strange[0], as_kafka[0])
            if strange and (as_kafka or len(strange) == len(group)):
                # Either it is told, or all lie differently from Kafka's way, as with one partitioner that all producers share.
                self._groups.remove(group)
        needed = {topic for group in self._groups for topic in group}
        self._open &= needed

    def _is_in_place(self, topic: str) -> bool:
        return topic in self._in_place or (len(self._known[topic]) >= _ENOUGH and not self._strays[topic])

    def _tell(self, strange: str, as_kafka: str) -> None:
        key = self._strays[strange][0]
        _log.warning(
            "topics %s and %s are joined, but their keys lie differently: %d of %d keys that were looked at in partition %d of "
            "%s belong elsewhere by Kafka's partitioner (%r into partition %d), and those of %s are where it puts them. Records "
            "with such keys do not meet in the join. Producers of librdkafka, as confluent-kafka is, choose partitions as Java's "
            "do with partitioner=murmur2_random: write %s anew with it, or repartition() it before the join",
            strange,
            as_kafka,
            len(self._strays[strange]),
            len(self._known[strange]),
            PARTITION,
            strange,
            key[:50],
            default_partition(key, self._counts[strange]),
            as_kafka,
            strange,
        )
