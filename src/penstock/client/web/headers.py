"""What every answer tells a browser: nothing here is to be framed, guessed at, or told to others."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

from penstock.client.web.asgi import App, Receive, Scope, Send

CLOSED: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The policy of an answer that is data: shown as a document, it could do nothing. The last three have no default in the first."""

_HEADERS: Final = {
    b"content-security-policy": CLOSED.encode(),
    b"x-frame-options": b"DENY",  # for browsers that do not know frame-ancestors
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",  # keys stand in addresses
    b"cross-origin-resource-policy": b"same-origin",
}


class SafeHeaders:
    """Adds these headers to every answer, refusals and errors included, where it does not have its own."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                named = {name.lower() for name, _ in given}
                message = {**message, "headers": [*given, *(entry for entry in _HEADERS.items() if entry[0] not in named)]}
            await send(message)

        await self._app(scope, receive, sending)
