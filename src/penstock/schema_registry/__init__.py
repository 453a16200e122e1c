"""Serdes with schemas in a Schema Registry, in Confluent's wire format. Each needs an extra.

    pip install 'penstock-streams[avro]'          AvroSerde
    pip install 'penstock-streams[protobuf]'      ProtobufSerde
    pip install 'penstock-streams[jsonschema]'    JsonSchemaSerde

Bytes and settings are those of Java's serdes. confluent-kafka's client reads each schema once from the registry.
"""

from __future__ import annotations

from penstock.schema_registry.serdes import AvroSerde, JsonSchemaSerde, ProtobufSerde

__all__ = ["AvroSerde", "JsonSchemaSerde", "ProtobufSerde"]
