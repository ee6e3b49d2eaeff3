"""The limits of what a trigger yields at once, and of the time that it takes: the same here and in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from triggers.errors import ConfigurationError

LATER: Final = 1.2
"""The factor of `poll_timeout` after which a host stops waiting: a trigger's own limit comes first, with a better message."""
_SLACK: Final = 64_000
"""Bytes by which a frame may exceed the limit of a batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchLimits:
    """The limits of one batch, `settings.triggerer.batch`."""

    max_events: int = 10_000
    max_bytes: int = 16_000_000

    @property
    def frame_bytes(self) -> int:
        return self.max_bytes + _SLACK

    def check_events(self, number: int) -> None:
        """Raise `ConfigurationError` if a batch has more events than the limit."""
        if number > self.max_events:
            raise ConfigurationError(
                f"the trigger yielded a batch of {number} events, and {self.max_events} is the limit; let it yield "
                "smaller batches, or raise settings.triggerer.batch.max_events"
            )

    def check_bytes(self, size: int) -> None:
        """Raise `ConfigurationError` if the JSON of a batch is larger than the limit."""
        if size > self.max_bytes:
            raise ConfigurationError(
                f"the trigger yielded a batch of more than {self.max_bytes} bytes; let it yield smaller batches, or raise "
                "settings.triggerer.batch.max_bytes"
            )
