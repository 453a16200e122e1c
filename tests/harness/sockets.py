"""Which ports a process listens on, as Linux tells it."""

from __future__ import annotations

import ipaddress
from pathlib import Path

_LISTENS = "0A"


def listening(process: int) -> list[str]:
    """`address:port` of each port that a process listens on."""
    mine = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            mine.add(str(descriptor.readlink()))
        except OSError:
            continue  # closed meanwhile
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENS and f"socket:[{inode}]" in mine:
                found.append(_readable(local))
    return found


def _readable(local: str) -> str:
    """The kernel writes words of four bytes, each with its last byte first.

    >>> _readable("0100007F:1F90"), _readable("0000000000000000FFFF00000100007F:1F90")
    ('127.0.0.1:8080', '127.0.0.1:8080')
    """
    digits, _, port = local.partition(":")
    raw = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return f"{mapped or address}:{int(port, 16)}"
