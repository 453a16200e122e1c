"""The topologies that both sides run, by group; a group's Java twin has the same name in camel case."""

from tests.conformance.scenarios import (
    aggregations,
    cogroups,
    combinations,
    errors,
    names,
    optimizations,
    processor_api,
    stateless,
    stream_joins,
    suppression,
    table_joins,
    tables,
    versioned,
    windows,
)
from tests.conformance.scenarios.registry import SCENARIOS, Scenario

__all__ = [
    "SCENARIOS",
    "Scenario",
    "aggregations",
    "cogroups",
    "combinations",
    "errors",
    "names",
    "optimizations",
    "processor_api",
    "stateless",
    "stream_joins",
    "suppression",
    "table_joins",
    "tables",
    "versioned",
    "windows",
]
