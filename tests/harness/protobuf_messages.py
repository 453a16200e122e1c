"""Classes of messages as protoc makes them, without protoc."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _messages() -> dict[str, Any]:
    """What protoc makes of a file with the messages Order, Order.Line, Other, and Node, which may hold a Node."""
    file = descriptor_pb2.FileDescriptorProto(name="penstock_tests/order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="sku", number=1, type=9, label=1)
    order.field.add(name="count", number=2, type=5, label=1)
    order.nested_type.add(name="Line").field.add(name="text", number=1, type=9, label=1)
    file.message_type.add(name="Other").field.add(name="id", number=1, type=3, label=1)
    file.message_type.add(name="Node").field.add(name="below", number=1, type=11, label=1, type_name=".shop.Node")
    pool = descriptor_pool.Default()
    try:
        found = pool.FindFileByName(file.name)
    except KeyError:
        pool.Add(file)
        found = pool.FindFileByName(file.name)
    classes = {name: message_factory.GetMessageClass(one) for name, one in found.message_types_by_name.items()}
    classes["Line"] = message_factory.GetMessageClass(found.message_types_by_name["Order"].nested_types_by_name["Line"])
    return classes


MESSAGES = _messages()
