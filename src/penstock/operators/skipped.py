"""Records that an operator does not process: each is counted, and logged in Kafka Streams' words."""

from __future__ import annotations

import logging

from penstock.operators.context import OperatorContext

_log = logging.getLogger(__name__)


def skip_record(context: OperatorContext, reason: str) -> None:
    """Drop the current record, for example for a `null key`."""
    context.record_dropped(reason)


def skip_out_of_order(context: OperatorContext) -> None:
    """Drop a change that is older than what its versioned table holds."""
    _log.info("Skipping out-of-order record from versioned table while performing table-table join.")
    context.count_dropped()


def skip_expired(context: OperatorContext, timestamp: int, window: str, expiration: int, stream_time: int) -> None:
    """Drop the current record from a window that has closed."""
    metadata = context.record_metadata
    origin = (
        "Topic, partition, and offset not known."
        if metadata is None
        else f"topic=[{metadata.topic}] partition=[{metadata.partition}] offset=[{metadata.offset}]"
    )
    _log.warning(
        "Skipping record for expired window. %s timestamp=[%d] window=%s expiration=[%d] streamTime=[%d]",
        origin,
        timestamp,
        window,
        expiration,
        stream_time,
    )
    context.count_dropped()
