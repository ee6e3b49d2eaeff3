"""Errors of a trigger on their way from its process to the host.

TriggerError
└── TriggerFailed            the trigger raised something else, or its process broke the protocol or ended
"""

from __future__ import annotations

import traceback
from typing import Final

import structlog

from config.errors import UnknownClass
from triggers.errors import ConfigurationError, SourceBusy, SourceChanged, SourceCopied, SourceUnavailable, TriggerError
from watcher.features.isolation.wire import Frame

_KINDS: Final = (SourceBusy, SourceCopied, SourceChanged, SourceUnavailable, ConfigurationError, TriggerError)
"""The classes that the host raises again, subclasses first."""
_LONGEST_TEXT: Final = 4_000

log = structlog.get_logger()


class TriggerFailed(TriggerError):
    """A trigger in a process of its own raised something other than a `TriggerError`, or its process ended."""


def error_json(error: BaseException) -> Frame:
    """Describe an error for the host. A group of one error is described as that error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return {
        "suggestions": error.suggestions if isinstance(error, UnknownClass) else (),
        "kind": next((kind.__name__ for kind in (*_KINDS, UnknownClass) if isinstance(error, kind)), None),
        "type": type(error).__name__,
        "text": _text(error),
        "traceback": "".join(traceback.format_exception(error))[-_LONGEST_TEXT:],
    }


def error_from_json(fault: Frame, memory_mb: int) -> Exception:
    """Return what the host raises for this error: the same `TriggerError`, or `TriggerFailed`, which is also logged.

    An `UnknownClass` becomes a `ConfigurationError`. `memory_mb` is the limit that a MemoryError names.
    """
    text = str(fault.get("text"))
    kinds: dict[str, type[TriggerError]] = {kind.__name__: kind for kind in _KINDS}
    kinds[UnknownClass.__name__] = ConfigurationError
    if (kind := kinds.get(str(fault.get("kind")))) is not None:
        return kind(text)
    name = str(fault.get("type"))
    if name == MemoryError.__name__:
        text = f"{memory_mb} MB is the limit, settings.triggerer.isolation.memory_mb"
    log.error("watcher.trigger_raised", kind=name, error=text, exception=fault.get("traceback"))
    return TriggerFailed(f"the trigger raised {name}: {text}".removesuffix(": "))


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_TEXT]
    except Exception:  # noqa: BLE001  `__str__` of a plug-in's error may raise anything
        return ""
