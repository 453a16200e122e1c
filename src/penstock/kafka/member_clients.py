"""Open clients of kafka-python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def open_member_client(kind: Callable[..., T], **settings: Any) -> T:
    """Open a client. If its constructor fails, as without a broker, close the network thread that it leaves behind."""
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
