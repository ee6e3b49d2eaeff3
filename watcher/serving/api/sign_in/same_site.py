"""Checks of requests to which a browser adds the user's authority: they must be addressed to us and come from our own pages.

With `auth: none`, or with a session cookie, any page that makes the browser send a request acts as its user: a page of
another site (https://owasp.org/www-community/attacks/csrf), or one whose name resolves to this machine (DNS rebinding). A page
cannot forge `Host` and `Origin`. Requests with a bearer token need no such check, because a page would have to know the token.
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
"""The cookie of people who have signed in to the web pages."""
LOOPBACK_COOKIE: Final = "watcher"
"""The cookie on the loopback without TLS, where not every browser accepts one that must be `Secure`."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing, which holds for our routes as well."""
_WITHOUT_AUTHORITY: Final = ("/healthz", "/readyz", "/metrics")


@dataclass(frozen=True, kw_only=True)
class SiteRefusal:
    """The reason why a request is refused."""

    status: int
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Site:
    """The addresses at which browsers use the API and its pages."""

    hosts: Collection[str] = LOOPBACK_NAMES
    """The names, without ports, that `Host` may contain."""
    base_url: str | None = None
    """The address at which a proxy serves the API. The proxy may forward another `Host`."""

    def refusal(self, scope: Scope, *, everybody_may: bool) -> SiteRefusal | None:
        """Return why a request is refused, or None.

        None means that the request is addressed to us and comes from our pages, or that it needs a token which no page of
        another site has. `everybody_may` means that requests need no token.
        """
        headers = Headers(scope=scope)
        with_cookie = not _has_bearer(headers) and self.session_id(headers) is not None
        path = scope["path"]
        if path.startswith("/execution/") or path in _WITHOUT_AUTHORITY or not (everybody_may or with_cookie):
            return None
        host = headers.get("host", "")
        if _name_of(host) not in self.hosts:
            return SiteRefusal(
                status=421, sentence="the requested host is not served here; add it to settings.api.hosts"
            )
        if scope["method"] in _SAFE or self._is_ours(headers, host, unknown=not with_cookie):
            return None
        return SiteRefusal(status=403, sentence="the request comes from a page of another site; use a token")

    def session_id(self, headers: Headers) -> str | None:
        """Return the session id in the cookie of this site, or None."""
        cookies = headers.get("cookie")
        return (cookie_parser(cookies).get(self.cookie_name(headers)) or None) if cookies else None

    def cookie_name(self, headers: Headers) -> str:
        """Return the name of the cookie for a browser with these headers: `SESSION_COOKIE` or `LOOPBACK_COOKIE`."""
        has_tls = (self.base_url or "").startswith("https:")
        is_loopback = _name_of(headers.get("host", "")) in LOOPBACK_NAMES
        return LOOPBACK_COOKIE if is_loopback and not has_tls else SESSION_COOKIE

    def _is_ours(self, headers: Headers, host: str, *, unknown: bool) -> bool:
        """Whether the request comes from one of our pages; `unknown` if its headers do not tell."""
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
    """Return the name in a `Host` header, without the port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


def site_of(hosts: Collection[str] | None, host: str, base_url: str | None) -> Site:
    """Return the site of these settings. Without `hosts` it has the loopback's names, the listening address and `base_url`'s host."""
    if hosts is None:
        own = {f"[{host}]" if ":" in host else host, _name_of(urlsplit(base_url or "").netloc)}
        hosts = LOOPBACK_NAMES | {name.lower() for name in own} - {"", "0.0.0.0", "[::]"}  # noqa: S104  compared with
    return Site(hosts=frozenset(hosts), base_url=base_url)
