"""What a lane answers, as bytes: written in its worker, read in the driver. Neither side unpickles what the other says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.dead_letters import DeadLetter
from penstock.errors import SerializationError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import Short
from penstock.log_lines import LogLine
from penstock.metrics.registry import MetricName
from penstock.metrics.transfer import MetricsLayout, MetricsUpdate
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.runtime.flow import Flow
from penstock.spark.messages import Failure, LaneAnswer, RestoreProgress, TurnOfStay
from penstock.spark.raised import Raised
from penstock.wire import Codec

_CODEC = Codec(
    LaneAnswer,
    TaskId,
    TopicPartition,
    OffsetAndMetadata,
    RestoreProgress,
    Short,
    TurnOfStay,
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
    """The answer as it travels.

    Behind a shuffle every task commits a position in every source, and tasks of one lane nearly always the same ones: what
    follows the last bar of their metadata is sent once. An answer would grow with partitions squared (350 KiB with 200).
    """
    texts: dict[str, int] = {}
    offsets = {}
    for partition, committed in answer.offsets.items():
        head, bar, text = committed.metadata.rpartition("|")
        offsets[partition] = committed.offset, head + bar, texts.setdefault(text, len(texts))
    return _CODEC.encode((replace(answer, offsets={}), offsets, tuple(texts)))


def read_answer(data: bytes) -> LaneAnswer:
    """What a lane said; raises `SerializationError` where it is no answer."""
    match _CODEC.decode(data):
        case (LaneAnswer() as answer, dict() as offsets, tuple() as texts):
            answer.offsets = {partition: _committed(found, texts) for partition, found in offsets.items()}
            return answer
        case found:
            raise SerializationError(f"a lane said something that is no answer: {type(found).__name__}")


def _committed(found: Any, texts: tuple[Any, ...]) -> OffsetAndMetadata:
    match found:
        case (int() as offset, str() as head, int() as index) if 0 <= index < len(texts) and isinstance(texts[index], str):
            return OffsetAndMetadata(offset, head + texts[index])
        case _:
            raise SerializationError("a lane's answer has an offset that is none")
