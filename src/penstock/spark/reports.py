"""Stream threads' reports as bytes: encoded in the worker, decoded in the driver without unpickling."""

from __future__ import annotations

from penstock.dead_letters import DeadLetter
from penstock.errors import SerializationError
from penstock.ids import TaskId, TopicPartition
from penstock.log_lines import LogLine
from penstock.metrics.registry import MetricName
from penstock.metrics.transfer import MetricsLayout, MetricsUpdate
from penstock.runtime.flow import Flow
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.messages import BatchReport, Failure, RestoreProgress, ThreadReport
from penstock.spark.raised import Raised
from penstock.wire import Codec

_CODEC = Codec(
    ThreadReport,
    BatchReport,
    TaskId,
    TopicPartition,
    OffsetAndMetadata,
    RestoreProgress,
    Flow,
    DeadLetter,
    LogLine,
    MetricsUpdate,
    MetricsLayout,
    MetricName,
    Failure,
    Raised,
)


def write_report(report: ThreadReport) -> bytes:
    return _CODEC.encode(report)


def read_report(data: bytes) -> ThreadReport:
    """Decode a report. Raises SerializationError for other data."""
    found = _CODEC.decode(data)
    if not isinstance(found, ThreadReport):
        raise SerializationError(f"a stream thread sent {type(found).__name__} instead of a report")
    return found
