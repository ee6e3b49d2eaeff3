"""What goes wrong while a table is written."""

from __future__ import annotations

from ..errors import AssetJobError


class TargetFailed(AssetJobError):
    """The table cannot be written; the sentence names it."""
