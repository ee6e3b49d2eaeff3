"""What can go wrong in the daemon as a whole."""

from __future__ import annotations


class StartRefused(Exception):
    """Something that must be right before the daemon starts is not; the sentence names the remedy (exit code 1)."""
