"""What carries the SDK's calls: the Execution API over HTTP, or a folder that stands in for it."""

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

from .errors import AssetJobError, Fenced, Forbidden, InvalidValue, NotFound, Refused, StoreConflict, Unreachable

PATIENCE = 600.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    content: Any = None
    """Decoded; None when it is empty."""
    version: int | None = None
    """Of the entry that was asked for, where entries have one."""


class Transport(ABC):
    """Paths, queries and bodies are the Execution API's, whoever answers. Used by several threads.

    Raises the errors of `errors`: a `Refused` has changed nothing, after `Unreachable` that is unknown.
    """

    @abstractmethod
    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,
    ) -> Answer:
        """Takes effect once, however often it is repeated within `patience` seconds while nobody answers."""

    def call(self, method: str, path: str, **words: Any) -> Any:
        """The content of the answer; `words` are those of `answer`."""
        return self.answer(method, path, **words).content


def storable(key: str, value: Any) -> Any:
    """The value as JSON has it; dates and times become ISO text. Raises `InvalidValue`."""
    if value is None:
        raise InvalidValue(f"None cannot be stored as {key!r}: delete the key instead")
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_encode))
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"The value of {key!r} is not JSON: {error}") from error


def _encode(value: object) -> str:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be stored")


def now() -> datetime:
    return datetime.now(UTC)


_REQUEST_TIMEOUT = 30.0


class _Transient(Exception):
    """A failure that a repetition may cure."""


class Client(Transport):
    """The Execution API over HTTP; `patience` covers a daemon that is away, for instance while it restarts."""

    def __init__(self, api: str, token: str) -> None:
        self._base = f"{api.rstrip('/')}/execution"
        # The daemon is reached directly: a proxy of the environment would see the token.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.token = token

    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = PATIENCE,
    ) -> Answer:
        headers = {"Accept": "application/json"} if method == "GET" else {"Idempotency-Key": uuid4().hex}
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = f"{self._base}/{path}{'?' + urllib.parse.urlencode(query) if query else ''}"
        data = None if body is None else json.dumps(body).encode()
        give_up, pause = time.monotonic() + patience, 0.1
        while True:
            try:
                return self._once(urllib.request.Request(url, data, headers, method=method))  # noqa: S310 - our daemon
            except _Transient as error:
                if time.monotonic() + pause > give_up:
                    raise Unreachable(f"Asset Watcher did not answer at {self._base}: {error}") from error
            time.sleep(pause)
            pause = min(2 * pause, 10.0)

    def _once(self, request: urllib.request.Request) -> Answer:
        request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with self._opener.open(request, timeout=_REQUEST_TIMEOUT) as answer:
                content = self._read(answer)
            return Answer(
                content=json.loads(content) if content else None, version=_version(answer.headers.get("ETag"))
            )
        except urllib.error.HTTPError as error:
            with error:
                content = self._read(error)
            if error.code >= 500 or error.code == 429:  # noqa: PLR2004
                raise _Transient(f"HTTP {error.code}") from error
            raise _refusal(error.code, content) from error
        except (OSError, HTTPException, ValueError) as error:
            raise _Transient(str(error) or type(error).__name__) from error

    def _read(self, answer: HTTPResponse | urllib.error.HTTPError) -> bytes:
        self.token = answer.headers.get("Refreshed-API-Token") or self.token
        return answer.read()


def _version(tag: str | None) -> int | None:
    """Of an ETag, which a proxy may have marked as weak."""
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
    """The typed error of an answer `{"detail": sentence | {"reason", "message"} | [validation error]}`."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"HTTP {status}"
    if isinstance(detail, list):
        detail = _fault(detail)
    reason = detail.get("reason") if isinstance(detail, dict) else None
    message = detail.get("message", reason) if isinstance(detail, dict) else detail
    kind: type[AssetJobError] = _BY_REASON.get(str(reason)) or _BY_STATUS.get(status, Refused)
    return kind(message if isinstance(message, str) else json.dumps(message))


def _fault(faults: list[Any]) -> str:
    """One sentence of what is wrong with a body: of a part that may have several forms, each is a fault, and the right form's is deepest."""
    try:
        fault = max(faults, key=lambda fault: len(fault["loc"]))
        given = f" {fault['input']!r}" if "input" in fault else ""
        return f"{fault['loc'][-1]}{given}: {fault['msg'].removeprefix('Value error, ')}"
    except (AttributeError, LookupError, TypeError, ValueError):
        return json.dumps(faults)
