"""Test a topology without a broker, a processor without a topology, or an application with its own broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.testing.input_topic import TestInputTopic
from penstock.testing.mock_processor_context import CapturedForward, CapturedPunctuator, MockProcessorContext
from penstock.testing.output_topic import TestOutputTopic
from penstock.testing.records import TestRecord
from penstock.testing.shared_variables import SharedVariableWarning
from penstock.testing.topology_test_driver import TopologyTestDriver

if TYPE_CHECKING:
    from penstock.kafka.dev_broker import DevBroker

__all__ = [
    "CapturedForward",
    "CapturedPunctuator",
    "DevBroker",
    "MockProcessorContext",
    "SharedVariableWarning",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "TopologyTestDriver",
]


def __getattr__(name: str) -> Any:
    # Only the broker needs a Kafka client. The test driver does not.
    if name == "DevBroker":
        from penstock.kafka.dev_broker import DevBroker

        return DevBroker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
