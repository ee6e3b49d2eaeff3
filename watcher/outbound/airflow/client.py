"""A client of Airflow's REST API (versions 3.0 to 3.3): signing in, assets by name or uri, events.

Errors differ by what is known about the request: it was not sent, it was refused, or nobody knows.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

import anyio
import httpx
from pydantic import SecretStr

from config.features.airflow.settings import AirflowSettings

PAGE: Final = 100
"""Rows of a page: the most that Airflow gives, unless it is configured to give less."""
_UNAUTHORIZED: Final = frozenset({401, 403})
_BUSY: Final = frozenset({408, 425, 429})


class AirflowError(Exception):
    """Airflow did not do what it was asked.

    ├── AirflowUnreachable   the request was not sent, or Airflow was too busy for it
    ├── AirflowSilent        nobody knows what became of it: it timed out, the connection was cut, or the answer was a 5xx
    └── AirflowRefused       Airflow answered with a 4xx, or the request makes no sense there
    """


class AirflowUnreachable(AirflowError):
    """Airflow did nothing."""


class AirflowSilent(AirflowError):
    """Airflow may have done it."""


class AirflowRefused(AirflowError):
    """Airflow did nothing, and will refuse again."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class TheirEvent:
    """An asset event of the neighbouring Airflow."""

    id: int
    timestamp: datetime
    extra: Mapping[str, Any]
    partition_key: str | None
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            id=content["id"],
            timestamp=datetime.fromisoformat(content["timestamp"]),
            extra=content.get("extra") or {},
            partition_key=content.get("partition_key"),
            dag_id=content.get("source_dag_id"),
            run_id=content.get("source_run_id"),
            task_id=content.get("source_task_id"),
            map_index=content.get("source_map_index", -1),
        )


class AirflowClient:
    """A client of one Airflow. Close it after use."""

    def __init__(self, settings: AirflowSettings) -> None:
        self._settings = settings
        self._client = httpx.AsyncClient(base_url=settings.base_url.rstrip("/"))
        self._token: str | None = _revealed(settings.token)
        self._signing_in = anyio.Lock()
        self._asset_ids: dict[str, int] = {}

    @property
    def timeout(self) -> timedelta:
        """The time limit of one request."""
        return self._settings.timeout

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def version(self) -> str:
        """Return the version, such as `3.3.2`."""
        answer = await self._ask("GET", "/api/v2/version")
        with _understood():
            return str(answer["version"])

    async def asset_id(self, target: str) -> int:
        """Return the id of the asset with this name, else with this uri. Raises `AirflowRefused` when there is none."""
        if target not in self._asset_ids:
            self._asset_ids[target] = await self._look_up(target)
        return self._asset_ids[target]

    def forget(self, target: str) -> None:
        """Forget the id of `target`, so that the next call looks it up again."""
        self._asset_ids.pop(target, None)

    async def create_event(self, asset_id: int, extra: str, partition_key: str | None) -> None:
        """Create an event. `extra` is the text of a JSON object and is sent unchanged. Airflow before 3.2 refuses a key."""
        key = "" if partition_key is None else f', "partition_key": {json.dumps(partition_key)}'
        await self._ask("POST", "/api/v2/assets/events", content=f'{{"asset_id": {asset_id}, "extra": {extra}{key}}}')

    async def events(self, asset_id: int, since: datetime | None) -> AsyncIterator[Sequence[TheirEvent]]:
        """Yield pages of the asset's events from `since` on, oldest first. An event may come twice; none is left out.

        Each page begins where the last one ended, so that events made or deleted meanwhile hide none from us.
        """
        offset = 0
        while True:
            rows, total = await self._page(asset_id, since, offset, "timestamp", PAGE)
            yield rows
            if not rows or offset + len(rows) >= total:
                return
            last = rows[-1].timestamp
            offset = offset + len(rows) if last == since else sum(row.timestamp == last for row in rows)
            since = last

    async def newest_event(self, asset_id: int) -> TheirEvent | None:
        """Return the newest event, or None when the asset has none."""
        rows, _ = await self._page(asset_id, None, 0, "-timestamp", 1)
        return rows[0] if rows else None

    async def _page(
        self, asset_id: int, since: datetime | None, offset: int, order: str, limit: int
    ) -> tuple[Sequence[TheirEvent], int]:
        query: dict[str, Any] = {"asset_id": asset_id, "order_by": order, "limit": limit, "offset": offset}
        if since is not None:
            query["timestamp_gte"] = since.isoformat()
        page = await self._ask("GET", "/api/v2/assets/events", params=query)
        with _understood():
            return [TheirEvent.of(each) for each in page["asset_events"]], int(page["total_entries"])

    async def _look_up(self, target: str) -> int:
        for field in ("name", "uri"):
            offset = 0
            while True:
                query = {f"{field}_pattern": target, "limit": PAGE, "offset": offset}
                page = await self._ask("GET", "/api/v2/assets", params=query)
                with _understood():
                    for asset in page["assets"]:
                        if asset[field] == target:
                            return int(asset["id"])
                    offset += len(page["assets"])
                    if not page["assets"] or offset >= page["total_entries"]:
                        break
        raise AirflowRefused(f"Airflow has no active asset {target!r}: name one that a Dag there uses, by name or uri")

    async def _ask(self, method: str, path: str, *, params: Any = None, content: str | None = None) -> Any:
        """Send a request. Signs in first, and again when the token has expired."""
        answer = await self._send(method, path, params=params, content=content, token=await self._sign_in(None))
        if answer.status_code in _UNAUTHORIZED and self._settings.user is not None:
            token = await self._sign_in(answer.request.headers["Authorization"])
            answer = await self._send(method, path, params=params, content=content, token=token)
        return _content(answer)

    async def _sign_in(self, refused: str | None) -> str:
        """Return the token: a new one when the present one was `refused`."""
        async with self._signing_in:
            if self._token is None or refused == f"Bearer {self._token}":
                body = json.dumps({"username": self._settings.user, "password": _revealed(self._settings.password)})
                answer = _content(await self._send("POST", "/auth/token", content=body))
                with _understood():
                    self._token = str(answer["access_token"])
            return self._token

    async def _send(
        self, method: str, path: str, *, params: Any = None, content: str | None = None, token: str | None = None
    ) -> httpx.Response:
        seconds = self._settings.timeout.total_seconds()
        headers = {
            "Content-Type": "application/json",
            **({} if token is None else {"Authorization": f"Bearer {token}"}),
        }
        try:
            with anyio.fail_after(seconds):
                return await self._client.request(
                    method, path, params=params, content=content, headers=headers, timeout=seconds
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            raise AirflowUnreachable(f"Airflow cannot be reached at {self._settings.base_url}: {error}") from error
        except TimeoutError as error:
            raise AirflowSilent(f"Airflow did not answer within {seconds:g} s") from error
        except httpx.HTTPError as error:
            raise AirflowSilent(f"the connection to Airflow was cut: {str(error) or type(error).__name__}") from error


@contextmanager
def _understood() -> Iterator[None]:
    """Turn an answer of another shape into `AirflowSilent`: it may come from a proxy or another service."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise AirflowSilent(f"the answer makes no sense ({what}): base_url has to lead to Airflow") from error


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _content(answer: httpx.Response) -> Any:
    """Return the JSON of a successful answer. Raises the error that the status stands for."""
    status = answer.status_code
    if status in _BUSY:
        raise AirflowUnreachable(f"Airflow is busy: it answers {status}")
    if not (answer.is_success or answer.is_server_error):
        remedy = "; check settings.airflow: its user or token, and what they may do" if status in _UNAUTHORIZED else ""
        raise AirflowRefused(f"Airflow answers {status}: {answer.text[:300]}{remedy}", status)
    try:
        answer.raise_for_status()
        return answer.json()
    except (httpx.HTTPStatusError, ValueError) as error:
        raise AirflowSilent(f"Airflow answers {status}: {answer.text[:300]}") from error
