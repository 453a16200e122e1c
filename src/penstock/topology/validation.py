"""Do the topics fit the topology: how many partitions repartition topics get, and whether topics are co-partitioned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.errors import MissingSourceTopicError, TopologyError
from penstock.topology.specs import InternalTopicConfig, Subtopology


def source_partition_count(subtopology: Subtopology, partition_counts: Mapping[str, int]) -> int:
    """The number of tasks of a sub-topology: the most partitions any of its source topics has."""
    return max((partition_counts[topic] for topic in subtopology.source_topics), default=0)


def repartition_partition_counts(subtopologies: Sequence[Subtopology], partition_counts: Mapping[str, int]) -> dict[str, int]:
    """How many partitions each repartition topic gets, given those of the topics the application does not own.

    1. Every topic that is read and not created by the application must exist.
    2. A repartition topic without a fixed number takes the most partitions of any source of the sub-topologies that
       write to it; repeated until all are known, since those sources may be repartition topics too.
    3. Co-partitioned topics are brought to the same number.
    """
    repartition = {name: topic for plan in subtopologies for name, topic in plan.repartition_source_topics.items()}
    _require_source_topics(subtopologies, partition_counts, repartition)
    known = {name: topic.partitions for name, topic in repartition.items() if topic.partitions is not None}
    unknown = [name for name in repartition if name not in known]
    while unknown:
        candidates = {name: _upstream_counts(name, subtopologies, repartition, known, partition_counts) for name in unknown}
        complete = [name for name, counts in candidates.items() if counts and None not in counts]
        # Sub-topologies that feed each other never get complete: one of them goes by what it knows.
        partial = [name for name, counts in candidates.items() if any(count is not None for count in counts)]
        resolved = complete or partial[:1]
        if not resolved:
            raise TopologyError(
                f"The number of partitions of the repartition topics {sorted(unknown)} cannot be determined: make sure that all "
                "input topics are created and that every pattern matches at least one topic."
            )
        known.update({name: max(count for count in candidates[name] if count is not None) for name in resolved})
        unknown = [name for name in unknown if name not in known]
    groups = [group for plan in subtopologies for group in plan.copartition_groups]
    known.update(validate_copartitioning(groups, {**partition_counts, **known}, repartition))
    return known


def _require_source_topics(
    subtopologies: Iterable[Subtopology], partition_counts: Mapping[str, int], repartition: Collection[str]
) -> None:
    for plan in subtopologies:
        missing = sorted(set(plan.source_topics) - set(repartition) - set(partition_counts))
        if missing:
            raise MissingSourceTopicError(
                f"Missing source topics {missing} for sub-topology {plan.id}: create the topics before the application starts."
            )


def _upstream_counts(
    topic: str,
    subtopologies: Iterable[Subtopology],
    repartition: Collection[str],
    known: Mapping[str, int],
    partition_counts: Mapping[str, int],
) -> list[int | None]:
    """The partition counts, None where not known yet, of all that is read by those who write to the topic."""
    sources = [source for plan in subtopologies if topic in plan.sink_topics for source in plan.source_topics]
    return [known.get(source) if source in repartition else partition_counts[source] for source in sources]


def validate_copartitioning(
    groups: Iterable[Collection[str]],
    partition_counts: Mapping[str, int],
    repartition_topics: Mapping[str, InternalTopicConfig],
) -> dict[str, int]:
    """Check that the topics of each group have the same number of partitions, and give it to the repartition topics.

    Repartition topics follow the topics the application does not own, or, in a group without any, the one whose
    number is fixed, else the highest number. Returns the counts of the repartition topics in the groups. Raises
    TopologyError, naming the topics and their counts, where a number is fixed and does not fit.
    """
    counts = dict(partition_counts)
    result: dict[str, int] = {}
    for group in groups:
        missing = sorted(topic for topic in group if topic not in counts)
        if missing:
            others = sorted(set(group) - set(missing))
            raise TopologyError(f"Topics {missing} have to be co-partitioned with {others}, but do not exist: create them first.")
        internal = sorted(topic for topic in group if topic in repartition_topics)
        external = sorted(topic for topic in group if topic not in repartition_topics)
        fixed = [topic for topic in internal if repartition_topics[topic].enforce_partitions]
        demanding = external or fixed or internal
        if not demanding:
            continue
        wanted = max(counts[topic] for topic in demanding)
        binding = [*external, *fixed]
        if any(counts[topic] != wanted for topic in binding):
            raise TopologyError(_not_copartitioned(binding, counts))
        for topic in internal:
            counts[topic] = result[topic] = wanted
    return result


def validate_fixed_partitions(fixed_counts: Mapping[str, int | None]) -> None:
    """Refuse a group of topics to be co-partitioned whose numbers of partitions are all fixed and differ."""
    counts = {topic: count for topic, count in fixed_counts.items() if count is not None}
    if len(counts) == len(fixed_counts) and len(set(counts.values())) > 1:
        raise TopologyError(_not_copartitioned(counts, counts))


def _not_copartitioned(topics: Iterable[str], counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{topic} has {counts[topic]}" for topic in sorted(topics))
    return (
        f"Topics not co-partitioned: {listed} partitions. Topics that are joined must have the same number of partitions: "
        "recreate one of them, or send one through repartition()."
    )
