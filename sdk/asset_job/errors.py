"""The exceptions of the SDK, and how to find their sentences in what Spark reports. Each message is one sentence for people.

AssetJobError
├── NoContext          the program was not started by Asset Watcher
├── InvalidValue       the value is not JSON, or is refused by the store
├── NoRetry            the run fails for good: another try would meet the same
├── SourceFailed       a file or table cannot be read as requested
│   ├── FileUnreadable the file was deleted or overwritten, or may not be read: it can come back
│   └── SourceInvalid  what a file or table holds cannot be read as requested (also NoRetry)
│       ├── FileInvalid      the file as a whole: packing, format, header, a column's type or name
│       └── BadRecordFound   one record, in a read that keeps no bad records
├── TargetFailed       a table cannot be written
├── Unreachable        the daemon did not answer for ten minutes
└── Refused            the daemon refused the call; nothing was written
    ├── Fenced         the try is superseded, stopped or ended: it may not change anything any more
    ├── StoreConflict  the entry has changed since it was read, or only its watcher may write it
    ├── Forbidden      the asset is not among the job's inlets and outlets, or the token is not accepted
    └── NotFound       there is no such asset, key or task instance
AssetJobSkip           raised by `r.skip()`; ends the try as skipped
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence


class AssetJobError(Exception):
    """Base of all errors of the SDK."""


class NoContext(AssetJobError):
    """The program was not started by Asset Watcher."""


class InvalidValue(AssetJobError):
    """The value cannot be stored."""


class SourceFailed(AssetJobError):
    """A file or table cannot be read as requested; the sentence names it."""


class FileUnreadable(SourceFailed):
    """The file was deleted or overwritten, or may not be read."""


class NoRetry(AssetJobError):
    """Another try would meet the same, so the run fails for good, and no retry is used."""


class SourceInvalid(SourceFailed, NoRetry):
    """What a file or table holds cannot be read as requested."""


class FileInvalid(SourceInvalid):
    """A file as a whole is not what it should be: its packing, format, header, or a column's type or name."""


class BadRecordFound(SourceInvalid):
    """One record cannot be read as the schema says, and the read keeps no bad records."""


class TargetFailed(AssetJobError):
    """A table cannot be written; the sentence names it."""


class Unreachable(AssetJobError):
    """The daemon did not answer for ten minutes."""


class Refused(AssetJobError):
    """The daemon refused the call; nothing was written."""


class Fenced(Refused):
    """The try is superseded, stopped or ended: it may not change anything any more."""


class StoreConflict(Refused):
    """The entry has changed since it was read, or only its watcher may write it."""


class Forbidden(Refused):
    """The asset is not among the job's inlets and outlets, or the token is not accepted."""


class NotFound(Refused):
    """There is no such asset, key or task instance."""


class AssetJobSkip(Exception):
    """Ends the try as skipped: no outlet event, no retry."""


_GONE = re.compile(r"(?:\bFileUnreadable: (.+?)|(\S+)) was (deleted|overwritten) since it was detected")
_FINAL = "NoRetry|SourceInvalid|FileInvalid|BadRecordFound"
_SENTENCE = re.compile(rf"\b(?:SourceFailed|FileUnreadable|TargetFailed|{_FINAL}): (.+)")
_NO_RETRY = re.compile(rf"\b(?:{_FINAL}): .+")
_SQLSTATE = re.compile(r" SQLSTATE: \w+$")
_MISSING_MODULE = re.compile(r"No module named '(\w+)")
_JAVA_EXCEPTION = re.compile(r"^: (?:\w+\.)*(\w+: .+)$", re.MULTILINE)
_WORKER_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*([^ \t\n].*)")
"""The traceback of a function of the job itself that failed in a task."""
_WRAPPER = re.compile(r"\[FAILED_READ_FILE\.NO_HINT|\[TASK_WRITE_FAILED|Job aborted")
"""Spark's exceptions that only say where something failed."""
_LINES_OF_A_CAUSE = 4
_REQUIRED = {"pyarrow", "obstore", "adbc_driver_manager", "adbc_driver_postgresql"}


def sentence_from(text: str) -> str | None:
    """The SDK's sentence in Spark's report of a failed task, which contains the traceback; None if there is none."""
    if match := _SENTENCE.search(text):
        return _SQLSTATE.sub("", match[1]).strip()
    missing = _MISSING_MODULE.search(text)
    return _missing_packages([missing[1]]) if missing and missing[1] in _REQUIRED else None


def gone_file(error: BaseException) -> tuple[str, bool] | None:
    """The name of the file that was not found as its event says, and whether another version is at its place. None: no file was gone.

    The error is a `FileUnreadable`, Spark reports one of a task, or a job that reads by itself says so in the same words.
    """
    match = _GONE.search(f"{type(error).__name__}: {error}")
    return None if match is None else (match[1] or match[2], match[3] == "overwritten")


def is_final(error: BaseException) -> bool:
    """Whether another try would meet the same: the error is a `NoRetry`, or Spark reports one of a task."""
    return isinstance(error, NoRetry) or _NO_RETRY.search(str(error)) is not None


def describe(error: BaseException) -> str:
    """What failed, without the traces that Spark wraps around it."""
    text = f"{type(error).__name__}: {error}"
    java = _JAVA_EXCEPTION.search(text) if text.startswith("Py4JJavaError") else None
    if type(error).__name__ == "PythonException" and (worker := _WORKER_TRACEBACK.search(text)):
        return sentence_from(text) or worker[1]
    return sentence_from(text) or _innermost(error) or (_SQLSTATE.sub("", java[1]) if java else text)


def _innermost(error: BaseException) -> str | None:
    """The cause inside an exception of Spark that only wraps it, with the file that the wrapper names; None for others."""
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    wrapper = "" if cause is None else str(cause.getMessage()).partition("\n")[0]
    if cause is None or not _WRAPPER.search(wrapper):
        return None
    while cause.getCause() is not None:
        cause = cause.getCause()
    lines = [line.strip() for line in str(cause.getMessage()).splitlines()[:_LINES_OF_A_CAUSE]]
    sentence = _SQLSTATE.sub("", f"{cause.getClass().getSimpleName()}: {' '.join(lines)}")
    file = re.search(r"reading file (\S+?)\.? ", f"{wrapper} ")
    return f"{sentence}, in {file[1]}" if file and file[1] not in sentence else sentence


def require(*modules: str) -> None:
    """Raise `SourceFailed` if Python packages are missing."""
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            missing.append(module)
    if missing:
        raise SourceFailed(_missing_packages(missing, sys.executable))


def require_on_driver(module: str, table_format: str) -> None:
    """Raise `TargetFailed` if the driver's Python lacks the package that commits to tables of a format."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise TargetFailed(
            f"{module} is missing in the driver's Python, where it commits to tables of the format {table_format}: "
            f"`{sys.executable} -m pip install {module}`"
        ) from None


def _missing_packages(modules: Sequence[str], python: str = "python") -> str:
    """What to do about missing modules. `python` is the interpreter that lacks them, where it is known."""
    names = [module.replace("_", "-") for module in modules]
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{' and '.join(names)} {verb} missing in the Python of driver or executors, where `asset_job` reads and writes: "
        f"`{python} -m pip install {' '.join(names)}`"
    )
