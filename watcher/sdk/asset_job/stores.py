"""The asset store and the task store."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from .backends import AssetScope, TaskScope
from .client import Client
from .errors import AssetJobError, NotFound, Refused
from .values import now, storable
from .worker import Worker


class NeverExpire(Enum):
    NEVER_EXPIRE = "never"


NEVER_EXPIRE = NeverExpire.NEVER_EXPIRE
"""For `task_store.set(…, retention=NEVER_EXPIRE)`."""


class _Store:
    """What both stores do: calls, and references where a worker-side backend keeps the values elsewhere."""

    def __init__(self, client: Client, worker: Worker, scope: TaskScope | AssetScope) -> None:
        self._client, self._worker, self.scope = client, worker, scope

    def get(self, key: str, default: Any = None) -> Any:
        try:
            found = self._entry("GET", key)
        except NotFound:
            return default
        return self._worker.value(self.scope, key, found["value"]) if found.get("is_ref") else found["value"]

    def delete(self, key: str) -> None:
        references = self._references_at(key)
        self._entry("DELETE", key)
        self._worker.purge(self.scope, references)

    def clear(self) -> None:
        references = self.references()
        self._all("DELETE")
        self._worker.purge(self.scope, references.values())

    def references(self) -> Mapping[str, Any]:
        """Keys whose values a worker-side backend keeps, and where; nothing without one."""
        if not self._worker.configured:
            return {}
        found: Mapping[str, Any] = self._all("GET")["references"]
        return found

    def _put(self, key: str, value: Any, **more: Any) -> None:
        """The value goes first and its reference after it; what the new one leaves without an owner is removed."""
        value = storable(key, value)
        before = self._references_at(key)
        stored, is_ref = self._worker.stored(self.scope, key, value)
        marked = {"is_ref": True} if is_ref else {}
        try:
            self._entry("PUT", key, {"value": stored, **marked, **more})
        except Refused:
            self._worker.purge(self.scope, [stored] if is_ref and stored not in before else [])
            raise
        self._worker.purge(self.scope, [reference for reference in before if not is_ref or reference != stored])

    def _references_at(self, key: str) -> list[Any]:
        if not self._worker.configured:
            return []
        try:
            found = self._entry("GET", key)
        except NotFound:
            return []
        return [found["value"]] if found.get("is_ref") else []

    def _entry(self, method: str, key: str, body: Any = None) -> Any:
        raise NotImplementedError

    def _all(self, method: str) -> Any:
        raise NotImplementedError


class AssetStore(_Store):
    """The entries of one asset, which live on after the run. Values are any JSON but null."""

    def __init__(self, client: Client, worker: Worker, by: str, asset: str, scope: AssetScope) -> None:
        super().__init__(client, worker, scope)
        self._path, self._query = f"store/asset/by-{by}", {by: asset}

    def set(self, key: str, value: Any) -> None:
        self._put(key, value)

    def keys(self) -> list[str]:
        found: list[str] = self._client.call("GET", f"{self._path}/keys", query=self._query)["keys"]
        return found

    def _entry(self, method: str, key: str, body: Any = None) -> Any:
        return self._client.call(method, f"{self._path}/value", query={**self._query, "key": key}, body=body)

    def _all(self, method: str) -> Any:
        what = "references" if method == "GET" else "clear"
        return self._client.call(method, f"{self._path}/{what}", query=self._query)


class AssetStores:
    """`asset_store[asset]` by name or uri; with exactly one inlet or outlet its methods work here as well."""

    def __init__(self, client: Client, worker: Worker, known: Mapping[str, str]) -> None:
        self._client, self._worker, self._known = client, worker, known

    def __getitem__(self, asset: str) -> AssetStore:
        is_uri = asset not in self._known and ("://" in asset or asset in self._known.values())
        by = "uri" if is_uri else "name"
        both = [
            AssetScope(name=name, uri=uri) for name, uri in self._known.items() if asset == (uri if is_uri else name)
        ]
        alone = AssetScope(uri=asset) if is_uri else AssetScope(name=asset)
        return AssetStore(self._client, self._worker, by, asset, both[0] if both else alone)

    def get(self, key: str, default: Any = None) -> Any:
        return self._only.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self._only.set(key, value)

    def delete(self, key: str) -> None:
        self._only.delete(key)

    def clear(self) -> None:
        self._only.clear()

    def keys(self) -> list[str]:
        return self._only.keys()

    @property
    def _only(self) -> AssetStore:
        if len(self._known) != 1:
            names = ", ".join(self._known) or "no asset among its inlets and outlets"
            raise AssetJobError(f"say whose store is meant, as in r.asset_store[name]: this job has {names}")
        return self[next(iter(self._known))]


class TaskStore(_Store):
    """The entries of this task instance; a retry finds what earlier tries left. Values are any JSON but null."""

    def __init__(self, client: Client, worker: Worker, claim: Mapping[str, Any]) -> None:
        super().__init__(
            client, worker, TaskScope(**{name: claim[name] for name in ("dag_id", "run_id", "task_id", "map_index")})
        )
        self._path = f"store/ti/{claim['task_instance_id']}"
        self._default = timedelta(days=claim["default_retention_days"]) or NEVER_EXPIRE

    def set(self, key: str, value: Any, *, retention: timedelta | NeverExpire | None = None) -> None:
        """Kept for `retention` from now; None = the configured default."""
        kept = self._default if retention is None else retention
        until = None if isinstance(kept, NeverExpire) else (now() + kept).isoformat()
        self._put(key, value, expires_at=until)

    def _entry(self, method: str, key: str, body: Any = None) -> Any:
        return self._client.call(method, f"{self._path}/{urllib.parse.quote(key, safe='')}", body=body)

    def _all(self, method: str) -> Any:
        return self._client.call(method, self._path)
