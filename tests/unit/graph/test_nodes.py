from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.graph.dsl_stores import (
    DslKeyValueParams,
    DslSessionParams,
    DslStoreFormat,
    DslStoreSuppliers,
    DslWindowParams,
    InMemoryDslStoreSuppliers,
    RocksDBDslStoreSuppliers,
    configured_dsl_store_suppliers,
    resolve_dsl_store_suppliers,
)
from penstock.graph.node import ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode
from penstock.graph.pseudo_topic import PseudoTopic
from penstock.graph.tables import TableParent
from penstock.operators import KTableSource
from penstock.topology.builder import InternalTopologyBuilder
from penstock.windows import EmitStrategy


def processor(name: str) -> ProcessorGraphNode:
    return ProcessorGraphNode(ProcessorParameters(dict, name))


def test_should_keep_parents_and_children_in_step() -> None:
    parent, other, child = processor("parent"), processor("other"), processor("child")
    parent.add_child(child)
    other.add_child(child)
    assert child.parent_node_names == ["parent", "other"]
    parent.remove_child(child)
    parent.remove_child(child)
    assert (parent.children, child.parent_node_names) == ([], ["other"])
    other.clear_children()
    assert child.parent_nodes == []


def test_should_materialize_a_source_table_when_it_is_looked_up() -> None:
    source = KTableSource("store", None)
    table = TableParent("t", source)
    assert not table.enable_sending_old_values(False)
    assert not source.materialized
    assert table.value_getter_supplier().store_names == ("store",)
    assert source.materialized
    assert table.enable_sending_old_values(False)
    assert (source.send_old_values, table.sending_old_value_enabled) == (True, True)


def test_should_materialize_a_source_table_that_is_forced_to_send_old_values() -> None:
    source = KTableSource("store", None)
    assert TableParent("t", source).enable_sending_old_values(True)
    assert (source.materialized, source.send_old_values) == (True, True)


def test_should_put_the_application_id_before_a_pseudo_topic() -> None:
    topology = InternalTopologyBuilder()
    topic = PseudoTopic(topology, "t-pk")
    assert topic() == "t-pk"
    topology.set_application_id("app")
    assert topic() == "app-t-pk"


@pytest.mark.parametrize(
    "value",
    [
        "in_memory",
        "IN_MEMORY",
        InMemoryDslStoreSuppliers,
        InMemoryDslStoreSuppliers(),
        "penstock.graph.dsl_stores:InMemoryDslStoreSuppliers",
        "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
    ],
)
def test_should_understand_every_way_to_name_stores(value: Any) -> None:
    assert isinstance(resolve_dsl_store_suppliers(value), InMemoryDslStoreSuppliers)


@pytest.mark.parametrize("value", [5, "no.such.module", "penstock.errors.ConfigError", dict])
def test_should_refuse_what_names_no_stores(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"dsl\.store\.suppliers\.class"):
        resolve_dsl_store_suppliers(value)


def test_should_prefer_the_suppliers_class_over_the_default_store() -> None:
    config = {"dsl.store.suppliers.class": "rocksdb", "default.dsl.store": "in_memory"}
    assert isinstance(configured_dsl_store_suppliers(config), RocksDBDslStoreSuppliers)
    assert configured_dsl_store_suppliers({}) is None


@pytest.mark.parametrize("suppliers", [RocksDBDslStoreSuppliers(), InMemoryDslStoreSuppliers()])
def test_should_supply_stores_of_every_kind(suppliers: DslStoreSuppliers) -> None:
    close = EmitStrategy.on_window_close()
    made = [
        suppliers.key_value_store(DslKeyValueParams("s")),
        suppliers.key_value_store(DslKeyValueParams("s", DslStoreFormat.PLAIN)),
        suppliers.window_store(DslWindowParams("s", 100, 10)),
        suppliers.window_store(DslWindowParams("s", 100, 10, True, store_format=DslStoreFormat.PLAIN)),
        suppliers.window_store(DslWindowParams("s", 100, 10, emit_strategy=close)),
        suppliers.window_store(DslWindowParams("s", 100, 10, emit_strategy=close, is_sliding_window=True)),
        suppliers.session_store(DslSessionParams("s", 100)),
        suppliers.session_store(DslSessionParams("s", 100, close)),
    ]
    assert {supplier.name for supplier in made} == {"s"}
    persistent = isinstance(suppliers, RocksDBDslStoreSuppliers)
    assert {supplier.get().persistent for supplier in made} == {persistent}
