from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from penstock.client.reset.topic_owners import TopicOwners, is_named_as_internal, local_applications, local_stores, topic_owners


def owners(
    *topics: str,
    applications: Collection[str] = (),
    stores: Collection[str] = (),
    committed: Mapping[str, Collection[str]] | None = None,
) -> TopicOwners:
    return topic_owners(topics, "shop", {"shop", *applications}, stores, lambda group: (committed or {}).get(group, ()))


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("shop-counts-changelog", True),
        ("shop-words-repartition", True),
        ("shop-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic", True),
        ("shop-by-customer-subscription-response-topic", True),
        ("shop-eu-counts-changelog", True),
        ("shopping-x-changelog", False),
        ("shop-orders", False),
        ("orders-changelog", False),
        ("shop-changelog", False),
    ],
)
def test_should_know_how_internal_topics_are_named(topic: str, internal: bool) -> None:
    assert is_named_as_internal(topic, "shop") is internal


@pytest.mark.parametrize(
    "topic",
    [
        "shop-counts-changelog",
        "shop-words-repartition",
        "shop-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",
        "shop-KSTREAM-KEY-SELECT-0000000001-repartition",
        "shop-KSTREAM-JOINTHIS-0000000016-store-changelog",
        "shop-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic",
    ],
)
def test_should_own_what_can_be_read_in_one_way(topic: str) -> None:
    assert owners(topic, applications=["shopping", "sho", "shop-eu"]).ours == (topic,)


@pytest.mark.parametrize(
    "topic",
    [
        "shop-eu-counts-changelog",
        "shop-eu-words-repartition",
        "shop-eu-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",
        "shop-eu-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic",
        "shop-eu-by-customer-subscription-registration-topic",
    ],
)
def test_should_leave_what_may_be_of_another_application(topic: str) -> None:
    assert owners(topic) == TopicOwners((), (), (topic,))
    assert owners(topic, applications=["shop-eu"]) == TopicOwners((), ((topic, "shop-eu"),), ())
    # A group has no changelog among its offsets: who has one there reads it as an input.
    read = owners(topic, applications=["shop-eu"], committed={"shop": [topic], "shop-eu": [topic]})
    assert read.others == ((topic, "shop-eu"),)


def test_should_take_the_longest_name_that_fits() -> None:
    found = owners("shop-eu-west-counts-changelog", applications=["shop-eu", "shop-eu-west", "shop-eu-west-counts"])
    assert found.others == (("shop-eu-west-counts-changelog", "shop-eu-west"),)


def test_should_own_repartitions_that_only_its_group_has_read() -> None:
    topic = "shop-by-user-repartition"
    assert owners(topic, committed={"shop": [topic]}).ours == (topic,)
    assert owners(topic, applications=["shop-by"], committed={"shop": [topic]}).ours == (topic,)
    assert owners(topic, applications=["shop-by"], committed={"shop": [topic], "shop-by": [topic]}).ours == ()


def test_should_own_the_changelogs_of_its_stores() -> None:
    changelog, repartition = "shop-by-user-changelog", "shop-by-user-repartition"
    assert owners(changelog, stores=["by-user"]).ours == (changelog,)
    assert owners(changelog, repartition, committed={"shop": [repartition]}).ours == (changelog, repartition)
    # Where both may be right nothing is deleted.
    assert owners(changelog, stores=["by-user"], applications=["shop-by"]).ours == ()


def test_should_not_take_a_changelog_that_is_read_as_an_input_for_its_own() -> None:
    assert owners("shop-eu-counts-changelog", committed={"shop": ["shop-eu-counts-changelog"]}).ours == ()


def test_should_know_applications_and_stores_by_their_local_state(tmp_path: Path) -> None:
    (tmp_path / "shop" / "0_1" / "rocksdb" / "by-user").mkdir(parents=True)
    (tmp_path / "shop-eu").mkdir()
    (tmp_path / "file").touch()
    assert local_applications(tmp_path) == {"shop", "shop-eu"}
    assert local_stores(tmp_path, "shop") == {"by-user"}
    assert local_applications(tmp_path / "none") == local_stores(tmp_path / "none", "shop") == set()
