"""The brokers of a soak: what is set for one that is alone, and for several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.surroundings import Brokers


@pytest.mark.parametrize(("brokers", "session"), [(1, 30_000), (3, 6_000)])
def test_should_give_a_broker_that_is_alone_the_time_to_load_its_groups(tmp_path: Path, brokers: int, session: int) -> None:
    made = Brokers(brokers, 1, tmp_path)
    try:
        assert [int(broker._overrides["broker.session.timeout.ms"]) for broker in made.cluster.brokers] == [session] * brokers
    finally:
        made._stack.close()
