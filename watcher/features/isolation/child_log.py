"""The log of a child: its records go to the host as frames."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import structlog

from watcher.features.isolation.wire import Wire, encode

_LONGEST_RECORD: Final = 16_000
"""Bytes of a frame with a whole record."""
_LONGEST_EVENT: Final = 1_000
"""Characters of a longer record's event. Only its event and level are sent."""


def forward_records(wire: Wire, level: str) -> None:
    """Send records of structlog and of `logging` to the host; of libraries, those from level warning up."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    forwarder = _Forwarder(wire)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            forwarder.process,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    handler = _ForwardingHandler(forwarder.send)
    logging.basicConfig(handlers=[handler], level=max(threshold, logging.WARNING), force=True)


class _Forwarder:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def process(self, _logger: Any, _method: str, record: Mapping[str, Any]) -> NoReturn:
        """Send a record of structlog, and drop it here."""
        self.send({name: value if _is_plain(value) else str(value) for name, value in record.items()})
        raise structlog.DropEvent

    def send(self, record: Mapping[str, Any]) -> None:
        content = encode({"log": record})
        if len(content) > _LONGEST_RECORD:
            content = encode({"log": {"level": record["level"], "event": record["event"][:_LONGEST_EVENT]}})
        self._wire.send_content(content)


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | None) or (isinstance(value, float) and math.isfinite(value))


class _ForwardingHandler(logging.Handler):
    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        fields = {"level": record.levelname.lower(), "event": record.getMessage(), "logger": record.name}
        if record.exc_info:
            fields["exception"] = logging.Formatter().formatException(record.exc_info)
        self._send(fields)
