"""Turns exceptions into answers to clients: always `{"detail": …}`, never a stack trace."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Scope

from store.errors import (
    BackendFailed,
    CommitUnknown,
    Conflict,
    DatabaseUnavailable,
    DatabaseUnusable,
    InvalidCursor,
    InvalidValue,
    LeaseHeld,
    NotFound,
    StoreError,
    TryFenced,
)
from store.runs.tries.answers import ReplayedResponse
from triggers.errors import ConfigurationError, SourceChanged, SourceUnavailable
from watcher.host.logs.paths import InvalidLogName

_KINDS: Final[Mapping[type[Exception], tuple[int, str]]] = {
    InvalidValue: (422, "invalid"),
    InvalidCursor: (400, "invalid"),
    NotFound: (404, "not_found"),
    InvalidLogName: (404, "not_found"),
    TryFenced: (409, "fenced"),
    LeaseHeld: (409, "held"),
    Conflict: (409, "conflict"),
    ConfigurationError: (422, "invalid"),
    SourceChanged: (409, "conflict"),
    SourceUnavailable: (502, "unavailable"),
}
"""The status of each refusal by the store or a source, and its word in the Execution API."""
UNAVAILABLE: Final = (
    BackendFailed,
    DatabaseUnavailable,
    DatabaseUnusable,
    CommitUnknown,
    DBAPIError,
    PoolTimeout,
    TimeoutError,
    ConnectionError,
)
"""Exceptions which mean that the database does not answer, or not in time."""
_LONGEST_INPUT: Final = 200

log = structlog.get_logger()


class ErrorResponse(JSONResponse):
    """JSON in ASCII only, because a client's text that is quoted in it may have no valid encoding."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


def add_handlers(app: FastAPI) -> None:
    """Give the application a handler for every kind of failure."""
    for kind in _KINDS:
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(ReplayedResponse, _replayed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    for kind in UNAVAILABLE:
        app.add_exception_handler(kind, _unavailable)
    app.add_exception_handler(Exception, _failed)


def status_of(error: Exception) -> int:
    """Return the status of a refusal. Raise the error itself if it is not a refusal, as when the database does not answer."""
    if isinstance(error, HTTPException):
        return error.status_code
    for kind in type(error).__mro__:
        if kind in _KINDS:
            return _KINDS[kind][0]
    raise error


async def _refused(request: Request, error: Exception) -> ErrorResponse:
    """Answer with the error's sentence. Jobs also get a word for the kind of refusal, as Airflow's task SDK expects."""
    status, reason = next(_KINDS[kind] for kind in type(error).__mro__ if kind in _KINDS)
    to_a_job = request.url.path.startswith("/execution/")
    detail = {"reason": reason, "message": str(error)} if to_a_job else str(error)
    return ErrorResponse({"detail": detail}, status)


async def _replayed(_request: Request, answer: Any) -> Response:
    return Response(answer.body, answer.status, media_type=None if answer.body is None else "application/json")


async def _http_error(request: Request, error: Any) -> ErrorResponse:
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = _allowed(request)
    return ErrorResponse({"detail": error.detail}, error.status_code, headers=headers)


def _allowed(request: Request) -> str:
    """Return the methods of all routes with the request's path: each has one, and Starlette names those of the first only."""
    path = request.scope["route"].path_format
    routes = (route for route in request.app.routes if isinstance(route, Route) and route.path_format == path)
    return ", ".join(sorted({method for route in routes for method in route.methods or ()}))


async def _invalid(_request: Request, error: Any) -> ErrorResponse:
    return ErrorResponse({"detail": [_fault_json(fault) for fault in error.errors()]}, 422)


def _fault_json(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an error that Airflow shows. `input` is included only if it is short and valid JSON."""
    shown = {"type": error["type"], "loc": list(error["loc"]), "msg": error["msg"]}
    if _is_plain(sent := error.get("input")):
        shown["input"] = sent
    return shown


def _is_plain(value: Any) -> bool:
    match value:
        case str():
            return len(value) <= _LONGEST_INPUT
        case None | bool():
            return True
        case int():
            return value.bit_length() < 64  # noqa: PLR2004  Python does not write numbers with very many digits
        case float():
            return math.isfinite(value)
    return False


async def _unavailable(request: Request, error: Exception) -> ErrorResponse:
    refusal = unavailable(request.scope, error)
    return ErrorResponse({"detail": refusal.detail}, refusal.status_code)


def unavailable(scope: Scope, error: Exception) -> HTTPException:
    """Log that the database does not answer, and return the answer to the client: 503."""
    log.error(
        "api.unavailable", path=scope["path"], method=scope["method"], error=str(error), kind=type(error).__name__
    )
    unknown = (
        "the database did not answer, and a write may or may not have taken effect; read the value before you retry"
    )
    return HTTPException(503, str(error) if isinstance(error, StoreError) else unknown)


async def _failed(request: Request, error: Exception) -> ErrorResponse:
    log.error("api.failed", path=request.url.path, method=request.method, exc_info=error)
    return ErrorResponse(
        {"detail": "the server failed to answer this request; see `api.failed` in the daemon's log for the cause"}, 500
    )
