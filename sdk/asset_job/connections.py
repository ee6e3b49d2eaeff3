"""The connections of a run's job, whose secrets may change while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from asset_job.client import Transport
from asset_job.errors import NotFound


class JobConnections(dict[str, Mapping[str, Any]]):
    """Connections by name, with their secrets as they were when the try was submitted, or when `renew` was called."""

    def __init__(self, connections: Mapping[str, Mapping[str, Any]], client: Transport) -> None:
        super().__init__(connections)
        self._client = client

    def renew(self, name: str) -> bool:
        """Ask the daemon for a connection as it is now, and return whether it is another. A local run has none to ask.

        Raises `AssetJobError`.
        """
        try:
            now = self._client.call("GET", f"connections/{quote(name, safe='')}")
        except NotFound:
            return False
        before, self[name] = self[name], now
        return bool(before != now)
