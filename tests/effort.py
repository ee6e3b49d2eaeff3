"""How much the tests that kill and torture do: as little as shows something, and with WATCHER_TEST_LONG=1 as much as one has time for."""

from __future__ import annotations

import os

PATIENCE = 300.0
"""Seconds in which whatever a test waits for happens, on a machine that has much else to do."""
LONG = os.environ.get("WATCHER_TEST_LONG") == "1"


def effort(short: int, long: int) -> int:
    return long if LONG else short
