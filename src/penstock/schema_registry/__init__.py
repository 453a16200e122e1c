"""Serdes whose schemas are in a Schema Registry, in Confluent's wire format; each needs an extra of its own.

    pip install 'penstock-streams[avro]'          AvroSerde
    pip install 'penstock-streams[protobuf]'      ProtobufSerde
    pip install 'penstock-streams[jsonschema]'    JsonSchemaSerde

Bytes and settings are those of Java's serdes; the registry is asked through confluent-kafka's own client, once for each schema.
"""

from __future__ import annotations

from penstock.schema_registry.serdes import AvroSerde, JsonSchemaSerde, ProtobufSerde

__all__ = ["AvroSerde", "JsonSchemaSerde", "ProtobufSerde"]
