"""What can go wrong in the daemon as a whole; both end it with exit code 1."""

from __future__ import annotations


class StartRefused(Exception):
    """Something that must be right before the daemon starts is not; the sentence names the remedy."""


class ServiceEnded(Exception):
    """A part of the daemon is not running any more, and nobody asked it to stop: the process must not go on half alive."""
