"""Requests that a browser makes with authority of its own accord: they must be meant for us, and come from our own pages.

With `auth: none`, and with a session cookie, whoever makes the browser send a request acts as its user: another page
(https://owasp.org/www-community/attacks/csrf), or one whose name was made to lead to this machine (DNS rebinding). Their
`Host` and `Origin` cannot be forged by a page. A bearer token, and a job's, a page must know first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

SESSION_COOKIE: Final = "__Host-watcher"
"""Of people who have signed in to the web pages."""
LOOPBACK_COOKIE: Final = "watcher"
"""The same on the loopback without TLS, where not every browser takes a cookie that must be `Secure`."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing, here too."""
_WITHOUT_AUTHORITY: Final = ("/healthz", "/readyz", "/metrics")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where the API is at home in a browser."""

    hosts: Collection[str] = LOOPBACK_NAMES
    """Names, without ports, that `Host` may hold."""
    base_url: str | None = None
    """Under which a proxy shows it, perhaps without telling us."""

    def refusal(self, scope: Scope, *, everybody_may: bool) -> Refusal | None:
        """None for what is meant for us and comes from us, or needs authority that a page does not have.

        `everybody_may`: a request needs no token.
        """
        headers = Headers(scope=scope)
        with_cookie = not _has_bearer(headers) and self.session_id(headers) is not None
        path = scope["path"]
        if path.startswith("/execution/") or path in _WITHOUT_AUTHORITY or not (everybody_may or with_cookie):
            return None
        host = headers.get("host", "")
        if _name_of(host) not in self.hosts:
            return Refusal(status=421, sentence="this is not the host that was asked for; add it to settings.api.hosts")
        if scope["method"] in _SAFE or self._is_ours(headers, host, unknown=not with_cookie):
            return None
        return Refusal(status=403, sentence="the request comes from a page of another site; use a token")

    def session_id(self, headers: Headers) -> str | None:
        """What the cookie of this site holds."""
        cookies = headers.get("cookie")
        return (cookie_parser(cookies).get(self.cookie_name(headers)) or None) if cookies else None

    def cookie_name(self, headers: Headers) -> str:
        """Of the cookie that a browser with these headers keeps for us: `SESSION_COOKIE`, or `LOOPBACK_COOKIE`."""
        has_tls = (self.base_url or "").startswith("https:")
        is_loopback = _name_of(headers.get("host", "")) in LOOPBACK_NAMES
        return LOOPBACK_COOKIE if is_loopback and not has_tls else SESSION_COOKIE

    def _is_ours(self, headers: Headers, host: str, *, unknown: bool) -> bool:
        """Whether it comes from a page of ours; `unknown` where the browser, if it is one, does not say."""
        origin = headers.get("origin")
        if origin is not None:
            return origin.lower().partition("://")[2] == host.lower() or origin.lower() == self._base_origin
        fetched_from = headers.get("sec-fetch-site")
        return unknown if fetched_from is None else fetched_from in {"same-origin", "none"}

    @property
    def _base_origin(self) -> str | None:
        if self.base_url is None:
            return None
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}".lower()


def _has_bearer(headers: Headers) -> bool:
    return headers.get("authorization", "").lower().startswith("bearer ")


def _name_of(host: str) -> str:
    """Of a `Host` header, without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


def site_of(hosts: Collection[str] | None, host: str, base_url: str | None) -> Site:
    """By the settings; without `hosts`: the loopback's names, the address that is listened on, and `base_url`'s host."""
    if hosts is None:
        own = {f"[{host}]" if ":" in host else host, _name_of(urlsplit(base_url or "").netloc)}
        hosts = LOOPBACK_NAMES | {name.lower() for name in own} - {"", "0.0.0.0", "[::]"}  # noqa: S104  compared with
    return Site(hosts=frozenset(hosts), base_url=base_url)
