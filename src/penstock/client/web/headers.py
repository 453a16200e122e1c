"""Security headers of all answers: no framing, no content sniffing, no referrer."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

from penstock.client.web.asgi import App, Receive, Scope, Send

CLOSED: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The policy for data: shown as a document it can do nothing. The last three directives have no default."""

_HEADERS: Final = {
    b"content-security-policy": CLOSED.encode(),
    b"x-frame-options": b"DENY",  # for browsers without frame-ancestors
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",  # keys are part of addresses
    b"cross-origin-resource-policy": b"same-origin",
}


class SafeHeaders:
    """Adds these headers to every answer, including errors, unless it sets its own."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                named = {name.lower() for name, _ in given}
                message = {**message, "headers": [*given, *(entry for entry in _HEADERS.items() if entry[0] not in named)]}
            await send(message)

        await self._app(scope, receive, sending)
