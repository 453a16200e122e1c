"""All scenarios: importing the groups fills the registry. A group's Java twin has the same name in camel case."""

from tests.conformance.scenarios import (
    aggregations,
    cogroups,
    combinations,
    errors,
    names,
    optimizations,
    processor_api,
    serialization,
    stateless,
    stream_joins,
    suppression,
    table_joins,
    tables,
    versioned,
    windows,
)
from tests.conformance.scenarios.registry import SCENARIOS

__all__ = ["GROUPS", "SCENARIOS"]

GROUPS = (
    stateless,
    aggregations,
    tables,
    windows,
    suppression,
    stream_joins,
    table_joins,
    cogroups,
    versioned,
    processor_api,
    names,
    optimizations,
    combinations,
    errors,
    serialization,
)
