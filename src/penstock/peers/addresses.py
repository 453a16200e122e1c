"""Addresses of instances."""

from __future__ import annotations

import ipaddress
import re

from penstock.query.metadata import HostInfo

MAX_ADDRESS = 300

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# The C library reads names that end in a number as addresses: 0 is 0.0.0.0, 0x7f000001 is 127.0.0.1.
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)


def advertised(text: str, *, any_port: bool = False) -> HostInfo:
    """Parse the host and port of an instance. Raises ValueError with the reason for an invalid address.

    `any_port` allows port 0 while the port is not chosen yet.

    >>> advertised("shop-1.example:8080"), advertised("[::1]:80")
    (HostInfo(host='shop-1.example', port=8080), HostInfo(host='::1', port=80))
    >>> advertised("0.0.0.0:8080")
    Traceback (most recent call last):
        ...
    ValueError: 0.0.0.0 stands for all addresses of a host and is none itself
    """
    if len(text) > MAX_ADDRESS:
        raise ValueError(f"it is longer than {MAX_ADDRESS} characters")
    host, separator, port = text.rpartition(":")
    if not separator or not host or _PORT.fullmatch(port) is None:
        raise ValueError("it is not host:port")
    if not (0 if any_port else 1) <= int(port) <= 65535:
        raise ValueError(f"{int(port)} is not a port")
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        if bracketed or len(name) > 253 or _NAME.fullmatch(name) is None or _ENDS_IN_NUMBER.fullmatch(name) is not None:
            raise ValueError("its host is neither a name nor an address") from None
    else:
        if bracketed != (address.version == 6):
            raise ValueError("an IPv6 address needs brackets, and nothing else has them")
        refuse_unreachable(address)
    return HostInfo(name, int(port))


def refuse_unreachable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Raise ValueError for an address that is not that of one host."""
    mapped = getattr(address, "ipv4_mapped", None)
    plain = address if mapped is None else mapped
    if plain.is_unspecified:
        raise ValueError(f"{address} stands for all addresses of a host and is none itself")
    if plain.is_multicast or plain == ipaddress.IPv4Address("255.255.255.255"):
        raise ValueError(f"{address} is not the address of one host")


def is_loopback(host: str) -> bool:
    """Return True if an address stays on this host.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("10.0.0.1"), is_loopback("example.org")
    (True, True, False, False)
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (address if mapped is None else mapped).is_loopback


def may_be_loopback(host: HostInfo) -> bool:
    """Return False for an address of another host. Names are resolved only for connections."""
    try:
        ipaddress.ip_address(host.host)
    except ValueError:
        return True
    return is_loopback(host.host)
