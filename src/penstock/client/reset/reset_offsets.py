"""The offsets to which an application can be reset: the scenarios of Kafka's application reset tool."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from penstock.client.reset.application_reset import ChooseOffsets
from penstock.clock import Clock, SystemClock
from penstock.errors import ConfigError
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin

_DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)

Before = Mapping[TopicPartition, "int | None"]


def to_earliest(admin: Admin, before: Before) -> Mapping[TopicPartition, int]:
    """Choose the first record."""
    return admin.log_starts(before)


def to_latest(admin: Admin, before: Before) -> Mapping[TopicPartition, int]:
    """Choose the log end."""
    return admin.log_ends(before, False)


def to_offset(offset: int) -> ChooseOffsets:
    """Choose the same offset in every partition."""
    return lambda admin, before: dict.fromkeys(before, offset)


def shift_by(number: int) -> ChooseOffsets:
    """Move committed offsets by a number of records. Partitions without a committed offset are unchanged."""
    return lambda admin, before: {p: offset + number for p, offset in before.items() if offset is not None}


def to_datetime(text: str) -> ChooseOffsets:
    """Choose the first record at or after a time. A time without a zone is UTC, as in Kafka's tool."""
    try:
        # Python 3.10 accepts neither a Z nor a fraction of one digit.
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError as exc:
        raise ConfigError(f"--to-datetime {text!r} is not a time: expected YYYY-MM-DDTHH:mm:ss.sss") from exc
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    timestamp = int(moment.timestamp() * 1000)
    return lambda admin, before: admin.offsets_at(before, timestamp)


def by_duration(text: str, clock: Clock | None = None) -> ChooseOffsets:
    """Choose the first record within the last duration."""
    back = parse_duration(text) // timedelta(milliseconds=1)
    now = (clock or SystemClock()).now_ms()
    return lambda admin, before: admin.offsets_at(before, now - back)


def from_file(path: Path) -> ChooseOffsets:
    """Choose offsets from a file with lines `topic,partition,offset`."""
    wanted: dict[TopicPartition, int] = {}
    try:
        with path.open(newline="") as file:
            for row in csv.reader(file):
                if row:
                    topic, partition, offset = (cell.strip() for cell in row)
                    wanted[TopicPartition(topic, int(partition))] = int(offset)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"--from-file {path} cannot be read: {exc}; expected lines of topic,partition,offset") from exc
    return lambda admin, before: {p: offset for p, offset in wanted.items() if p in before}


def parse_duration(text: str) -> timedelta:
    """Parse an ISO 8601 duration of days or smaller units.

    >>> parse_duration("P1DT2H30M")
    datetime.timedelta(days=1, seconds=9000)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(f"--by-duration {text!r} is not a duration: expected PnDTnHnMnS, for example PT2H30M")
    return timedelta(**{unit: float(number) for unit, number in match.groupdict().items() if number is not None})
