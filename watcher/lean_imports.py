"""Libraries, without what they import wherever it is installed and what nothing here uses: a sixth of many a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def import_leanly() -> None:
    """Before anything else imports them: structlog without rich's tracebacks, httpx without its command line."""
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # how Python says that a module is not to be imported
    with _missing("rich"):
        import structlog  # noqa: F401, PLC0415


@contextmanager
def _missing(name: str) -> Iterator[None]:
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
