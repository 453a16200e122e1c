"""Where state is: hosts, and what each of them holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.errors import ConfigError
from penstock.ids import TopicPartition


@dataclass(frozen=True, order=True)
class HostInfo:
    """A host and the port its instance answers on.

    >>> HostInfo.build_from_endpoint("localhost:8080")
    HostInfo(host='localhost', port=8080)
    """

    host: str
    port: int

    @classmethod
    def build_from_endpoint(cls, endpoint: str | None) -> HostInfo | None:
        """From `host:port`; None for nothing."""
        if not endpoint or not endpoint.strip():
            return None
        host, separator, port = endpoint.strip().rpartition(":")
        if not separator or not host or not port.isdigit() or int(port) > 65535:
            raise ConfigError(
                f"application.server = {endpoint!r} is not an address: expected host:port, for example localhost:8080"
            )
        return cls(host.strip("[]"), int(port))

    @classmethod
    def unavailable(cls) -> HostInfo:
        """Stands for a host that is not known."""
        return cls("unavailable", -1)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class KeyQueryMetadata:
    """Where a key of a store is."""

    active_host: HostInfo
    standby_hosts: frozenset[HostInfo] = frozenset()
    partition: int = -1

    NOT_AVAILABLE: ClassVar[KeyQueryMetadata]


KeyQueryMetadata.NOT_AVAILABLE = KeyQueryMetadata(HostInfo.unavailable())


@dataclass(frozen=True)
class StreamsMetadata:
    """What one instance of the application holds."""

    host_info: HostInfo
    state_store_names: frozenset[str] = frozenset()
    topic_partitions: frozenset[TopicPartition] = frozenset()
    standby_state_store_names: frozenset[str] = frozenset()
    standby_topic_partitions: frozenset[TopicPartition] = field(default=frozenset())

    @property
    def host(self) -> str:
        """The instance's host."""
        return self.host_info.host

    @property
    def port(self) -> int:
        """The port it answers on."""
        return self.host_info.port
