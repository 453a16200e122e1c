"""The form of answers: JSON that is not cached, errors with a reason, metrics as text."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.client.metrics.prometheus import CONTENT_TYPE
from penstock.client.web.errors import HttpError, http_error
from penstock.client.web.guard import DEADLINE, REQUEST_SECONDS
from penstock.client.web.read_pools import ReadPool
from penstock.client.web.time_limit import TimeLimit
from penstock.errors import PenstockError
from penstock.runtime.queries.deadline import Deadline

_log = logging.getLogger(__name__)

NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def dump(found: Any) -> bytes:
    """Encode an answer as JSON."""
    return json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def error_response(error: HttpError) -> Response:
    """Return an error answer with status and reason."""
    if error.status >= 500:
        _log.info("A query failed: %s", error.reason)
    found = {"error": error.reason, **({} if error.partitions is None else {"partitions": sorted(error.partitions)})}
    return Response(dump(found), error.status, headers=NO_STORE, media_type="application/json")


async def refused(request: Request, exc: Exception) -> Response:
    """Handle an unknown path or a wrong method."""
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    reasons = {404: f"there is nothing at {request.url.path}; see /openapi.json", 405: "queries only read: use GET"}
    return error_response(HttpError(status, reasons.get(status, str(exc))))


async def failed(request: Request, exc: Exception) -> Response:
    """Handle an unexpected exception."""
    _log.warning("A query failed unexpectedly", exc_info=exc)
    return error_response(HttpError(500, "the query failed; see the application's log"))


async def read_in(room: ReadPool, request: Request, deadline: Deadline, call: Callable[[], Any]) -> Any:
    """Read on a thread of a pool. At the deadline, or when the client disconnects, both client and thread are released."""
    request.scope[DEADLINE] = deadline
    deadline.renew()
    try:
        async with TimeLimit(deadline.seconds):
            return await room.run(request.path_params.get("store", ""), deadline, call)
    except TimeoutError as exc:
        deadline.give_up()
        raise HttpError(503, f"the answer took longer than {deadline.seconds:.0f} s; ask for less, or later") from exc


def metrics_route(room: ReadPool, text: Callable[[], str]) -> Route:
    """Return the route `/metrics` for Prometheus."""

    async def prometheus(request: Request) -> Response:
        deadline = Deadline(REQUEST_SECONDS)
        try:
            found = await read_in(room, request, deadline, text)
        except (HttpError, PenstockError) as exc:
            return error_response(http_error(exc))
        except Exception as exc:  # noqa: BLE001 - sent to the client, and logged
            return await failed(request, exc)
        finally:
            deadline.give_up()
        return Response(found, media_type=CONTENT_TYPE, headers=NO_STORE)

    return Route("/metrics", prometheus)
