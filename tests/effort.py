"""How much the tests that kill and torture do: as little as shows something, or as much as one has time for."""

from __future__ import annotations

import os
import secrets

PATIENCE = 300.0
"""Seconds in which whatever a test waits for happens, on a machine that has much else to do."""
SHARE = float(os.environ.get("WATCHER_TEST_LONG", "0"))
"""Of the way from the short form to the long one: WATCHER_TEST_LONG=1 is all of it."""
LONG = SHARE > 0
SEED = int(os.environ.get("WATCHER_TEST_SEED") or secrets.randbits(32))
"""Of everything that is left to chance; shown with a failure and in the table of `make torture`."""


def effort(short: int, long: int) -> int:
    return short + round((long - short) * SHARE)
