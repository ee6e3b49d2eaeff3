"""The job SDK of Asset Watcher: what a PySpark job knows of its run, reads from and writes to the stores, and reports.

    from asset_job import run

    with run() as r:
        for file in r.triggering_asset_events.files(): ...
        r.asset_store["orders"].set("rows_loaded", 12)

Entering claims the try: of two processes that run the same try the second exits with code 75 before any Spark work.
Leaving reports success, an exception reports failure and goes on. Calls are repeated while the daemon is away, each
write with one Idempotency-Key, so that it takes effect once. Needs Python 3.11 and nothing else on the driver.

`errors` draws the tree of what can be raised.
"""

from .errors import (
    AssetJobError,
    AssetJobSkip,
    Fenced,
    Forbidden,
    InvalidValue,
    NoContext,
    NotFound,
    Refused,
    SourceFailed,
    StoreConflict,
    TargetFailed,
    Unreachable,
)
from .events import Alias, Asset, AssetEvent, Metadata
from .runs import Run, run
from .stores import NEVER_EXPIRE, NeverExpire
from .transactions import Transaction

__all__ = [
    "NEVER_EXPIRE",
    "Alias",
    "Asset",
    "AssetEvent",
    "AssetJobError",
    "AssetJobSkip",
    "Fenced",
    "Forbidden",
    "InvalidValue",
    "Metadata",
    "NeverExpire",
    "NoContext",
    "NotFound",
    "Refused",
    "Run",
    "SourceFailed",
    "StoreConflict",
    "TargetFailed",
    "Transaction",
    "Unreachable",
    "run",
]
