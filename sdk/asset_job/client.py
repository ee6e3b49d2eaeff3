"""Transports for the SDK's calls: the Execution API over HTTP, and the interface that a local folder implements too."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from http.client import HTTPException, HTTPResponse
from typing import Any
from uuid import uuid4

from asset_job.errors import (
    AssetJobError,
    Fenced,
    Forbidden,
    InvalidValue,
    NotFound,
    Refused,
    StoreConflict,
    Unreachable,
)

PATIENCE = 600.0
"""Seconds for which a call is repeated while the daemon does not answer."""


@dataclass(frozen=True, kw_only=True)
class ApiResponse:
    """A successful response."""

    content: Any = None
    """The decoded JSON; None if the response is empty."""
    version: int | None = None
    """The version of the requested entry; None if it has none."""


class Transport(ABC):
    """Carries calls with paths, queries and bodies of the Execution API. Several threads use it.

    Raises the errors of `errors`. A `Refused` call has changed nothing; after `Unreachable` that is unknown.
    """

    @abstractmethod
    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,
    ) -> ApiResponse:
        """Make a call. It is repeated for `patience` seconds while nobody answers, and takes effect once."""

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,
    ) -> Any:
        """Make a call as `request` does, and return the content of the response."""
        return self.request(method, path, query=query, body=body, patience=patience).content


def storable(key: str, value: Any) -> Any:
    """The value as JSON represents it. Dates and times become ISO text. Raises `InvalidValue`."""
    if value is None:
        raise InvalidValue(f"None cannot be stored as {key!r}: delete the key instead")
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_encode))
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            f"the value of {key!r} is not JSON: {error}; store text, numbers, booleans, lists or objects"
        ) from error


def _encode(value: object) -> str:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be stored")


def now() -> datetime:
    """The present time, in UTC."""
    return datetime.now(UTC)


_REQUEST_TIMEOUT = 30.0
"""Seconds for one attempt."""


class _Transient(Exception):
    """A failure that may not happen again when the request is repeated."""


class Client(Transport):
    """Calls the Execution API over HTTP. `patience` covers the time in which a daemon is away, for instance restarts."""

    def __init__(self, api: str, token: str) -> None:
        self._base = f"{api.rstrip('/')}/execution"
        # Connect to the daemon directly: a proxy of the environment would see the token.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.token = token

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,
    ) -> ApiResponse:
        headers = {"Accept": "application/json"} if method == "GET" else {"Idempotency-Key": uuid4().hex}
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = f"{self._base}/{path}{'?' + urllib.parse.urlencode(query) if query else ''}"
        data = None if body is None else json.dumps(body).encode()
        give_up, pause = time.monotonic() + patience, 0.1
        while True:
            try:
                return self._attempt(urllib.request.Request(url, data, headers, method=method))  # noqa: S310 - our daemon
            except _Transient as error:
                if time.monotonic() + pause > give_up:
                    raise Unreachable(
                        f"Asset Watcher did not answer at {self._base}: {error}; check that it runs and can be reached"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, 10.0)

    def _attempt(self, request: urllib.request.Request) -> ApiResponse:
        request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with self._opener.open(request, timeout=_REQUEST_TIMEOUT) as response:
                content = self._read(response)
            return ApiResponse(
                content=json.loads(content) if content else None, version=_version(response.headers.get("ETag"))
            )
        except urllib.error.HTTPError as error:
            with error:
                content = self._read(error)
            if error.code >= 500 or error.code == 429:  # noqa: PLR2004
                raise _Transient(f"HTTP {error.code}") from error
            raise _refusal(error.code, content) from error
        except (OSError, HTTPException, ValueError) as error:
            raise _Transient(str(error) or type(error).__name__) from error

    def _read(self, response: HTTPResponse | urllib.error.HTTPError) -> bytes:
        self.token = response.headers.get("Refreshed-API-Token") or self.token
        return response.read()


def _version(tag: str | None) -> int | None:
    """The version in an ETag, which a proxy may have marked as weak; None if there is none."""
    match = re.fullmatch(r'(?:W/)?"(\d+)"', tag or "")
    return int(match[1]) if match else None


_BY_REASON = {
    "fenced": Fenced,
    "conflict": StoreConflict,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "invalid": InvalidValue,
}
_BY_STATUS = {401: Fenced, 403: Forbidden, 404: NotFound, 409: Fenced, 422: InvalidValue}


def _refusal(status: int, content: bytes) -> AssetJobError:
    """The error for a response `{"detail": sentence | {"reason", "message"} | [validation error]}`."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"HTTP {status}"
    if isinstance(detail, list):
        detail = _deepest_error(detail)
    reason = detail.get("reason") if isinstance(detail, dict) else None
    message = detail.get("message", reason) if isinstance(detail, dict) else detail
    kind: type[AssetJobError] = _BY_REASON.get(str(reason)) or _BY_STATUS.get(status, Refused)
    return kind(message if isinstance(message, str) else json.dumps(message))


def _deepest_error(errors: list[Any]) -> str:
    """One sentence for the validation errors of a body.

    A part that may have several forms has an error for each form; the error of the intended form is the deepest.
    """
    try:
        error = max(errors, key=lambda error: len(error["loc"]))
        given = f" {error['input']!r}" if "input" in error else ""
        return f"{error['loc'][-1]}{given}: {error['msg'].removeprefix('Value error, ')}"
    except (AttributeError, LookupError, TypeError, ValueError):
        return json.dumps(errors)
