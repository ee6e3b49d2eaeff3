"""The seeds that are played each time: those that have found something, and what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEPT: Final[Mapping[int, str]] = {}
