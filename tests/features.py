"""What the features of this distribution bring, as a daemon gets it."""

from __future__ import annotations

from typing import Final

from watcher import assembly
from watcher.installed import installed, resolve

FEATURES: Final = installed().features
HOOKS: Final = assembly.event_hooks(FEATURES)
ITEM_HOOKS: Final = assembly.item_hooks(FEATURES)
APPLIED: Final = {each.name: resolve(each.applies) for each in FEATURES if each.applies}
DECLARATIONS: Final = assembly.declarations(FEATURES)
KEPT_EVENTS: Final = assembly.kept_events(FEATURES)
TABLES: Final = assembly.tables(FEATURES)
CHORES: Final = assembly.chores(FEATURES)
