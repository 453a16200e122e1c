"""Old values that a user's function cannot change: many aggregators change what they get and give it back.

Kafka Streams hands out the same object as the old value, which is then the new one: whoever takes it back downstream takes back
what was never added. A copy is made where an old value is sent on at once, of types that can change: through the store's serde,
so that it is what the store would give. That takes 10 µs for 200 bytes of JSON; numbers and text cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_UNCHANGING = frozenset({int, float, bool, str, bytes, type(None)})


def keeper(store: Any) -> Callable[[Any], Any]:
    """A function that gives an aggregate as it is now, whatever becomes of the original.

    >>> from penstock.state.capabilities import StoreCapabilities
    >>> keep = keeper(StoreCapabilities())
    >>> original = [1]
    >>> kept = keep(original)
    >>> original.append(2)
    >>> kept
    [1]
    """
    through: Callable[[Any], Any] = store.through_bytes

    def keep(value: Any) -> Any:
        return value if type(value) in _UNCHANGING else through(value)

    return keep


def as_is(value: Any) -> Any:
    """The same object, where nobody is shown the old value."""
    return value


def old_value_keeper(store: Any, forwards_old_values_at_once: bool) -> Callable[[Any], Any]:
    """`keeper` of a store whose old values are sent on before the next record; `as_is` otherwise."""
    return keeper(store) if forwards_old_values_at_once else as_is
