"""What a sink of files is told: where the files go, which columns they have, when one is complete."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from penstock.errors import TopologyError
from penstock.operators.files.schema import without_unsupported
from penstock.processor import Duration
from penstock.windows import to_ms

FORMATS = ("parquet", "delta")
STAGING = "_penstock"
"""Below the path; Spark, pyarrow and pandas leave out folders that begin with an underscore."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class FilesOptions:
    """The options of one sink, checked."""

    path: Path
    format: str
    schema: pa.Schema
    partition_by: tuple[str, ...]
    roll_bytes: int
    roll_ms: int

    @property
    def data_columns(self) -> pa.Schema:
        """The columns that are in the files themselves; the others are in the names of their folders."""
        return pa.schema([field for field in self.schema if field.name not in self.partition_by])


def checked_options(
    path: str | os.PathLike[str],
    format: str,
    schema: pa.Schema,
    partition_by: str | Sequence[str] | None,
    roll_bytes: int,
    roll_ms: Duration,
) -> FilesOptions:
    """The options of a sink; TopologyError with one sentence if one of them cannot work."""
    if format not in FORMATS:
        raise TopologyError(f'to_files(): the format {format!r} is unknown. Use "parquet" or "delta".')
    schema = without_unsupported(schema, format)
    return FilesOptions(
        local_path(path),
        format,
        schema,
        _partition_columns(partition_by, schema),
        _positive("roll_bytes", roll_bytes),
        _positive("roll_ms", to_ms(roll_ms, "roll_ms")),
    )


def local_path(path: str | os.PathLike[str]) -> Path:
    """An absolute path of this machine or of a shared file system.

    >>> local_path("file:///lake/orders%20paid")
    PosixPath('/lake/orders paid')
    """
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip():
        raise TopologyError(f"to_files(): the path {path!r} is empty. Give the folder that the files go to.")
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    elif _URL.match(text):
        raise TopologyError(
            f"to_files(): {text} is not a local path, and rows are staged by appending to files. "
            "Give a local or mounted folder that all executors share."
        )
    return Path(os.path.abspath(os.path.expanduser(text)))


def _partition_columns(given: str | Sequence[str] | None, schema: pa.Schema) -> tuple[str, ...]:
    columns = (given,) if isinstance(given, str) else tuple(given or ())
    for column in columns:
        if column not in schema.names:
            raise TopologyError(
                f"to_files(): partition_by names the column {column!r}, which the schema does not have. "
                f"Its columns are {', '.join(schema.names)}."
            )
        kind = schema.field(column).type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)):
            raise TopologyError(
                f"to_files(): the column {column!r} is of type {kind}, and partition_by takes columns of text, whole numbers, "
                "booleans and dates. Derive such a column in map_values()."
            )
    if len(set(columns)) < len(columns):
        raise TopologyError(f"to_files(): partition_by names a column twice: {', '.join(columns)}. Name each once.")
    if columns and len(columns) == len(schema.names):
        raise TopologyError("to_files(): partition_by names all columns of the schema. Leave at least one for the files.")
    return columns


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise TopologyError(f"to_files(): {name}={value!r} is not a positive whole number. Give 1 or more.")
    return value


def check_parquet(schema: pa.Schema) -> None:
    """Write nothing as Parquet, which tells whether Parquet has all types."""
    import pyarrow.parquet as pq  # takes a while, which only those who use it pay

    try:
        pq.write_table(schema.empty_table(), pa.BufferOutputStream())
    except (pa.ArrowException, NotImplementedError) as exc:
        raise TopologyError(f"to_files(): the schema has a type that Parquet does not have: {exc}. Use another type.") from exc
