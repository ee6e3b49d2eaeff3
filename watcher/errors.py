"""What can go wrong in the daemon as a whole.

WatcherError
└── StartRefused    the daemon does not start; the sentence names the remedy (exit code 1)
"""

from __future__ import annotations


class WatcherError(Exception):
    """Base of the daemon's own errors."""


class StartRefused(WatcherError):
    """Something that must be right before the daemon starts is not."""
