"""How answers look: JSON that nobody keeps, errors with a reason, metrics as text."""

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
from penstock.client.web.rooms import Room
from penstock.client.web.time_limit import TimeLimit
from penstock.errors import PenstockError
from penstock.runtime.queries.deadline import Deadline

_log = logging.getLogger(__name__)

NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def dump(found: Any) -> bytes:
    """What was found, as JSON."""
    return json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def error_response(error: HttpError) -> Response:
    """A status and a reason."""
    if error.status >= 500:
        _log.info("a query could not be answered: %s", error.reason)
    found = {"error": error.reason, **({} if error.partitions is None else {"partitions": sorted(error.partitions)})}
    return Response(dump(found), error.status, headers=NO_STORE, media_type="application/json")


async def refused(request: Request, exc: Exception) -> Response:
    """There is no such path, or it is not read."""
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    reasons = {404: f"there is nothing at {request.url.path}; see /openapi.json", 405: "queries only read: use GET"}
    return error_response(HttpError(status, reasons.get(status, str(exc))))


async def failed(request: Request, exc: Exception) -> Response:
    """Something that nobody has thought of."""
    _log.warning("a query failed", exc_info=exc)
    return error_response(HttpError(500, "the query failed; the application's log says why"))


async def read_in(room: Room, request: Request, deadline: Deadline, call: Callable[[], Any]) -> Any:
    """Read on a thread of a room. Both the client and the thread are free when the time is over, or the client gone."""
    request.scope[DEADLINE] = deadline
    deadline.renew()
    try:
        async with TimeLimit(deadline.seconds):
            return await room.run(request.path_params.get("store", ""), deadline, call)
    except TimeoutError as exc:
        deadline.give_up()
        raise HttpError(503, f"the answer took longer than {deadline.seconds:.0f} s; ask for less, or later") from exc


def metrics_route(room: Room, text: Callable[[], str]) -> Route:
    """`/metrics`, as Prometheus reads it."""

    async def prometheus(request: Request) -> Response:
        deadline = Deadline(REQUEST_SECONDS)
        try:
            found = await read_in(room, request, deadline, text)
        except (HttpError, PenstockError) as exc:
            return error_response(http_error(exc))
        except Exception as exc:  # noqa: BLE001 - told to the client, and why in the log
            return await failed(request, exc)
        finally:
            deadline.give_up()
        return Response(found, media_type=CONTENT_TYPE, headers=NO_STORE)

    return Route("/metrics", prometheus)
