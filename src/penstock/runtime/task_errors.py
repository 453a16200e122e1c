"""Errors of a task say which task it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.errors import StreamsError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Any)


def names_task(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """A method of something with a `task_id`, whose errors carry that id from there on."""

    @wraps(method)
    def call(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except StreamsError as exc:
            if exc.task_id is None:
                exc.task_id = self.task_id
            raise

    return call
