"""The store's errors. Each text is one sentence that names the remedy; the API turns kinds into statuses.

StoreError
├── InvalidValue           the value, key or writer breaks a rule (422)
├── InvalidCursor          a list cannot continue from this cursor (400)
├── NotFound               no such asset, key, run, task instance, watcher (404)
├── Conflict               somebody else was first, or the object is in another state than expected (409)
│   ├── VersionConflict    compare-and-set found another version
│   ├── WatermarkProtected only its watcher writes a watermark entry
│   ├── TryFenced          a superseded, ended or already claimed try may change nothing
│   └── LeaseHeld          another container was granted the right to start this try's driver
├── PositionLost           the position moved on (take-over or rewind): discard the batch, read the position again
├── NotLeading             another process schedules and starts runs: roll back and stand by
├── DatabaseUnavailable    the database is gone, full, read-only, locked or too slow: nothing was written, try later (503)
│   └── ConnectionLost     the database went away or became read-only before COMMIT (503)
├── CommitUnknown          the connection broke during COMMIT: read the position again, never retry blindly (503)
├── DatabaseUnusable       the configured address has no usable metadata database until a person acts (503)
├── SchemaOutdated         the database's schema is older or newer than this program
├── FeatureTablesRefused   a feature of another distribution cannot make its tables, or touches others
├── BackendUnusable        the configured store backend cannot be imported or lacks a method
├── BackendFailed          the configured store backend failed or did not answer (503)
└── HeldElsewhere          another process holds the lock on this file
"""

from __future__ import annotations


class StoreError(Exception):
    """Base of all errors of the store."""


class InvalidValue(StoreError):
    """The value, key or writer breaks a rule of the store; nothing was written."""


class InvalidCursor(StoreError): ...


class NotFound(StoreError): ...


class Conflict(StoreError):
    """The write was refused because of the state of things; nothing was written."""


class VersionConflict(Conflict): ...


class WatermarkProtected(Conflict): ...


class TryFenced(Conflict): ...


class LeaseHeld(Conflict): ...


class PositionLost(StoreError): ...


class NotLeading(StoreError): ...


class DatabaseUnavailable(StoreError):
    """The database cannot do now what anyone asks of it; nothing was written."""


class ConnectionLost(DatabaseUnavailable):
    """No connection to a database that writes could be made, or it ended before COMMIT took effect; nothing was written."""


class CommitUnknown(StoreError):
    """COMMIT ended in a connection error; whether it took effect is only known from the database."""


class DatabaseUnusable(StoreError): ...


class SchemaOutdated(StoreError): ...


class FeatureTablesRefused(StoreError): ...


class BackendUnusable(StoreError): ...


class BackendFailed(StoreError):
    """A backend outside the metadata database raised or did not answer; whether a write took effect is unknown."""


class HeldElsewhere(StoreError): ...


def no_asset(asset: object) -> NotFound:
    """There is no asset of this id, name or uri."""
    return NotFound(f"no asset {asset!r}; `watcher assets list` shows the ones there are")


def no_event(event_id: int) -> NotFound:
    return NotFound(f"no event {event_id}; GET /api/v2/assets/events lists the ones there are")


def no_alias(alias_id: int) -> NotFound:
    return NotFound(f"no alias {alias_id}; GET /api/v2/assets/aliases lists the ones there are")


def no_watcher(name: str) -> NotFound:
    return NotFound(f"no watcher {name!r}; `watcher watchers list` shows the ones there are")


def no_job(dag_id: str) -> NotFound:
    return NotFound(f"no job {dag_id!r}; `watcher jobs list` shows the ones there are")


def no_run(dag_id: str, run_id: str) -> NotFound:
    return NotFound(f"the job {dag_id!r} has no run {run_id!r}; `watcher runs list` shows the newest")


def no_task_instance() -> NotFound:
    return NotFound("this task instance does not exist any more; end this process")
