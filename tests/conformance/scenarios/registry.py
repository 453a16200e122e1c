"""The scenarios by name; the Java twin of each has the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.inputs import TEXTS, Feed


@dataclass(frozen=True)
class Scenario:
    """A topology, what to feed it, and the settings it runs with.

    `config` is sent to both sides; `java` and `python` hold the settings whose values are spelled differently (class names).
    """

    name: str
    define: Callable[[Any], Any]
    uses_dsl: bool
    feeds: Mapping[str, Feed]
    config: Mapping[str, Any] = field(default_factory=dict)
    java: Mapping[str, Any] = field(default_factory=dict)
    python: Mapping[str, Any] = field(default_factory=dict)
    negative_times: bool = False
    label: str = ""

    @property
    def id(self) -> str:
        """The scenario's name, with that of its variant."""
        return f"{self.name}[{self.label}]" if self.label else self.name


SCENARIOS: dict[str, Scenario] = {}


def _register(name: str, uses_dsl: bool, topics: tuple[str, ...], options: dict[str, Any]) -> Callable[[Any], Any]:
    variants = options.pop("variants", {"": {}})
    feeds = options.pop("feeds", None) or dict.fromkeys(topics or ("in",), TEXTS)

    def register(define: Any) -> Any:
        for label, variant in variants.items():
            scenario = Scenario(name, define, uses_dsl, label=label, **{"feeds": feeds, **options, **variant})
            if scenario.id in SCENARIOS:
                raise ValueError(f"two scenarios are called {scenario.id}")
            SCENARIOS[scenario.id] = scenario
        return define

    return register


def dsl(name: str, *topics: str, **options: Any) -> Callable[[Any], Any]:
    """Decorate a function that defines a topology on a StreamsBuilder; topics (default: in) are fed with texts.

    Options: the fields of Scenario, and `variants`, which maps labels to such options to run one topology several times.
    """
    return _register(name, True, topics, options)


def papi(name: str, *topics: str, **options: Any) -> Callable[[Any], Any]:
    """The same for a function that defines a Topology."""
    return _register(name, False, topics, options)
