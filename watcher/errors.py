"""What can go wrong in the daemon as a whole.

WatcherError
├── StartRefused    the daemon does not start; the sentence names the remedy (exit code 1)
└── PartEnded       a part of the running daemon ended without being told to (exit code 1)
"""

from __future__ import annotations


class WatcherError(Exception):
    """Base of the daemon's own errors."""


class StartRefused(WatcherError):
    """Something that must be right before the daemon starts is not."""


class PartEnded(WatcherError):
    """A part of the daemon is not running any more, and nobody asked it to stop: the process must not go on half alive."""
