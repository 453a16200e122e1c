"""A host of its own, as far as the network goes: a network namespace with one line to this one, which can be cut."""

from __future__ import annotations

import subprocess
import uuid

# The brokers' address, reached over the line from there and directly from here.
BROKER = "10.199.77.1"
_HERE, _THERE = "10.199.78.1", "10.199.78.2"


class NoNetworkError(Exception):
    """Namespaces cannot be made here: that needs root and the `ip` command."""


class Apart:
    """A network namespace; a context manager. `command` runs a program in it; `cut` takes the line away, `mend` gives it back."""

    def __init__(self) -> None:
        name = uuid.uuid4().hex[:8]
        self._namespace, self._line = f"penstock-{name}", f"pen{name}"

    def __enter__(self) -> Apart:
        try:
            self._ip("addr", "replace", f"{BROKER}/32", "dev", "lo")
            self._ip("netns", "add", self._namespace)
        except (OSError, subprocess.CalledProcessError) as exc:
            raise NoNetworkError(str(exc)) from exc
        try:
            self._ip("link", "add", self._line, "type", "veth", "peer", "name", "eth0", "netns", self._namespace)
            self._ip("addr", "add", f"{_HERE}/24", "dev", self._line)
            self._ip("link", "set", self._line, "up")
            for there in (
                ("addr", "add", f"{_THERE}/24", "dev", "eth0"),
                ("link", "set", "lo", "up"),
                ("link", "set", "eth0", "up"),
                ("route", "add", BROKER, "via", _HERE),
            ):
                self._ip("-n", self._namespace, *there)
        except BaseException as exc:
            self.__exit__()
            raise NoNetworkError(str(exc)) from exc
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "netns", "delete", self._namespace], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self._line], check=False, capture_output=True)
        subprocess.run(["ip", "addr", "delete", f"{BROKER}/32", "dev", "lo"], check=False, capture_output=True)

    @property
    def command(self) -> list[str]:
        """What a command starts with to run there."""
        return ["ip", "netns", "exec", self._namespace]

    @property
    def environment(self) -> dict[str, str]:
        """What a program there finds in its environment: Spark has nobody to talk to but itself."""
        return {"SPARK_LOCAL_IP": "127.0.0.1"}

    def cut(self) -> None:
        """Nothing passes from now on; nobody is told."""
        self._ip("link", "set", self._line, "down")

    def mend(self) -> None:
        """As if nothing had been."""
        self._ip("link", "set", self._line, "up")

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)


def reachable_listeners() -> dict[str, str]:
    """Settings of a broker that is reached from here and from hosts apart."""
    return {
        "listeners": "PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://{BROKER}:{{port}}",
    }
