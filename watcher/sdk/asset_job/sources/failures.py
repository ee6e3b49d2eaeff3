"""What goes wrong while a source is read or a table is written, often on an executor."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence

from ..errors import SourceFailed

_SENTENCE = re.compile(r"\b(?:SourceFailed|FileUnreadable|TargetFailed): (.+)")
_SQLSTATE = re.compile(r" SQLSTATE: \w+$")
_NOT_THERE = re.compile(r"No module named '(\w+)")
_OF_JAVA = re.compile(r"^: (?:\w+\.)*(\w+: .+)$", re.MULTILINE)
_PACKAGES = {
    "pyarrow": "pyarrow",
    "obstore": "obstore",
    "adbc_driver_manager": "adbc-driver-manager",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
}


def sentence_in(text: str) -> str | None:
    """The sentence of ours inside of what Spark reports of an executor: a trace, and that one more than once."""
    if found := _SENTENCE.search(text):
        return _SQLSTATE.sub("", found[1]).strip()
    lacking = _NOT_THERE.search(text)
    return _lacking([_PACKAGES[lacking[1]]]) if lacking and lacking[1] in _PACKAGES else None


def words_of(error: BaseException) -> str:
    """What went wrong, without the traces that Spark wraps around it."""
    text = f"{type(error).__name__}: {error}"
    said = _OF_JAVA.search(text) if text.startswith("Py4JJavaError") else None
    return sentence_in(text) or (_SQLSTATE.sub("", said[1]) if said else text)


def require(*modules: str) -> None:
    """Raises `SourceFailed` where Python packages are missing."""
    missing = [_PACKAGES[module] for module in modules if not _importable(module)]
    if missing:
        raise SourceFailed(_lacking(missing))


def _lacking(packages: Sequence[str]) -> str:
    return (
        f"{', '.join(packages)} missing in the Python of driver or executors: install it there, or give the job Spark's "
        "own way by spark.packages (hadoop-aws for S3, postgresql for tables)"
    )


def _importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True
