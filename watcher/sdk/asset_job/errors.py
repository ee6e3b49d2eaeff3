"""What the SDK raises. Each error is one sentence for people.

AssetJobError
├── NoContext          the program was not started by Asset Watcher
├── InvalidValue       the value is not JSON, or is refused by the store
├── SourceFailed       a file or table cannot be read as it was asked for
├── TargetFailed       a table cannot be written
├── Unreachable        the daemon did not answer for ten minutes
└── Refused            the daemon answered no; nothing was written
    ├── Fenced         the try is superseded, stopped or ended: it may change nothing any more
    ├── StoreConflict  the entry changed meanwhile, or is written by its watcher only
    ├── Forbidden      the asset is none of the job's inlets and outlets, or the token is not accepted
    └── NotFound       there is no such asset, key or task instance
AssetJobSkip           raised by `r.skip()`; ends the try as skipped
"""

from __future__ import annotations


class AssetJobError(Exception):
    """Base of all errors of the SDK."""


class NoContext(AssetJobError):
    """The program was not started by Asset Watcher."""


class InvalidValue(AssetJobError):
    """The value cannot be stored."""


class SourceFailed(AssetJobError):
    """A file or table cannot be read as it was asked for; the sentence names it."""


class TargetFailed(AssetJobError):
    """A table cannot be written; the sentence names it."""


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
