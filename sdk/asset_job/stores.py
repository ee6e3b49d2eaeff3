"""The asset store and the task store."""

from __future__ import annotations

import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from enum import Enum
from typing import Any

from asset_job.backends import AssetScope, TaskScope, WorkerBackend
from asset_job.client import ApiResponse, Transport, now, storable
from asset_job.errors import AssetJobError, InvalidValue, NotFound, Refused, StoreConflict, Unreachable
from asset_job.events import Asset, asset_key
from asset_job.transactions import Ordinals, Read, Transaction


class NeverExpire(Enum):
    """The type of `NEVER_EXPIRE`."""

    NEVER_EXPIRE = "never"


NEVER_EXPIRE = NeverExpire.NEVER_EXPIRE
"""The retention of an entry that never expires: `task_store.set(…, retention=NEVER_EXPIRE)`."""


class _Store(ABC):
    """What both stores have in common: the calls, and references to values that a worker-side backend stores."""

    def __init__(self, client: Transport, worker: WorkerBackend, scope: TaskScope | AssetScope) -> None:
        self._client, self._worker, self.scope = client, worker, scope

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default` if there is none."""
        entry = self._fetch(key)
        return default if entry is None else self._value(key, entry)

    def delete(self, key: str) -> None:
        """Delete the entry of a key, if there is one."""
        references = self._references_at(key)
        self._entry("DELETE", key)
        self._worker.purge(self.scope, references)

    def clear(self) -> None:
        """Delete all entries."""
        references = self.references()
        self._all("DELETE")
        self._worker.purge(self.scope, references.values())

    def references(self) -> Mapping[str, Any]:
        """The keys whose values a worker-side backend stores, with their references; empty without a backend."""
        if not self._worker.configured:
            return {}
        return dict(self._all("GET").content["references"])

    def _put(self, key: str, value: Any, **members: Any) -> None:
        """Store the value, then its reference, then remove the values that no entry refers to any more.

        `members` are further members of the entry.
        """
        value = storable(key, value)
        before = self._references_at(key)
        stored, is_ref = self._worker.stored(self.scope, key, value)
        mark = {"is_ref": True} if is_ref else {}
        try:
            self._entry("PUT", key, {"value": stored, **mark, **members})
        except Refused:
            self._worker.purge(self.scope, [stored] if is_ref and stored not in before else [])
            raise
        self._worker.purge(self.scope, [reference for reference in before if not is_ref or reference != stored])

    def _references_at(self, key: str) -> list[Any]:
        entry = self._fetch(key) if self._worker.configured else None
        return _references([entry])

    def _fetch(self, key: str) -> ApiResponse | None:
        """The stored entry `{"value", "is_ref"}`; None if there is none. Its version is None if entries have no versions."""
        try:
            return self._entry("GET", key)
        except NotFound:
            return None

    def _value(self, key: str, entry: ApiResponse) -> Any:
        stored = entry.content["value"]
        return self._worker.value(self.scope, key, stored) if entry.content.get("is_ref") else stored

    @abstractmethod
    def _entry(self, method: str, key: str, body: Any = None) -> ApiResponse:
        """Call the path of one key."""

    @abstractmethod
    def _all(self, method: str) -> ApiResponse:
        """Call the path of all keys."""


def _references(entries: Iterable[ApiResponse | None]) -> list[Any]:
    return [entry.content["value"] for entry in entries if entry and entry.content.get("is_ref")]


class AssetStore(_Store):
    """The entries of one asset, which outlive the run. Values are any JSON but null."""

    def __init__(
        self, client: Transport, worker: WorkerBackend, by: str, asset: str, scope: AssetScope, ordinals: Ordinals
    ) -> None:
        super().__init__(client, worker, scope)
        self._path, self._query = f"store/asset/by-{by}", {by: asset}
        self._name = scope.name or scope.uri
        # Two names are known to be different assets only if both are declared. All undeclared assets share one count.
        self._counted_as = scope.name if scope.name and scope.uri else ""
        self._ordinals = ordinals

    def set(self, key: str, value: Any) -> None:
        """Store a value. Raises `InvalidValue` for a value that is not JSON, or is None."""
        self._put(key, value)

    def keys(self) -> list[str]:
        """The keys of all entries."""
        return list(self._client.call("GET", f"{self._path}/keys", query=self._query)["keys"])

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Collect changes, and send them when the block ends; an exception in the block sends nothing.

        Raises `StoreConflict` if somebody else has changed a key that the block read: repeat the block.
        """
        transaction = Transaction(self._read)
        try:
            yield transaction
        finally:
            transaction.end()
        with self._ordinals.next(self._counted_as) as ordinal:
            if transaction.reads or transaction.changed:
                self._commit(transaction, ordinal)

    def _read(self, key: str) -> Read:
        entry = self._fetch(key)
        return Read(version=0) if entry is None else Read(version=_version(key, entry), value=self._value(key, entry))

    def _commit(self, transaction: Transaction, ordinal: int) -> None:
        """Send a transaction. As in `_put`, values are stored first.

        A conflict that can be seen is raised before that, so that the refused transaction replaces no value.
        """
        before = self._references_before(transaction)
        new: list[Any] = []
        try:
            values = self._stored(transaction.sets, new)
            body = {
                "asset": self._name,
                "ordinal": ordinal,
                "reads": transaction.reads,
                "set": {key: value for key, (value, _) in values.items()},
                "increment": transaction.increments,
                "delete": sorted(transaction.deletes),
                "refs": [key for key, (_, is_ref) in values.items() if is_ref],
            }
            result = self._client.call("POST", "store/asset/transaction", body=body)
        except Unreachable:
            raise  # whether it took effect is unknown
        except AssetJobError:
            self._worker.purge(self.scope, [reference for reference in new if reference not in before])
            raise
        self._worker.purge(self.scope, [reference for reference in before if reference not in new])
        transaction.values = result["values"]

    def _stored(self, values: Mapping[str, Any], references: list[Any]) -> Mapping[str, tuple[Any, bool]]:
        """Store values, and return what to send for each and whether that is a reference.

        Each reference is added to `references` at once, so that the caller has it even if a later value fails.
        """
        stored = {}
        for key, value in values.items():
            sent, is_ref = self._worker.stored(self.scope, key, value)
            stored[key] = sent, is_ref
            if is_ref:
                references.append(sent)
        return stored

    def _references_before(self, transaction: Transaction) -> list[Any]:
        """The references that a transaction replaces. Raises `StoreConflict`."""
        if not self._worker.configured:
            return []
        entries = {key: self._fetch(key) for key in {*transaction.reads, *transaction.changed}}
        for key, version in transaction.reads.items():
            entry = entries[key]
            if version != (entry.version if entry else 0):
                raise StoreConflict(f"{key!r} has changed since it was read: repeat the transaction")
        return _references(entries[key] for key in transaction.changed)

    def _entry(self, method: str, key: str, body: Any = None) -> ApiResponse:
        return self._client.request(method, f"{self._path}/value", query={**self._query, "key": key}, body=body)

    def _all(self, method: str) -> ApiResponse:
        what = "references" if method == "GET" else "clear"
        return self._client.request(method, f"{self._path}/{what}", query=self._query)


def _version(key: str, entry: ApiResponse) -> int:
    if entry.version is None:
        raise AssetJobError(
            f"{key!r} has no version, because the daemon's store backend has no versions: read it outside of the transaction"
        )
    return entry.version


class AssetStores:
    """The stores of assets: `asset_store[asset]` by name, by uri or as an `Asset`.

    For a job with exactly one inlet or outlet, the methods of its store work here as well.
    """

    def __init__(self, client: Transport, worker: WorkerBackend, known: Mapping[str, str]) -> None:
        self._client, self._worker, self._known = client, worker, known
        self._ordinals = Ordinals()

    def __getitem__(self, asset: str | Asset) -> AssetStore:
        if isinstance(asset, Asset):
            asset = asset_key(asset, self._known)
        is_uri = asset not in self._known and ("://" in asset or asset in self._known.values())
        by = "uri" if is_uri else "name"
        both = [
            AssetScope(name=name, uri=uri) for name, uri in self._known.items() if asset == (uri if is_uri else name)
        ]
        alone = AssetScope(uri=asset) if is_uri else AssetScope(name=asset)
        return AssetStore(self._client, self._worker, by, asset, both[0] if both else alone, self._ordinals)

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

    def transaction(self) -> AbstractContextManager[Transaction]:
        return self._only.transaction()

    @property
    def _only(self) -> AssetStore:
        if len(self._known) != 1:
            names = ", ".join(self._known) or "no asset among its inlets and outlets"
            raise AssetJobError(f"name the asset, as in r.asset_store[name]: this job has {names}")
        return self[next(iter(self._known))]


class TaskStore(_Store):
    """The entries of this task instance. A retry finds the entries of earlier tries. Values are any JSON but null."""

    def __init__(self, client: Transport, worker: WorkerBackend, claim: Mapping[str, Any]) -> None:
        scope = TaskScope(
            dag_id=claim["dag_id"],
            run_id=claim["run_id"],
            task_id=claim["task_id"],
            map_index=claim["map_index"],
        )
        super().__init__(client, worker, scope)
        self._path = f"store/ti/{claim['task_instance_id']}"
        self._default = timedelta(days=claim["default_retention_days"]) or NEVER_EXPIRE

    def set(self, key: str, value: Any, *, retention: timedelta | NeverExpire | None = None) -> None:
        """Store a value for `retention` from now; None: for the configured default. Raises `InvalidValue`."""
        self._put(key, value, expires_at=_expiry(key, self._default if retention is None else retention))

    def keys(self) -> list[str]:
        """The keys of all entries."""
        return list(self._client.call("GET", self._path, query={"what": "keys"})["keys"])

    def _entry(self, method: str, key: str, body: Any = None) -> ApiResponse:
        return self._client.request(method, f"{self._path}/{urllib.parse.quote(key, safe='')}", body=body)

    def _all(self, method: str) -> ApiResponse:
        return self._client.request(method, self._path)


def _expiry(key: str, retention: Any) -> str | None:
    """When an entry expires, as ISO text; None: never. Raises `InvalidValue`."""
    if isinstance(retention, NeverExpire):
        return None
    if not isinstance(retention, timedelta):
        raise InvalidValue(f"the retention of {key!r} is {retention!r}: give a timedelta, NEVER_EXPIRE, or nothing")
    return (now() + retention).isoformat()
