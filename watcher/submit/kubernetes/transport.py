"""How httpx sends a request to the cluster: by aiohttp, which takes a fraction of the CPU time of httpx's own transport.

Each run takes some fifteen requests, and each of them took two to four milliseconds, most of it in Python's connection pool
and protocol (`bench/pods.py`).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx
from yarl import URL

_FROM_HTTPX = ("host", "connection", "transfer-encoding")
"""Headers that aiohttp writes itself."""


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Opens its session with the first request. A lost connection raises what httpx's own transport raises."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        limits = request.extensions["timeout"]
        timeout = aiohttp.ClientTimeout(
            total=None, connect=limits["pool"], sock_connect=limits["connect"], sock_read=limits["read"]
        )
        headers = [(name, value) for name, value in request.headers.multi_items() if name not in _FROM_HTTPX]
        content = await request.aread()
        with _errors_of_httpx(request):
            response = await self._opened().request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=headers,
                data=content or None,
                timeout=timeout,
                allow_redirects=False,
            )
        return httpx.Response(
            response.status,
            headers=list(response.headers.items()),
            stream=_Body(response, request),
            extensions={"reason_phrase": (response.reason or "").encode()},
        )

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # httpx does
                skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
            )
        return self._session


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse, request: httpx.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx(self._request):
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        """Give the connection back if all was read, else close it."""
        self._response.release()


@contextmanager
def _errors_of_httpx(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
        raise httpx.ConnectError(str(error), request=request) from error
    except TimeoutError as error:
        raise httpx.ReadTimeout(str(error), request=request) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError) as error:
        raise httpx.RemoteProtocolError(str(error), request=request) from error
    except aiohttp.ClientError as error:
        raise httpx.ReadError(str(error), request=request) from error
