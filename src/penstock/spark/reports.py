"""The reports of stream threads as bytes: written in the worker, read in the driver without unpickling anything."""

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
    """A report as it is sent."""
    return _CODEC.encode(report)


def read_report(data: bytes) -> ThreadReport:
    """What a thread reported; SerializationError for anything else."""
    found = _CODEC.decode(data)
    if not isinstance(found, ThreadReport):
        raise SerializationError(f"a stream thread sent something that is no report: {type(found).__name__}")
    return found
