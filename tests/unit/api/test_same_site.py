"""Requests that may use the authority that a browser adds: a table of headers and the resulting statuses."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from watcher.serving.api.sign_in.same_site import LOOPBACK_COOKIE, SESSION_COOKIE, Site, site_of

OURS = "watcher.example"
SITE = site_of([OURS], "127.0.0.1", "https://proxy.example/watcher")
COOKIE = {"cookie": f"a=b; {SESSION_COOKIE}=x"}
HERE = {"host": f"{OURS}:8795"}
REBOUND = {"host": "evil.example:8795"}
BEARER = {"authorization": "Bearer aw_x"}


def status(method: str, path: str, headers: dict[str, str], *, everybody_may: bool) -> int:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    refusal = SITE.refusal(scope, everybody_may=everybody_may)
    return 200 if refusal is None else refusal.status


HOSTS = [
    # headers beside the path, and the statuses with: auth none · a cookie · neither
    ({"host": OURS}, 200, 200, 200),
    ({"host": OURS.upper()}, 200, 200, 200),
    ({"host": f"{OURS}:1"}, 200, 200, 200),
    (REBOUND, 421, 421, 200),
    ({"host": "localhost"}, 421, 421, 200),
    ({"host": f"{OURS}.evil.example"}, 421, 421, 200),
    ({"host": f"{OURS}."}, 421, 421, 200),
    ({"host": f"{OURS}@evil.example"}, 421, 421, 200),
    ({"host": "*"}, 421, 421, 200),
    ({"host": ""}, 421, 421, 200),
    ({}, 421, 421, 200),
    ({**REBOUND, "x-forwarded-host": OURS}, 421, 421, 200),
    # Nobody looks at a bearer token under `auth: none`, so one that a rebound page invents must not help it.
    ({**REBOUND, **BEARER}, 421, 200, 200),
]


@pytest.mark.parametrize(("headers", "open_to_all", "with_cookie", "with_neither"), HOSTS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_host_of_a_request_is_checked(
    method: str, headers: dict[str, str], open_to_all: int, with_cookie: int, with_neither: int
) -> None:
    path = "/api/v2/assets"
    assert status(method, path, headers, everybody_may=True) == open_to_all
    assert status(method, path, {**headers, **COOKIE}, everybody_may=False) == with_cookie
    assert status(method, path, headers, everybody_may=False) == with_neither


ORIGINS = [
    ({}, 200, 403),
    ({"origin": f"http://{OURS}:8795"}, 200, 200),
    ({"origin": f"https://{OURS}:8795"}, 200, 200),
    ({"origin": "https://proxy.example"}, 200, 200),
    ({"origin": f"http://{OURS}"}, 403, 403),
    ({"origin": f"http://{OURS}:3000"}, 403, 403),
    ({"origin": "http://evil.example"}, 403, 403),
    ({"origin": "http://evil.example:8795"}, 403, 403),
    ({"origin": f"http://{OURS}:8795.evil.example"}, 403, 403),
    ({"origin": "null"}, 403, 403),
    ({"origin": ""}, 403, 403),
    ({"origin": "http://["}, 403, 403),
    ({"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, 403, 403),
    ({"sec-fetch-site": "same-origin"}, 200, 200),
    ({"sec-fetch-site": "none"}, 200, 200),
    ({"sec-fetch-site": "same-site"}, 403, 403),
    ({"sec-fetch-site": "cross-site"}, 403, 403),
    ({"sec-fetch-site": "?"}, 403, 403),
]


@pytest.mark.parametrize(("headers", "open_to_all", "with_cookie"), ORIGINS)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_origin_of_a_change_is_checked(
    method: str, headers: dict[str, str], open_to_all: int, with_cookie: int
) -> None:
    path = "/api/v2/assets/events"
    assert status(method, path, {**HERE, **headers}, everybody_may=True) == open_to_all
    assert status(method, path, {**HERE, **headers, **COOKIE}, everybody_may=False) == with_cookie
    assert status(method, path, {**HERE, **headers}, everybody_may=False) == 200


@pytest.mark.parametrize(("headers", "_open", "_cookie"), ORIGINS)
def test_reading_requests_may_come_from_any_page(headers: dict[str, str], _open: int, _cookie: int) -> None:
    assert status("GET", "/api/v2/assets", {**HERE, **headers, **COOKIE}, everybody_may=True) == 200


@pytest.mark.parametrize("path", ["/execution/tries/claim", "/healthz", "/readyz", "/metrics"])
@pytest.mark.parametrize("everybody_may", [True, False])
def test_requests_without_a_users_authority_are_not_checked(path: str, *, everybody_may: bool) -> None:
    headers = {**REBOUND, "origin": "http://evil.example", **COOKIE}
    assert status("POST", path, headers, everybody_may=everybody_may) == 200


def test_a_bearer_token_beside_a_cookie_is_sufficient() -> None:
    headers = {**REBOUND, **COOKIE, **BEARER, "origin": "http://evil.example"}
    assert status("POST", "/api/v2/assets/events", headers, everybody_may=False) == 200


@pytest.mark.parametrize(
    ("hosts", "host", "base_url", "names"),
    [
        (None, "127.0.0.1", None, {"localhost", "127.0.0.1", "[::1]"}),
        (None, "0.0.0.0", None, {"localhost", "127.0.0.1", "[::1]"}),  # noqa: S104
        (None, "::", "https://W.example:8443/x", {"localhost", "127.0.0.1", "[::1]", "w.example"}),
        (None, "10.0.0.1", None, {"localhost", "127.0.0.1", "[::1]", "10.0.0.1"}),
        (None, "fd00::1", "http://[fd00::2]:1", {"localhost", "127.0.0.1", "[::1]", "[fd00::1]", "[fd00::2]"}),
        (["w.example"], "10.0.0.1", "https://other.example", {"w.example"}),
    ],
)
def test_the_hosts_follow_from_the_settings(
    hosts: list[str] | None, host: str, base_url: str | None, names: set[str]
) -> None:
    assert site_of(hosts, host, base_url) == Site(hosts=frozenset(names), base_url=base_url)


def test_the_loopback_has_a_cookie_of_its_own_unless_a_proxy_has_tls() -> None:
    local, elsewhere = Site(), Site(hosts={OURS}, base_url="https://proxy.example")
    names = {host: local.cookie_name(Headers({"host": host})) for host in ("localhost:8795", "[::1]", OURS, "")}
    assert names == {
        "localhost:8795": LOOPBACK_COOKIE,
        "[::1]": LOOPBACK_COOKIE,
        OURS: SESSION_COOKIE,
        "": SESSION_COOKIE,
    }
    assert elsewhere.cookie_name(Headers({"host": "127.0.0.1"})) == SESSION_COOKIE


def test_only_the_name_that_belongs_to_the_host_holds_a_session() -> None:
    both = {"cookie": f"{LOOPBACK_COOKIE}=plain; {SESSION_COOKIE}=secure"}
    assert Site().session_id(Headers({"host": "localhost", **both})) == "plain"
    assert Site().session_id(Headers({"host": OURS, **both})) == "secure"
    assert Site().session_id(Headers({"host": OURS, "cookie": f"{SESSION_COOKIE}="})) is None
