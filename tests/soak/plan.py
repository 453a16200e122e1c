"""What is done to whom and when: drawn from a seed, printed as lines of JSON, and read back from them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from tests.faults.dying import HAND_OVER, STEPS
from tests.soak.applications import APPLICATIONS
from tests.soak.disturbance import ACTIONS

LOCAL, CLUSTER = "local", "cluster"
FORMATS, GUARANTEES = ("blocks", "records"), ("exactly_once_v2", "at_least_once")


@dataclass(frozen=True)
class Setup:
    """What a run is made of."""

    brokers: int = 1
    spark: str = LOCAL
    guarantee: str = "exactly_once_v2"
    format: str = "blocks"
    """The setting `repartition.format`."""
    instances: int = 1
    standbys: int = 0
    applications: tuple[str, ...] = tuple(APPLICATIONS)
    rate: int = 40
    batch: int = 120
    """How many records of each application are written at once: 1.2 seconds of their own time, and never more."""
    spread: bool = True
    """Whether the tasks of an application are spread over two threads, instead of one while it has time to spare."""

    @property
    def exactly_once(self) -> bool:
        """Whether results must be there once."""
        return self.guarantee == "exactly_once_v2"

    def __str__(self) -> str:
        brokers = "1 broker" if self.brokers == 1 else f"{self.brokers} brokers"
        instances = "1 instance" if self.instances == 1 else f"{self.instances} instances"
        threads = "two threads" if self.spread else "one thread at first"
        settings = f"{self.guarantee}, {self.format}, {threads}, {self.standbys} standbys"
        return f"{brokers}, {instances} on {self.spark} Spark, {settings}"


@dataclass(frozen=True)
class Fault:
    """Something that is done `after` so many seconds; `choose` decides to whom of those there are, `seconds` how long."""

    after: float
    kind: str
    choose: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} ({self.seconds:.1f} s)" if self.seconds else self.kind


@dataclass(frozen=True)
class Plan:
    """A set-up and the faults that happen to it, in their order."""

    setup: Setup
    faults: Sequence[Fault] = field(default=())
    seed: int = 0

    def lines(self) -> list[str]:
        """What can be given back to `read`."""
        return [json.dumps({"seed": self.seed, **asdict(self.setup)}), *(json.dumps(asdict(fault)) for fault in self.faults)]

    @staticmethod
    def read(lines: Iterable[str]) -> Plan:
        """The plan that was printed."""
        first, *others = [json.loads(line) for line in lines if line.startswith("{")]
        seed = first.pop("seed", 0)
        setup = Setup(**{**first, "applications": tuple(first["applications"])})
        return Plan(setup, [Fault(**fault) for fault in others], seed)


_EVERYWHERE: Mapping[str, int] = {
    "kill worker": 14,
    "stop worker": 5,
    "kill driver": 2,
    "stop driver": 3,
    "kill jvm": 2,
    "stop jvm": 2,
    "kill broker": 3,
    "stop broker": 3,
    "cut line": 4,
    "slow line": 3,
    "full disk": 1,
    "busy disk": 2,
    "step clock": 2,
    "grow topic": 1,
    "delete topic": 1,
    "add thread": 4,
    "remove thread": 4,
    **{f"user {action}": 2 for action in ACTIONS},
    **{f"die at {step}": 2 for step in (*STEPS, *HAND_OVER)},
    **{f"change threads at {step}": 1 for step in (*STEPS, *HAND_OVER)},
}
_ON_A_CLUSTER: Mapping[str, int] = {
    "kill executor": 8,
    "stop executor": 4,
    "kill daemon": 2,
    "stop daemon": 2,
    "kill master": 2,
    "stop master": 2,
}
_WITH_TWO_INSTANCES: Mapping[str, int] = {"leave": 3}
_WITH_THREE_BROKERS: Mapping[str, int] = {"cut brokers": 3}
_OF_TRANSACTIONS = ("produced", "offsets sent", "committed")
KINDS = (*_EVERYWHERE, *_ON_A_CLUSTER, *_WITH_TWO_INSTANCES, *_WITH_THREE_BROKERS)

# How long what is stopped, cut or slow stays so: sometimes longer than a session (6 s), sometimes not.
_LENGTHS = {
    "stop": (0.5, 12.0),
    "cut": (0.5, 14.0),
    "slow": (3.0, 10.0),
    "full": (2.0, 8.0),
    "busy": (3.0, 8.0),
    "step": (5.0, 15.0),
}


def possible(setup: Setup) -> dict[str, int]:
    """The kinds of faults that can happen to a set-up, with how often they should."""
    kinds = dict(_EVERYWHERE)
    if setup.spark == CLUSTER:
        kinds |= _ON_A_CLUSTER
    if setup.instances > 1:
        kinds |= _WITH_TWO_INSTANCES
    if setup.brokers > 1:
        kinds |= _WITH_THREE_BROKERS
    if "growing" not in setup.applications:
        kinds.pop("grow topic")
    if not setup.exactly_once:  # there is no transaction whose steps somebody could come to
        kinds = {kind: weight for kind, weight in kinds.items() if kind.partition(" at ")[2] not in _OF_TRANSACTIONS}
    return kinds


class Kinds(NamedTuple):
    """Which kinds of faults are drawn: only some, or all without some."""

    only: Sequence[str] = ()
    without: Sequence[str] = ()

    def of(self, setup: Setup) -> dict[str, int]:
        """Those that can happen to a set-up, with how often they should."""
        all_kinds = possible(setup)
        found = {k: weight for k, weight in all_kinds.items() if k not in self.without and (not self.only or k in self.only)}
        if not found:
            raise ValueError(f"none of {', '.join(self.only)} can happen to {setup}; there are: {', '.join(all_kinds)}")
        return found


ALL = Kinds()


def draw(seed: int, minutes: float, setup: Setup | None = None, pause: float = 8.0, drawn: Kinds = ALL) -> Plan:
    """A plan for so many minutes, with a fault every `pause` seconds on average; the same for the same seed."""
    chance = random.Random(seed)
    setup = setup or draw_setup(chance)
    kinds = drawn.of(setup)
    faults, at = [], 0.0
    while True:
        fault = _fault(chance, chance.choices(list(kinds), list(kinds.values()))[0], pause)
        at += fault.after + fault.seconds
        if at > minutes * 60:
            return Plan(setup, faults, seed)
        faults.append(fault)


def draw_each(seed: int, setup: Setup | None = None, pause: float = 8.0, drawn: Kinds = ALL) -> Plan:
    """A plan with every kind of fault once, in any order."""
    chance = random.Random(seed)
    setup = setup or draw_setup(chance)
    kinds = list(drawn.of(setup))
    chance.shuffle(kinds)
    return Plan(setup, [_fault(chance, kind, pause) for kind in kinds], seed)


def _fault(chance: random.Random, kind: str, pause: float) -> Fault:
    low, high = _LENGTHS.get(kind.split()[0], (0.0, 0.0))
    after, seconds = chance.uniform(0.2, 2 * pause - 0.2), chance.uniform(low, high)
    return Fault(round(after, 1), kind, chance.randrange(1_000), round(seconds, 1))


def draw_setup(chance: random.Random, applications: int = 6) -> Setup:
    """One of all set-ups, with some of the applications."""
    instances = chance.choice((1, 1, 2))
    return Setup(
        brokers=chance.choice((1, 3)),
        spark=chance.choice((LOCAL, LOCAL, CLUSTER)),
        guarantee=chance.choices(GUARANTEES, (3, 1))[0],
        format=chance.choice(FORMATS),
        instances=instances,
        standbys=chance.choice((0, 1)) if instances > 1 else 0,
        applications=tuple(sorted(chance.sample(list(APPLICATIONS), applications))),
        spread=chance.random() < 0.5,
    )


def group(kind: str) -> str:
    """What a kind is counted under in a report: steps are counted one by one, and added up.

    >>> group("die at committed"), group("kill worker")
    ('die at a step', 'kill worker')
    """
    what, at, _ = kind.partition(" at ")
    return f"{what} at a step" if at else kind


def counted(kinds: Iterable[str]) -> dict[str, int]:
    """How many of each kind there were."""
    found: dict[str, int] = {}
    for kind in kinds:
        found[group(kind)] = found.get(group(kind), 0) + 1
    return dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0])))


def settings(setup: Setup) -> dict[str, Any]:
    """The settings that applications of a set-up run with, without where."""
    return {
        "processing.guarantee": setup.guarantee,
        "repartition.format": setup.format,
        "num.standby.replicas": setup.standbys,
        "commit.interval.ms": 100,
        "task.spread": "always" if setup.spread else "auto",
        "statestore.cache.max.bytes": 0,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 500,
        "metadata.max.age.ms": 5_000,
        "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    }
