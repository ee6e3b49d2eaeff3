"""The sketches of events that older releases stored are made by the clean-up."""

from __future__ import annotations

from typing import Final

from store.features.explain import item_sketches
from store.processes.cleanup import Chore

MOST_SKETCHES: Final = 100_000
"""The events of which one clean-up makes sketches, in some ten seconds."""
CHORES: Final = (Chore(event="cleanup.sketches_made", some=item_sketches.make, most=MOST_SKETCHES),)
