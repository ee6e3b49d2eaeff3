"""The job SDK of Asset Watcher: a PySpark job learns about its run, reads what is new, uses the stores, and reports.

    from asset_job import run

    with run() as r:
        for file in r.triggering_asset_events.files(): ...
        r.asset_store["orders"].set("rows_loaded", 12)

Entering the block claims the try: if two processes run the same try, the second exits with code 75 before any Spark work.
Leaving the block reports success; an exception reports failure and propagates. Calls are repeated while the daemon is away.
Each write carries one Idempotency-Key, so that it takes effect once. The package needs Python 3.11 and nothing else.

`errors` draws the tree of the exceptions.
"""

from asset_job.errors import (
    AssetJobError,
    AssetJobSkip,
    Fenced,
    Forbidden,
    InvalidValue,
    NoContext,
    NoRetry,
    NotFound,
    Refused,
    SourceFailed,
    StoreConflict,
    TargetFailed,
    Unreachable,
)
from asset_job.events import Alias, Asset, AssetEvent, Metadata
from asset_job.run_context import run
from asset_job.runs import Run
from asset_job.stores import NEVER_EXPIRE, NeverExpire
from asset_job.transactions import Transaction

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
    "NoRetry",
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
