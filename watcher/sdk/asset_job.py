"""The job SDK of Asset Watcher: what a PySpark job knows of its run, reads from and writes to the stores, and reports.

    from asset_job import run

    with run() as r:
        for file in r.triggering_asset_events.files(): ...
        r.asset_store["orders"].set("rows_loaded", 12)

Entering claims the try: of two processes that run the same try the second exits with code 75 before any Spark work.
Leaving reports success, an exception reports failure and goes on. Calls are repeated while the daemon is away, each
write with one Idempotency-Key, so that it takes effect once. Needs Python 3.11 and nothing else on the driver.

Errors, each with one sentence for people:

    AssetJobError
    ├── NoContext          the program was not started by Asset Watcher
    ├── InvalidValue       the value is not JSON, or is refused by the store
    ├── Unreachable        the daemon did not answer for ten minutes
    └── Refused            the daemon answered no; nothing was written
        ├── Fenced         the try is superseded, stopped or ended: it may change nothing any more
        ├── StoreConflict  the entry changed meanwhile, or is written by its watcher only
        ├── Forbidden      the asset is none of the job's inlets and outlets, or the token is not accepted
        └── NotFound       there is no such asset, key or task instance
    AssetJobSkip           raised by `r.skip()`; ends the try as skipped
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload
from uuid import uuid4

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

log = logging.getLogger("asset_job")

CLAIMED_BY_ANOTHER = 75
_PATIENCE = 600.0
_REQUEST_TIMEOUT = 30.0
_PROGRESS_EVERY = 2.0
_RENEW_EVERY = 300.0
_LONGEST_MESSAGE = 2000


class AssetJobError(Exception):
    """Base of all errors of the SDK."""


class NoContext(AssetJobError):
    """The program was not started by Asset Watcher."""


class InvalidValue(AssetJobError):
    """The value cannot be stored."""


class Unreachable(AssetJobError):
    """The daemon did not answer for as long as a job waits."""


class Refused(AssetJobError):
    """The daemon answered no; nothing was written."""


class Fenced(Refused):
    """The try is superseded, stopped or ended: it may change nothing any more."""


class StoreConflict(Refused):
    """The entry changed meanwhile, or is written by its watcher only."""


class Forbidden(Refused):
    """The asset is none of the job's inlets and outlets, or the token is not accepted."""


class NotFound(Refused):
    """There is no such asset, key or task instance."""


class AssetJobSkip(Exception):
    """Ends the try as skipped: no outlet event, no retry."""


class NeverExpire(Enum):
    NEVER_EXPIRE = "never"


NEVER_EXPIRE = NeverExpire.NEVER_EXPIRE
"""For `task_store.set(…, retention=NEVER_EXPIRE)`."""


@dataclass(frozen=True, kw_only=True)
class Asset:
    """An asset to name in an alias' event; it is created when it does not exist."""

    uri: str
    name: str = ""
    """'' = the uri."""


@dataclass(frozen=True, kw_only=True)
class AssetEvent:
    """One update of an asset; of a watcher's event `extra` holds the files or the id ranges."""

    id: int
    asset: str
    uri: str
    timestamp: datetime
    extra: Mapping[str, Any]
    source_watcher: str | None = None
    source_dag_id: str | None = None
    source_run_id: str | None = None
    source_task_id: str | None = None
    source_map_index: int | None = None
    source_dag_run: Mapping[str, Any] | None = None
    """Of a job's event: `dag_id`, `run_id`, `data_interval_start`, `data_interval_end` of the run that made it."""
    source_task_instance: Mapping[str, Any] | None = None
    """Likewise: `dag_id`, `run_id`, `task_id`, `map_index`."""


@dataclass(frozen=True, kw_only=True)
class Alias:
    """An alias, where an asset's name would stand."""

    name: str


@dataclass(frozen=True)
class Metadata:
    """What one outlet event will say, for `r.outlet_events.add`; with an `alias` the asset is one known only now."""

    asset: str | Asset
    extra: Mapping[str, Any] | None = None
    alias: str | None = None


class TriggeringAssetEvents(Mapping[str, list[AssetEvent]]):
    """The events this run consumes: asset name -> its events, oldest first."""

    def __init__(self, events: Mapping[str, list[dict[str, Any]]]) -> None:
        self._events = {asset: sorted(map(_event, found), key=_age) for asset, found in events.items()}

    def __getitem__(self, asset: str) -> list[AssetEvent]:
        return self._events[asset]

    def __iter__(self) -> Iterator[str]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def files(self, asset: str | None = None) -> list[dict[str, Any]]:
        """Of all events, or of one asset's, oldest event first; so too the other two."""
        return self._collect("files", asset)

    def ranges(self, asset: str | None = None) -> list[tuple[int, int]]:
        """Ranges of ids, both ends inclusive, that hold exactly the new rows."""
        return [(first, last) for first, last in self._collect("ranges", asset)]

    def rows(self, asset: str | None = None) -> list[dict[str, Any]]:
        """The new rows themselves; only of watchers with `columns`."""
        return self._collect("rows", asset)

    def _collect(self, what: str, asset: str | None) -> list[Any]:
        lists = self._events.values() if asset is None else [self._events.get(asset, [])]
        events = sorted((event for events in lists for event in events), key=_age)
        return [item for event in events for item in event.extra.get(what, ())]


class PastEvents(Sequence[AssetEvent]):
    """All events so far of an asset, or of those that came through an alias, oldest first; asked for when looked at.

    `[-1]` and other places from either end fetch no more than they need.
    """

    def __init__(self, client: _Client, path: str, query: Mapping[str, str]) -> None:
        self._client, self._path, self._query = client, path, query

    @overload
    def __getitem__(self, place: int) -> AssetEvent: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[AssetEvent]: ...

    def __getitem__(self, place: int | slice) -> AssetEvent | Sequence[AssetEvent]:
        if isinstance(place, slice):
            return self._all[place]
        count = place + 1 if place >= 0 else -place
        found = self._fetch(ascending=place >= 0, limit=count)
        if len(found) < count:
            raise IndexError(f"there are only {len(found)} events")
        return found[-1]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AssetEvent]:
        return iter(self._all)

    @cached_property
    def _all(self) -> list[AssetEvent]:
        return self._fetch()

    def _fetch(self, *, ascending: bool = True, limit: int | None = None) -> list[AssetEvent]:
        query = {**self._query, "ascending": json.dumps(ascending), **({} if limit is None else {"limit": str(limit)})}
        return [_event(found) for found in self._client.call("GET", self._path, query=query)["asset_events"]]


class InletEvents:
    """`inlet_events[asset]` by name or uri, `inlet_events[Alias(name=…)]`: their past events."""

    def __init__(self, client: _Client, inlets: list[dict[str, str]], known: Mapping[str, str]) -> None:
        self._client, self._known = client, known
        self._aliases = {inlet["alias"] for inlet in inlets if "alias" in inlet}

    def __getitem__(self, asset: str | Alias) -> PastEvents:
        """A bare string that is no inlet's or outlet's name is an alias of the inlets, or else a uri."""
        if isinstance(asset, Alias) or (asset not in self._known and asset in self._aliases):
            name = asset.name if isinstance(asset, Alias) else asset
            return PastEvents(self._client, "asset-events/by-asset-alias", {"name": name})
        named = {"name": asset, "uri": ""} if asset in self._known else {"name": "", "uri": asset}
        return PastEvents(self._client, "asset-events/by-asset", named)


class _Store:
    """What both stores do: calls, and references where a worker-side backend keeps the values elsewhere."""

    def __init__(self, client: _Client, worker: _Worker, scope: Mapping[str, Any]) -> None:
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
        value = _storable(key, value)
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

    def __init__(self, client: _Client, worker: _Worker, by: str, asset: str, scope: Mapping[str, Any]) -> None:
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

    def __init__(self, client: _Client, worker: _Worker, known: Mapping[str, str]) -> None:
        self._client, self._worker, self._known = client, worker, known

    def __getitem__(self, asset: str) -> AssetStore:
        is_uri = asset not in self._known and ("://" in asset or asset in self._known.values())
        by = "uri" if is_uri else "name"
        both = [{"name": name, "uri": uri} for name, uri in self._known.items() if asset == (uri if is_uri else name)]
        return AssetStore(self._client, self._worker, by, asset, both[0] if both else {by: asset})

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

    def __init__(self, client: _Client, worker: _Worker, claim: Mapping[str, Any]) -> None:
        super().__init__(client, worker, {name: claim[name] for name in ("dag_id", "run_id", "task_id", "map_index")})
        self._path = f"store/ti/{claim['task_instance_id']}"
        self._default = timedelta(days=claim["default_retention_days"]) or NEVER_EXPIRE

    def set(self, key: str, value: Any, *, retention: timedelta | NeverExpire | None = None) -> None:
        """Kept for `retention` from now; None = the configured default."""
        kept = self._default if retention is None else retention
        until = None if isinstance(kept, NeverExpire) else (_now() + kept).isoformat()
        self._put(key, value, expires_at=until)

    def _entry(self, method: str, key: str, body: Any = None) -> Any:
        return self._client.call(method, f"{self._path}/{urllib.parse.quote(key, safe='')}", body=body)

    def _all(self, method: str) -> Any:
        return self._client.call(method, self._path)


class _Worker:
    """The worker-side backend, if there is one; its module is looked for only then. Raises `AssetJobError`."""

    def __init__(self, spec: Mapping[str, Any] | None) -> None:
        self.configured = spec is not None
        self._spec = spec
        self._warned = False

    def stored(self, scope: Mapping[str, Any], key: str, value: Any) -> tuple[Any, bool]:
        """What travels for a value, and whether that is a reference."""
        if not self.configured:
            return value, False
        with self._told():
            stored, is_ref = self._backend.stored(self._scope(scope), key, value)
        return (_storable(key, stored), True) if is_ref else (value, False)

    def value(self, scope: Mapping[str, Any], key: str, stored: Any) -> Any:
        """What a reference leads to; itself, with one warning, where there is no backend."""
        missing = self._backend.missing() if self.configured else "settings.workers names no backend"
        if not missing:
            with self._told():
                return self._backend.value(self._scope(scope), key, stored)
        if not self._warned:
            self._warned = True
            log.warning("the value of %r is kept elsewhere, and its reference is given instead: %s", key, missing)
        return stored

    def purge(self, scope: Mapping[str, Any], references: Iterable[Any]) -> None:
        """Remove what references lead to. What cannot be removed is in the log."""
        if self.configured:
            self._backend.purge(self._scope(scope), references)

    @property
    def left(self) -> list[Any]:
        """References whose values could not be removed."""
        return self._backend.left if self.configured else []

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._module.BackendFailed as error:
            raise AssetJobError(str(error)) from error

    def _scope(self, names: Mapping[str, Any]) -> Any:
        return self._module.TaskScope(**names) if "run_id" in names else self._module.AssetScope(**names)

    @cached_property
    def _backend(self) -> Any:
        return self._module.WorkerBackend(self._spec)

    @cached_property
    def _module(self) -> Any:
        return importlib.import_module(f"{__package__}.asset_job_backends" if __package__ else "asset_job_backends")


@dataclass(kw_only=True)
class OutletEvent:
    """What the events of one outlet will say; they are sent when the job succeeds, never before."""

    name: str
    is_alias: bool
    known: Mapping[str, str]
    extra: dict[str, Any] = field(default_factory=dict)
    """Of the asset's event; of an alias, see `add`."""
    _added: list[dict[str, Any]] = field(default_factory=list)

    def add(self, asset: str | Asset, extra: Mapping[str, Any] | None = None) -> None:
        """Through an alias: one event of this asset; a bare string is an inlet's or outlet's name, or a uri."""
        if not self.is_alias:
            raise AssetJobError(f"{self.name} is an asset, no alias: set r.outlet_events[{self.name!r}].extra instead")
        if isinstance(asset, str):
            asset = Asset(uri=self.known[asset], name=asset) if asset in self.known else Asset(uri=asset)
        named = {"name": asset.name, "uri": asset.uri}
        self._added.append({"alias": self.name, "asset": named, "extra": dict(extra or {})})

    def to_send(self) -> list[dict[str, Any]]:
        return self._added if self.is_alias else [{"asset": self.name, "extra": self.extra}]


class OutletEvents:
    """`outlet_events[asset].extra = {…}` and `outlet_events[alias].add(asset, extra)`, for the job's outlets."""

    def __init__(self, outlets: list[dict[str, str]], known: Mapping[str, str]) -> None:
        self._known = known
        self._outlets = {outlet.get("name") or outlet["alias"]: "alias" in outlet for outlet in outlets}
        self._touched: dict[str, OutletEvent] = {}

    def __getitem__(self, name: str) -> OutletEvent:
        if name not in self._outlets:
            raise AssetJobError(f"{name} is no outlet of this job: add it to the job's `outlets` in the configuration")
        fresh = OutletEvent(name=name, is_alias=self._outlets[name], known=self._known)
        return self._touched.setdefault(name, fresh)

    def add(self, metadata: Metadata) -> None:
        """One event more through its alias, or more to say in the one event of an outlet."""
        if metadata.alias is not None:
            self[metadata.alias].add(metadata.asset, metadata.extra)
        else:
            name = metadata.asset if isinstance(metadata.asset, str) else metadata.asset.name or metadata.asset.uri
            self[name].extra.update(metadata.extra or {})

    def to_send(self) -> list[dict[str, Any]]:
        return [item for event in self._touched.values() for item in event.to_send()]


class Run:
    """One try of this job, claimed while the `with` block runs."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    triggering_asset_events: TriggeringAssetEvents
    asset_store: AssetStores
    task_store: TaskStore
    inlet_events: InletEvents
    outlet_events: OutletEvents
    connections: Mapping[str, Mapping[str, Any]]
    """The connections that `spark.connections` names, with their credentials: not for printing."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self.connections = context.get("connections", {})
        self._client = _Client(context["api"], context["token"])
        self._threads = [_Renewal(self._client), _Progress(self._client)]

    def __enter__(self) -> Self:
        claim = self._claim()
        self.dag_id, self.run_id, self.task_id = claim["dag_id"], claim["run_id"], claim["task_id"]
        self.map_index, self.try_number = claim["map_index"], claim["try_number"]
        known = {asset["name"]: asset["uri"] for asset in claim["inlets"] + claim["outlets"] if "name" in asset}
        self.triggering_asset_events = TriggeringAssetEvents(claim["triggering_asset_events"])
        self._worker = _Worker(claim.get("worker_backend"))
        self._clear_on_success = claim["clear_on_success"]
        self.asset_store = AssetStores(self._client, self._worker, known)
        self.task_store = TaskStore(self._client, self._worker, claim)
        self.inlet_events = InletEvents(self._client, claim["inlets"], known)
        self.outlet_events = OutletEvents(claim["outlets"], known)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        for thread in self._threads:
            thread.stop()
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self._succeed()
            return False
        if isinstance(error, AssetJobSkip):
            self._finish("skipped", str(error), [])
            return True
        try:
            self._finish("failed", f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE], [])
        except AssetJobError as unreported:
            log.warning("the failure could not be reported: %s", unreported)  # and must not hide the job's own error
        return False

    @cached_property
    def spark(self) -> SparkSession:
        """The job's SparkSession, made when first asked for."""
        from pyspark.sql import SparkSession  # noqa: PLC0415 - the module itself needs no Spark

        return SparkSession.builder.getOrCreate()

    @property
    def spark_app_id(self) -> str:
        return self.spark.sparkContext.applicationId

    def now(self) -> datetime:
        """The present moment, in UTC; stored as ISO text."""
        return _now()

    def skip(self, message: str = "") -> NoReturn:
        raise AssetJobSkip(message)

    def _claim(self) -> dict[str, Any]:
        try:
            claim: dict[str, Any] = self._client.call("POST", "tries/claim", body={"nonce": uuid4().hex})
        except Fenced as error:
            log.error("this try is not ours to run: %s", error)  # noqa: TRY400 - a trace would tell nothing more
            raise SystemExit(CLAIMED_BY_ANOTHER) from None
        return claim

    def _succeed(self) -> None:
        """With `clear_on_success` the daemon forgets the references, so what they lead to is removed then."""
        references = self.task_store.references() if self._clear_on_success else {}
        left = ", ".join(map(str, self._worker.left))
        message = f"values that could not be removed: {left}"[:_LONGEST_MESSAGE] if left else ""
        self._finish("success", message, self.outlet_events.to_send())
        self._worker.purge(self.task_store.scope, references.values())

    def _finish(self, state: str, message: str, outlet_events: list[dict[str, Any]]) -> None:
        body = {"state": state, "outlet_events": _storable("outlet_events", outlet_events), "message": message}
        self._client.call("POST", "tries/finish", body=body)


def run() -> Run:
    """The run this program was started for, to be entered by `with`. Raises `NoContext` outside of Asset Watcher."""
    path = context_path(sys.argv, os.environ)
    if path is None:
        raise NoContext("there is no run context: start the job through Asset Watcher, or give --run-context FILE")
    return Run(json.loads(path.read_bytes()))


def context_path(argv: list[str], environ: Mapping[str, str]) -> Path | None:
    """The context file as Spark's configuration names it, else the arguments, else the environment."""
    found = _from_spark(environ) or _from_arguments(argv) or environ.get("ASSET_JOB_CONTEXT")
    return Path(found) if found else None


def _from_spark(environ: Mapping[str, str]) -> str | None:
    """Only below spark-submit, whose JVM already runs: elsewhere asking would start one."""
    if "PYSPARK_GATEWAY_PORT" not in environ:
        return None
    from pyspark import SparkConf  # noqa: PLC0415 - the module itself needs no Spark

    return SparkConf().get("spark.asset_job.context")


def _from_arguments(argv: list[str]) -> str | None:
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option == "--run-context":
            return value if equals else following
    return None


class _Passing(Exception):
    """What a repetition may cure."""


class _Client:
    """Speaks the Execution API; used by several threads."""

    def __init__(self, api: str, token: str) -> None:
        self._base = f"{api.rstrip('/')}/execution"
        # The daemon is reached directly: a proxy of the environment would see the token.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.token = token

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float = _PATIENCE,
    ) -> Any:
        """The decoded answer, None when it is empty; repeated for `patience` seconds while the daemon is away."""
        headers = {"Accept": "application/json"} if method == "GET" else {"Idempotency-Key": uuid4().hex}
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = f"{self._base}/{path}{'?' + urllib.parse.urlencode(query) if query else ''}"
        data = None if body is None else json.dumps(body).encode()
        give_up, pause = time.monotonic() + patience, 0.1
        while True:
            try:
                return self._once(urllib.request.Request(url, data, headers, method=method))  # noqa: S310 - our daemon
            except _Passing as error:
                if time.monotonic() + pause > give_up:
                    raise Unreachable(f"Asset Watcher did not answer at {self._base}: {error}") from error
            time.sleep(pause)
            pause = min(2 * pause, 10.0)

    def _once(self, request: urllib.request.Request) -> Any:
        request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with self._opener.open(request, timeout=_REQUEST_TIMEOUT) as answer:
                content = self._read(answer)
            return json.loads(content) if content else None
        except urllib.error.HTTPError as error:
            with error:
                content = self._read(error)
            if error.code >= 500 or error.code == 429:  # noqa: PLR2004
                raise _Passing(f"HTTP {error.code}") from error
            raise _refusal(error.code, content) from error
        except (OSError, HTTPException, ValueError) as error:
            raise _Passing(str(error) or type(error).__name__) from error

    def _read(self, answer: HTTPResponse | urllib.error.HTTPError) -> bytes:
        self.token = answer.headers.get("Refreshed-API-Token") or self.token
        return answer.read()


_BY_REASON = {
    "fenced": Fenced,
    "conflict": StoreConflict,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "invalid": InvalidValue,
}
_BY_STATUS = {401: Fenced, 403: Forbidden, 404: NotFound, 409: Fenced, 422: InvalidValue}


def _refusal(status: int, content: bytes) -> AssetJobError:
    """The typed error of an answer `{"detail": sentence | {"reason", "message"} | [validation error]}`."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"HTTP {status}"
    reason = detail.get("reason") if isinstance(detail, dict) else None
    message = detail.get("message", reason) if isinstance(detail, dict) else detail
    kind: type[AssetJobError] = _BY_REASON.get(str(reason)) or _BY_STATUS.get(status, Refused)
    return kind(message if isinstance(message, str) else json.dumps(message))


class _Background(threading.Thread):
    """Does something now and then beside the job; what goes wrong there is no concern of the job's."""

    def __init__(self, client: _Client, name: str) -> None:
        super().__init__(name=f"asset-job-{name}", daemon=True)
        self._client, self._ending = client, threading.Event()

    def run(self) -> None:
        while not self._ending.wait(self.pause()):
            self._safely()

    def stop(self) -> None:
        self._ending.set()
        self.join(timeout=_PROGRESS_EVERY)  # it may hang in a call of its own; the job goes on

    def pause(self) -> float:
        raise NotImplementedError

    def act(self) -> None:
        raise NotImplementedError

    def _safely(self) -> None:
        try:
            self.act()
        except Exception:  # Spark may be starting, stopping or gone: the job itself will notice
            log.debug("%s failed", self.name, exc_info=True)


class _Renewal(_Background):
    """Renews the token after a third of its life: by its own length, so that the clocks' difference does not matter."""

    def __init__(self, client: _Client) -> None:
        super().__init__(client, "renewal")

    def pause(self) -> float:
        return token_life(self._client.token) / 3

    def act(self) -> None:
        self._client.token = self._client.call("POST", "tries/token", body={})["token"]


class _Progress(_Background):
    """Reports what Spark's StatusTracker counts, once there is a Spark session."""

    def __init__(self, client: _Client) -> None:
        super().__init__(client, "progress")
        self._stages: dict[int, tuple[int, int]] = {}
        self._settled: set[int] = set()
        self._reported: dict[str, int] = {}

    def pause(self) -> float:
        return _PROGRESS_EVERY

    def act(self) -> None:
        if "pyspark.sql" in sys.modules:
            self.look(sys.modules["pyspark.sql"].SparkSession.active().sparkContext.statusTracker())
        if self._stages and (counts := self.counts()) != self._reported:
            self._client.call("POST", "tries/progress", body=counts, patience=0)
            self._reported = counts

    def run(self) -> None:
        super().run()
        self._safely()  # the last counts, so that a bar ends where the job ended

    def look(self, tracker: StatusTracker) -> None:
        """Of a job that ended, what was not done never will be: skipped stages count as nothing."""
        for job in {*tracker.getJobIdsForGroup(None), *tracker.getActiveJobsIds()} - self._settled:
            info = tracker.getJobInfo(job)
            ended = info is not None and info.status != "RUNNING"
            for stage in info.stageIds if info else ():
                if found := tracker.getStageInfo(stage):
                    done = found.numCompletedTasks
                    self._stages[stage] = (done if ended else found.numTasks, done)
            if ended:
                self._settled.add(job)

    def counts(self) -> dict[str, int]:
        tasks, done = (sum(column) for column in zip(*self._stages.values(), strict=True))
        return {"stages": len(self._stages), "tasks": tasks, "tasks_done": done}


def token_life(token: str) -> float:
    """Seconds between `iat` and `exp` of a JWT; a guess for a token that does not say."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(float(claims["exp"]) - float(claims["iat"]), 0.5)
    except (IndexError, ValueError, KeyError, TypeError):
        return 3 * _RENEW_EVERY


def _event(found: Mapping[str, Any]) -> AssetEvent:
    source = {name: found.get(name) for name in AssetEvent.__dataclass_fields__ if name.startswith("source_")}
    return AssetEvent(
        id=found["id"],
        asset=found["asset"]["name"],
        uri=found["asset"]["uri"],
        timestamp=datetime.fromisoformat(found["timestamp"]),
        extra=found.get("extra") or {},
        **source,
    )


def _age(event: AssetEvent) -> tuple[datetime, int]:
    return event.timestamp, event.id


def _storable(key: str, value: Any) -> Any:
    """The value as JSON has it. Raises `InvalidValue`."""
    if value is None:
        raise InvalidValue(f"None cannot be stored as {key!r}: delete the key instead")
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_encode))
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"The value of {key!r} is not JSON: {error}") from error


def _encode(value: object) -> str:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _now() -> datetime:
    return datetime.now(UTC)
