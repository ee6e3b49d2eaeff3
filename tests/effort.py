"""The effort of tests that kill and torture: as little as shows something, or as much as there is time for."""

from __future__ import annotations

import os
import secrets

PATIENCE = 300.0
"""Seconds in which whatever a test waits for happens, even on a busy machine."""
SHARE = float(os.environ.get("WATCHER_TEST_LONG", "0"))
"""The share of the way from the short form to the long one. WATCHER_TEST_LONG=1 is the long form."""
LONG = SHARE > 0
SEED = int(os.environ.get("WATCHER_TEST_SEED") or secrets.randbits(32))
"""The seed of everything random. It is shown with a failure and in the table of `make torture`."""


def effort(short: int, long: int) -> int:
    return short + round((long - short) * SHARE)
