"""Where rolls are published: a folder of Parquet files, or a Delta table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import TopologyError
from penstock.operators.files.options import STAGING, FilesOptions
from penstock.operators.files.staging import StagingFolder


@dataclass(frozen=True)
class Roll:
    """Rows that are published together: `length` bytes of its staging file are committed."""

    id: str
    version: int
    length: int


@dataclass(frozen=True)
class SinkPart:
    """The part of a sink that one task writes."""

    application: str
    sink: str
    partition: int

    @property
    def key(self) -> str:
        """What identifies the writer in a Delta table."""
        return f"{self.application}/{self.sink}/{self.partition}"


class Target(ABC):
    """Publishes the rolls of one task. Publishing a roll twice changes nothing."""

    def __init__(self, options: FilesOptions, part: SinkPart) -> None:
        self.options = options
        self.part = part
        self.staging = StagingFolder(options.path / STAGING / part.application / part.sink / str(part.partition))

    @abstractmethod
    def last_version(self) -> int:
        """The highest version that the target knows of this task."""

    @abstractmethod
    def is_published(self, roll: Roll) -> bool:
        """Whether a roll is there already."""

    @abstractmethod
    def publish(self, roll: Roll, rows: pa.RecordBatchReader) -> None:
        """Make the rows of a roll visible to readers."""


def check_columns(path: object, found: pa.Schema, wanted: pa.Schema) -> None:
    """TopologyError if the columns of what is there are not those of the sink, in name or type."""
    there = {field.name: field.type for field in found}
    asked = {field.name: field.type for field in wanted}
    differences = [
        *_listed("it has", sorted(there.keys() - asked.keys())),
        *_listed("it lacks", sorted(asked.keys() - there.keys())),
        *(
            f"{name} is {there[name]} there and {asked[name]} here"
            for name in asked
            if name in there and there[name] != asked[name]
        ),
    ]
    if differences:
        raise TopologyError(
            f"to_files(): the schema differs from that of the files in {path}: {'; '.join(differences)}. "
            "Write to another path, or change the files first."
        )


def check_partitions(path: object, found: Iterable[str], wanted: Iterable[str]) -> None:
    """TopologyError if what is there is partitioned by other columns."""
    if list(found) != list(wanted):
        raise TopologyError(
            f"to_files(): the files in {path} are partitioned by {', '.join(found) or 'nothing'}, and partition_by is "
            f"{', '.join(wanted) or 'nothing'}. Use the same columns, or another path."
        )


def _listed(what: str, names: list[str]) -> list[str]:
    return [f"{what} {', '.join(names)}"] if names else []
