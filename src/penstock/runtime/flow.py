"""What goes through a topology: how many records each edge had, and which ended as dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.dead_letters import DeadLetter, tell
from penstock.runtime.collector import RecordCollector
from penstock.runtime.nodes import Node

Edge = tuple[str, str]

MOST_AGES = 256


@dataclass
class Flow:
    """Records by edge (from node, to node), how many dead letters there were, and the last of them.

    `failed` are records that a node could not process, by node; `busy` how long nodes, or the steps of a turn that are none, were
    found at work, in milliseconds; `ages` how old some records were when their results were committed, in milliseconds.
    """

    edges: Counter[Edge] = field(default_factory=Counter)
    dead: int = 0
    dead_letters: list[DeadLetter] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    ages: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.edges = Counter(self.edges)  # from another process it comes as a plain mapping
        self.failed, self.busy = Counter(self.failed), Counter(self.busy)

    def take(self, nodes: Iterable[Node]) -> None:
        """Add what these nodes forwarded, and could not process, since they were last asked."""
        for node in nodes:
            if node.failed:
                self.failed[node.name] += node.failed
                node.failed = 0
            for child in node.children:
                count = node.forwarded + node.forwarded_to.get(child.name, 0)
                if count:
                    self.edges[node.name, child.name] += count
            node.forwarded = 0
            node.forwarded_to.clear()

    def take_dead_letters(self, collector: RecordCollector) -> None:
        """Add what this collector took since it was last asked, and log it."""
        dead, letters = collector.take_dead_letters()
        tell(dead, letters)
        self.dead += dead
        self.dead_letters += letters

    def add(self, other: Flow) -> None:
        """Add what another one has."""
        self.edges.update(other.edges)
        self.dead += other.dead
        self.dead_letters += other.dead_letters
        self.failed.update(other.failed)
        self.busy.update(other.busy)
        self.ages = spread_over([*self.ages, *other.ages], MOST_AGES)

    def __bool__(self) -> bool:
        return bool(self.edges or self.dead or self.failed or self.busy or self.ages)


def spread_over(numbers: list[int], most: int) -> list[int]:
    """So many of them at most, evenly spread.

    >>> spread_over(list(range(10)), 4)
    [0, 3, 6, 9]
    """
    return numbers if len(numbers) <= most else numbers[:: -(-len(numbers) // most)]
