"""What a lane answers, as bytes: written in its worker, read in the driver. Neither side unpickles what the other says."""

from __future__ import annotations

from penstock.dead_letters import DeadLetter
from penstock.errors import SerializationError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import Short
from penstock.log_lines import LogLine
from penstock.metrics import MetricName
from penstock.metrics_transfer import MetricsLayout, MetricsUpdate
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.runtime.flow import Flow
from penstock.spark.messages import Failure, LaneAnswer, RestoreProgress
from penstock.spark.raised import Raised
from penstock.wire import Codec

_CODEC = Codec(
    LaneAnswer,
    TaskId,
    TopicPartition,
    OffsetAndMetadata,
    RestoreProgress,
    Short,
    Flow,
    DeadLetter,
    LogLine,
    MetricsUpdate,
    MetricsLayout,
    MetricName,
    Failure,
    Raised,
)


def write_answer(answer: LaneAnswer) -> bytes:
    """The answer as it travels."""
    return _CODEC.encode(answer)


def read_answer(data: bytes) -> LaneAnswer:
    """What a lane said; raises `SerializationError` where it is no answer."""
    found = _CODEC.decode(data)
    if not isinstance(found, LaneAnswer):
        raise SerializationError(f"a lane said something that is no answer: {type(found).__name__}")
    return found
