"""Requests to servers on this machine. By itself httpx would read the authorities' certificates each time: 17 ms of CPU."""

from __future__ import annotations

import httpx

from tests.effort import PATIENCE

_CLIENT = httpx.Client(
    verify=False,  # noqa: S501  no request uses TLS
    timeout=PATIENCE,
    limits=httpx.Limits(max_keepalive_connections=0),
)

get = _CLIENT.get
post = _CLIENT.post
put = _CLIENT.put
