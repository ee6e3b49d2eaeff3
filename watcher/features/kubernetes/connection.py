"""Requests to a cluster's API server, by aiohttp.

Each run takes some fifteen requests. httpx, which is used elsewhere, took most of their CPU time (`bench/pods.py`).
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import aiohttp
from yarl import URL

from watcher.features.kubernetes.refusals import AnswerLost, ApiRefused

_TIMEOUT: Final = 10.0
"""The seconds within which the server is connected, and those within which it goes on answering."""


class ApiConnection:
    """Opens its session with the first request, and reads no proxy from the environment.

    `sign_in` returns the headers with our credentials, for each request. What is raised is `ApiRefused`, `AnswerLost`, or an
    `OSError` if the server could not be connected or fell silent. All but the first prove nothing.
    """

    def __init__(self, server: str, tls: ssl.SSLContext, sign_in: Callable[[], Mapping[str, str]]) -> None:
        self._server = server.rstrip("/")
        self._tls = tls
        self._sign_in = sign_in
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what is open. The next request opens it again."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the whole answer."""
        async with self._answer(method, path, query, body, headers) as answer:
            return await answer.read()

    async def lines(self, path: str, query: Mapping[str, str], *, silent_for: float) -> AsyncGenerator[bytes]:
        """Yield the lines of an answer as they come, with pauses of so many seconds at most."""
        begun = b""
        async with self._answer("GET", path, query, silent_for=silent_for) as answer:
            async for chunk in answer.content.iter_any():
                *lines, begun = (begun + chunk).split(b"\n")
                for line in lines:
                    yield line

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        silent_for: float = _TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        of_body = {} if body is None else {"Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=None, connect=_TIMEOUT, sock_connect=_TIMEOUT, sock_read=silent_for)
        try:
            async with self._opened().request(
                method,
                URL(self._server + path),
                params=query,
                headers={**of_body, **(headers or {}), **self._sign_in()},
                data=None if body is None else json.dumps(body).encode(),
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                if answer.status >= 300:  # noqa: PLR2004  a redirection is a proxy's, and no answer
                    raise _refusal(answer, await answer.read())
                yield answer
        except (TimeoutError, aiohttp.ClientConnectorError, aiohttp.InvalidURL):
            raise
        except aiohttp.ClientError as error:
            raise AnswerLost(f"{method} {path}: {str(error) or type(error).__name__}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


def _refusal(answer: aiohttp.ClientResponse, body: bytes) -> ApiRefused:
    try:
        status = json.loads(body)
        return ApiRefused(answer.status, status["reason"], status["message"])
    except (ValueError, KeyError, TypeError):  # a proxy between us and the server answered
        return ApiRefused(answer.status, answer.reason or "", body[:200].decode(errors="replace"))
