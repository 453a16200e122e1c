"""How clients of kafka-python are opened: the member of a group, and who asks about groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def open_member_client(kind: Callable[..., T], **settings: Any) -> T:
    """A client of this kind; where it cannot be made, as without a broker, no thread is left behind, as its constructor does."""
    opened: list[Any] = []
    network: Callable[..., Any] = kind.DEFAULT_CONFIG["kafka_client"]  # type: ignore[attr-defined]

    def open_network(**known: Any) -> Any:
        opened.append(network(**known))
        return opened[-1]

    try:
        return kind(**settings, kafka_client=open_network)
    except BaseException:
        for client in opened:
            client.close()
        raise
