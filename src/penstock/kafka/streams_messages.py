"""Requests and responses of streams groups (KIP-1071), which kafka-python does not have: only their fields are ours."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

from penstock.kafka import streams_schemas


class StreamsGroupHeartbeatRequest(ApiMessage, load_json=streams_schemas):  # type: ignore[call-arg, misc]  # kafka-python has no types
    """Join, stay in, or leave a streams group."""


class StreamsGroupHeartbeatResponse(ApiMessage, load_json=streams_schemas):  # type: ignore[call-arg, misc]
    """The member's epoch, and its tasks if they have changed."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=streams_schemas):  # type: ignore[call-arg, misc]
    """Ask who is in streams groups."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=streams_schemas):  # type: ignore[call-arg, misc]
    """The members of streams groups, with their tasks."""
