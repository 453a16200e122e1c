"""The priority queue that decides in which order logical nodes become nodes of the topology."""

from __future__ import annotations

from penstock.graph.node import GraphNode


class BuildQueue:
    """A binary heap by build priority that breaks ties exactly as java.util.PriorityQueue does.

    `heapq` orders equal priorities differently; a merged repartition shares its priority with the node above it, and
    the order in which nodes are written is visible in the numbers of sub-topologies.
    """

    def __init__(self) -> None:
        self._heap: list[GraphNode] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def offer(self, node: GraphNode) -> None:
        """Add a node; it may be in the queue more than once."""
        heap = self._heap
        heap.append(node)
        place = len(heap) - 1
        while place > 0:
            parent = (place - 1) >> 1
            if node.build_priority >= heap[parent].build_priority:
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = node

    def remove(self) -> GraphNode:
        """Take the node of the lowest priority."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        size = len(heap)
        if not size:
            return first
        place, half = 0, size >> 1
        while place < half:
            child = 2 * place + 1
            right = child + 1
            if right < size and heap[child].build_priority > heap[right].build_priority:
                child = right
            if last.build_priority <= heap[child].build_priority:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = last
        return first
