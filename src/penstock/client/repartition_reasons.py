"""How each repartition of a topology goes, and why, for people: `penstock describe`, the page, the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from penstock.config.streams_config import StreamsConfig
from penstock.spark.plan import Plan, make_plan
from penstock.topology.topology import Topology

_log = logging.getLogger(__name__)

# What a topology is described with where nobody has said: only the kind of what is set matters.
_NOBODY = {"application.id": "described", "bootstrap.servers": "localhost:9092"}


def transports(plan: Plan, application_id: str) -> dict[str, str]:
    """What is to be said of each repartition topic, by the name it has in a description, which lacks the application's."""
    topics = [topic for s in plan.subtopologies.values() for topic in s.repartition_source_topics]
    return {topic.removeprefix(f"{application_id}-"): _said(topic, plan) for topic in topics}


def described_transports(topology: Topology, settings: Mapping[str, Any]) -> dict[str, str]:
    """The same for a topology that does not run; how many partitions topics have is not known then."""
    config = StreamsConfig({**_NOBODY, **settings})
    application_id = config["application.id"]
    subtopologies = [s for s in topology.internal_topology_builder.subtopologies(application_id, {}) if s.nodes]
    partitions = dict.fromkeys((topic for s in subtopologies for topic in s.source_topics), 1)
    return transports(make_plan(subtopologies, partitions, config), application_id)


def log_transports(plan: Plan) -> None:
    """Say how repartitions go, and why those that are written are."""
    for topic in dict.fromkeys([*plan.shuffled, *plan.reasons]):
        if topic in plan.shuffled and topic in plan.reasons:
            _log.warning(
                "repartition %s goes through Spark's shuffle, since repartition.transport = shuffle says so; but %s: records may "
                "be lost or be there twice after a failure",
                *(topic, plan.reasons[topic]),
            )
        else:
            _log.info("repartition %s %s", topic, _said(topic, plan))


def _said(topic: str, plan: Plan) -> str:
    reason = plan.reasons.get(topic)
    if topic not in plan.shuffled:
        return "goes through its topic" if reason is None else f"goes through its topic: {reason}"
    return (
        "goes through Spark's shuffle" if reason is None else f"goes through Spark's shuffle as it was told to, although {reason}"
    )
