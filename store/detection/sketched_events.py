"""Conditions on stored events by their sketches."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, and_, or_

from store.database.schema import asset_event
from store.detection.sketches import bits_of

_e: Final = asset_event.c


def has_bits(name: Any) -> ColumnElement[bool]:
    """Return the condition that an event with few names may name this one."""
    bits, more_bits = bits_of(name)
    more = or_(_e.sketch_more_bits.is_(None), _e.sketch_more_bits.bitwise_and(more_bits) == more_bits)
    return and_(_e.sketch_bits.bitwise_and(bits) == bits, more)
