"""What can go wrong in a trigger.

TriggerError                 a sentence for people; the host adds the watcher's name
├── ConfigurationError       does not pass by itself: a person must act (missing table, no permission)
├── SourceChanged            the position belongs to another source; `watcher rewind` decides
└── SourceUnavailable        passes by itself: network, restart, throttling; polled again with backoff
    └── SourceBusy           somebody keeps the source for himself; the watcher waits, which is no failure
"""

from __future__ import annotations


class TriggerError(Exception):
    """Base of all errors that a trigger raises on purpose; its text says what happened and names the remedy."""


class ConfigurationError(TriggerError):
    """The watcher cannot work as configured until a person changes something."""


class SourceChanged(TriggerError):
    """The stored position was made from another source than the one configured now."""


class SourceUnavailable(TriggerError):
    """The source did not answer, or asked for patience; the host tries again later."""


class SourceBusy(SourceUnavailable):
    """Somebody else keeps the source, or a part of it, for himself; the text says who. The host tries again soon."""
