"""What can go wrong in a trigger: the errors it raises, and the findings of its checks.

TriggerError                 a sentence for people; the host adds the watcher's name
├── ConfigurationError       does not pass by itself: a person must act (missing table, no permission)
├── SourceChanged            the position belongs to another source; `watcher rewind` decides
│   └── SourceCopied         copies lie in the place of what was handled; a finding, too, as long as nobody has decided
└── SourceUnavailable        passes by itself: network, restart, throttling; polled again with backoff
    └── SourceBusy           another program keeps the source for itself; the watcher waits, which is no failure
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self


class TriggerError(Exception):
    """Base of all errors that a trigger raises on purpose; its text says what happened and names the remedy."""


class ConfigurationError(TriggerError):
    """The watcher cannot work as configured until a person changes something."""


class SourceChanged(TriggerError):
    """The stored position was made from another source than the one configured now."""


class SourceCopied(SourceChanged):
    """Much of what was handled was replaced by copies. The host shows it as the finding `copied`, too.

    The remedy follows the first semicolon of the text.
    """

    @property
    def finding(self) -> Finding:
        message, _, remedy = str(self).partition("; ")
        return Finding.warning("copied", message, remedy)


class SourceUnavailable(TriggerError):
    """The source did not answer, or asked for patience; the host tries again later."""


class SourceBusy(SourceUnavailable):
    """Another program keeps the source, or a part of it, for itself; the text says which. The host tries again soon."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result of a start-up check. `message` says what was found, `remedy` what to do about it ('' when ok)."""

    check: str
    level: Literal["ok", "info", "warning", "error"]
    message: str
    remedy: str = ""

    @classmethod
    def ok(cls, check: str, message: str) -> Self:
        return cls(check=check, level="ok", message=message)

    @classmethod
    def info(cls, check: str, message: str, remedy: str) -> Self:
        return cls(check=check, level="info", message=message, remedy=remedy)

    @classmethod
    def warning(cls, check: str, message: str, remedy: str) -> Self:
        return cls(check=check, level="warning", message=message, remedy=remedy)

    @classmethod
    def error(cls, check: str, message: str, remedy: str) -> Self:
        return cls(check=check, level="error", message=message, remedy=remedy)


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raise `ConfigurationError` with a sentence for each error among `findings`, if there is one."""
    errors = [f"{each.message}; {each.remedy}".removesuffix("; ") for each in findings if each.level == "error"]
    if errors:
        raise ConfigurationError(" · ".join(errors))
