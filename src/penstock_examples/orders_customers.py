"""Orders with their customers: a join of two tables on a foreign key.

An order names its customer; when the order or the customer changes, the order is written anew.
Topics: `orders` (order id -> {"customer", "item"}), `customers` (customer id -> {"name", "city"})
-> `shipments` (order id -> text).
"""

from typing import Any

from penstock import Consumed, Materialized, Produced, Serdes, StreamsBuilder, TableJoined, Topology


def label(order: dict[str, Any], customer: dict[str, Any]) -> str:
    return f"{order['item']} for {customer['name']} in {customer['city']}"


def topology() -> Topology:
    builder = StreamsBuilder()
    text, json = Serdes.string(), Serdes.json()
    orders = builder.table("orders", Consumed(text, json, name="orders"), Materialized("orders"))
    customers = builder.table("customers", Consumed(text, json, name="customers"), Materialized("customers"))
    shipments = orders.join(
        customers,
        label,
        foreign_key=lambda order: order["customer"],
        table_joined=TableJoined(name="by-customer"),
        materialized=Materialized("shipments", text, text),
    )
    shipments.to_stream().to("shipments", Produced(text, text))
    return builder.build()
