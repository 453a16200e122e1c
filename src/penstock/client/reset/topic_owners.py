"""Determines the owner of internal topics: this application, another one, or unknown.

The name is ambiguous: `shop-eu-counts-changelog` is the changelog of store `eu-counts` of application `shop`, or of store
`counts` of application `shop-eu`. A topic belongs to this application if
1. its name has one reading: the part after the application id has no `-`, or is a name of the DSL
(`KSTREAM-AGGREGATE-STATE-STORE-0000000003`); or
2. it is read by tasks (a repartition, a foreign-key join), and only this group has committed offsets for it; or
3. it is the changelog of a store of this application: in the local state, or with an own repartition topic of the same name.

It belongs to another application if a known id (of a group or local state) begins with ours and fits the topic. Otherwise the
owner is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

_CHANGELOG, _REPARTITION = "-changelog", "-repartition"
_ENDINGS = (_CHANGELOG, _REPARTITION, "-subscription-registration-topic", "-subscription-response-topic")
_FOREIGN_KEY_TOPIC = re.compile(r"(.+-)?KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic")
_MADE_BY_THE_DSL = re.compile(r"(KSTREAM|KTABLE|COGROUPKSTREAM)-[A-Z-]+-\d{10}(-[a-z-]+)?")

CommittedTopics = Callable[[str], Collection[str]]
"""Returns the topics for which a group has committed offsets."""


@dataclass(frozen=True)
class TopicOwners:
    """Topics whose names fit an application: its own, others' with their application ids, and unknown ones."""

    ours: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]

    @property
    def all(self) -> set[str]:
        return {*self.ours, *(topic for topic, _ in self.others), *self.unknown}


def is_named_as_internal(topic: str, application_id: str) -> bool:
    """Return True if a topic's name fits an internal topic of the application.

    >>> is_named_as_internal("shop-counts-changelog", "shop"), is_named_as_internal("orders", "shop")
    (True, False)
    """
    return _inner_name(topic, application_id) is not None


def topic_owners(
    topics: Iterable[str],
    application_id: str,
    applications: Collection[str],
    stores: Collection[str],
    committed: CommittedTopics,
) -> TopicOwners:
    """Determine the owners of topics. `applications` has all known ids (groups, local state), `stores` this application's
    local stores.
    """
    named = sorted(topic for topic in topics if is_named_as_internal(topic, application_id))
    read_by_us = set(committed(application_id))
    ours: list[str] = []
    others: list[tuple[str, str]] = []
    unknown: list[str] = []
    # Changelogs last: rule 3 needs the own repartition topics.
    for topic in sorted(named, key=lambda topic: topic.endswith(_CHANGELOG)):
        inner = _inner_name(topic, application_id)
        assert inner is not None
        other = _other_application(topic, application_id, applications)
        is_changelog = topic.endswith(_CHANGELOG)
        if not is_changelog and topic in read_by_us and (other is None or topic not in committed(other)):
            ours.append(topic)
        elif other is not None:
            others.append((topic, other))
        elif _has_one_reading(inner) or (is_changelog and (inner in stores or f"{application_id}-{inner}{_REPARTITION}" in ours)):
            ours.append(topic)
        else:
            unknown.append(topic)
    return TopicOwners(tuple(sorted(ours)), tuple(sorted(others)), tuple(unknown))


def local_applications(state_dir: Path) -> set[str]:
    """Return the applications with state on this machine."""
    return {folder.name for folder in state_dir.iterdir() if folder.is_dir()} if state_dir.is_dir() else set()


def local_stores(state_dir: Path, application_id: str) -> set[str]:
    """Return the stores of an application with files on this machine."""
    return {folder.name for folder in (state_dir / application_id).glob("*/rocksdb/*") if folder.is_dir()}


def _inner_name(topic: str, application_id: str) -> str | None:
    """Return the part between the application id and the ending, None if the name does not fit."""
    if not topic.startswith(f"{application_id}-"):
        return None
    rest = topic[len(application_id) + 1 :]
    if _FOREIGN_KEY_TOPIC.fullmatch(rest):
        return rest
    for ending in _ENDINGS:
        if rest.endswith(ending) and len(rest) > len(ending):
            return rest[: -len(ending)]
    return None


def _other_application(topic: str, application_id: str, applications: Iterable[str]) -> str | None:
    """Return the application with the longest fitting id."""
    longer = [known for known in applications if known.startswith(f"{application_id}-") and is_named_as_internal(topic, known)]
    return max(longer, key=len, default=None)


def _has_one_reading(inner: str) -> bool:
    foreign_key = _FOREIGN_KEY_TOPIC.fullmatch(inner)
    if foreign_key is not None:
        return foreign_key.group(1) is None
    return "-" not in inner or _MADE_BY_THE_DSL.fullmatch(inner) is not None
