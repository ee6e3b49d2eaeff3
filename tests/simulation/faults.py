"""Planted faults: one for each promise of the product, to be found by the histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of the product, and the promise that it breaks."""

    promise: str
    plant: Callable[[], None]


FAULTS: Final[Mapping[str, Fault]] = {}
