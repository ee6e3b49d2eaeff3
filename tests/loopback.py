"""Requests to what listens on this machine. httpx alone would read the authorities' certificates for each: 17 ms of processor."""

from __future__ import annotations

import httpx

from tests.effort import PATIENCE

_CLIENT = httpx.Client(
    verify=False,  # noqa: S501  it is asked for no TLS
    timeout=PATIENCE,
    limits=httpx.Limits(max_keepalive_connections=0),
)

get = _CLIENT.get
post = _CLIENT.post
put = _CLIENT.put
