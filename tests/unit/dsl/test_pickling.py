"""A topology goes to the workers: it must pickle, without the graph it was made from."""

from __future__ import annotations

import pickle

import pytest

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Consumed
from penstock.operators import SubscriptionWrapper
from penstock.operators.joins.foreign_key.subscription_wrapper import CURRENT_VERSION, Instruction
from penstock.serdes.serde import Serdes
from tests.unit.dsl.programs import PROGRAMS, TEXT

cloudpickle = pytest.importorskip("pyspark.cloudpickle", reason="the pickler of the workers")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "global-store"])
def test_should_send_sub_topologies_without_the_graph(name: str) -> None:
    builder = StreamsBuilder()
    PROGRAMS[name](builder)
    topology = builder.build().internal_topology_builder.rewrite_topology({"application.id": "app"})
    for plan in topology.subtopologies():
        data = cloudpickle.dumps(plan)
        assert b"InternalStreamsBuilder" not in data
        assert b"InternalTopologyBuilder" not in data
        assert b"penstock.dsl" not in data.replace(b"penstock.dsl.suppressed", b"")
        copy = pickle.loads(data)
        assert [node.name for node in copy.nodes] == [node.name for node in plan.nodes]
        assert set(copy.stores) == set(plan.stores)


def test_should_pickle_a_topology_before_it_has_an_application_id() -> None:
    builder = StreamsBuilder()
    PROGRAMS["foreign-key"](builder)
    topology = builder.build()
    copy = pickle.loads(cloudpickle.dumps(topology))
    assert str(copy.describe()) == str(topology.describe())


def _tell_topic(topic: str, value: object) -> bytes:
    raise ValueError(topic)


def test_should_tell_serdes_the_application_id_after_pickling() -> None:
    builder = StreamsBuilder()
    left = builder.table("a", Consumed(Serdes.serde(_tell_topic, _tell_topic), TEXT))
    left.join(builder.table("b", Consumed(TEXT, TEXT)), min, foreign_key=str, name="fk")
    topology = builder.build().internal_topology_builder.rewrite_topology({"application.id": "app"})
    copy = pickle.loads(cloudpickle.dumps(topology.subtopologies()))
    (sink,) = [node for plan in copy for node in plan.nodes if node.name == "fk-subscription-registration-sink"]
    wrapper = SubscriptionWrapper(None, Instruction.DELETE_KEY_AND_PROPAGATE, "pk", CURRENT_VERSION, 0)
    with pytest.raises(ValueError, match="app-fk-subscription-registration-topic-pk"):
        sink.value_serializer("topic", wrapper)
