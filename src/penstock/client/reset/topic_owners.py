"""Whose internal topics are: an application's, another's, or nobody can tell.

The name alone does not say it. `shop-eu-counts-changelog` is the changelog of store `eu-counts` of application `shop`, or that of
store `counts` of application `shop-eu`. So what else is known is looked at, and a topic is ours only where

1. its name can be read in one way: the part after the application's id has no `-`, or is a name that the DSL makes
   (`KSTREAM-AGGREGATE-STATE-STORE-0000000003`); or
2. it carries records from task to task (a repartition, a foreign-key join), and only our group has committed offsets of it; or
3. it is the changelog of a store that we have: in the local state, or beside a repartition of its name that is ours.

It is another's where an application is known, by its group or its local state, whose id begins with ours and fits the topic. Of
what is left nobody knows.
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
"""From a group to the topics it has committed offsets of."""


@dataclass(frozen=True)
class TopicOwners:
    """The topics that are named as internal topics of an application are: its own, another's with its id, and the rest."""

    ours: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]

    @property
    def all(self) -> set[str]:
        """All of them."""
        return {*self.ours, *(topic for topic, _ in self.others), *self.unknown}


def is_named_as_internal(topic: str, application_id: str) -> bool:
    """Whether a topic could be, by its name, one that an application makes for itself.

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
    """Sort topics by owner. `applications` are all ids that are known (groups, local state), `stores` ours on this machine."""
    named = sorted(topic for topic in topics if is_named_as_internal(topic, application_id))
    read_by_us = set(committed(application_id))
    ours: list[str] = []
    others: list[tuple[str, str]] = []
    unknown: list[str] = []
    # Changelogs last: they are known by the repartitions that are ours.
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
    """The applications with state on this machine."""
    return {folder.name for folder in state_dir.iterdir() if folder.is_dir()} if state_dir.is_dir() else set()


def local_stores(state_dir: Path, application_id: str) -> set[str]:
    """The stores of an application with files on this machine."""
    return {folder.name for folder in (state_dir / application_id).glob("*/rocksdb/*") if folder.is_dir()}


def _inner_name(topic: str, application_id: str) -> str | None:
    """What stands between the application's id and the ending; None where the topic is not named in this way."""
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
    """The application with the longest id that fits."""
    longer = [known for known in applications if known.startswith(f"{application_id}-") and is_named_as_internal(topic, known)]
    return max(longer, key=len, default=None)


def _has_one_reading(inner: str) -> bool:
    foreign_key = _FOREIGN_KEY_TOPIC.fullmatch(inner)
    if foreign_key is not None:
        return foreign_key.group(1) is None
    return "-" not in inner or _MADE_BY_THE_DSL.fullmatch(inner) is not None
