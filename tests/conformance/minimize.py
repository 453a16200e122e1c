"""Make a failing list of inputs short: leave out what does not matter for the failure."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.inputs import Input

_MAX_TRIES = 150


def minimized(inputs: list[Input], fails: Callable[[list[Input]], bool]) -> list[Input]:
    """A part of `inputs` that still fails, from which hardly anything can be left out."""
    tries = 0
    size = max(1, len(inputs) // 2)
    while True:
        start = 0
        shrunk = False
        while start < len(inputs) and tries < _MAX_TRIES:
            shorter = inputs[:start] + inputs[start + size :]
            tries += 1
            if shorter and fails(shorter):
                inputs, shrunk = shorter, True
            else:
                start += size
        if tries >= _MAX_TRIES or (size == 1 and not shrunk):
            return inputs
        size = max(1, size // 2)
