"""Makes of a list of features what the composition root hands to the kernel: each hook with all that the features bring for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from watcher.feature import Feature
from watcher.installed import Installed, resolve

if TYPE_CHECKING:  # commands that only open the database read the list, too
    from sqlalchemy import Table

    from store.catalog.catalog_sync import Applies
    from store.database.feature_tables import FeatureTables
    from store.detection.interest import EventHooks
    from store.processes.cleanup import Chore, KeptEvents
    from store.runs.tries.changed_items import ItemHooks
    from watcher.configuration.declarations import Declares
    from watcher.triggerer.control import CountCleaned


def tables(features: Sequence[Feature]) -> Sequence[Table]:
    """Return the kernel's tables and those of the features."""
    from store.database.schema import kernel_tables  # noqa: PLC0415  see above

    return [*kernel_tables(), *(table for each in features if each.tables for table in resolve(each.tables))]


def feature_tables(features: Installed) -> Sequence[FeatureTables]:
    """Return the tables of the features of other distributions, as an upgrade of the database needs them.

    Raises `FeatureUnusable` for one that cannot be imported.
    """
    upgrades = features.of_others.resolved("upgrade")
    if not upgrades:
        return ()
    from store.database.feature_tables import FeatureTables  # noqa: PLC0415  see above

    versions = {each.name: each.tables_version for each in features.features}
    return [FeatureTables(feature=name, version=versions[name], upgrade=made) for name, made in upgrades.items()]


def event_hooks(features: Sequence[Feature]) -> EventHooks:
    """Return what the features do in the transactions of events."""
    from store.detection.interest import EventHooks  # noqa: PLC0415  see above

    return EventHooks(features={each.name: resolve(each.after_events) for each in features if each.after_events})


def item_hooks(features: Sequence[Feature]) -> ItemHooks:
    """Return what the features know of items of runs that are not as their events say."""
    from store.runs.tries.changed_items import ItemHooks  # noqa: PLC0415  see above

    return ItemHooks(features={each.name: resolve(each.changed_items) for each in features if each.changed_items})


def declarations(features: Sequence[Feature]) -> Mapping[str, Declares]:
    """Return what the features write of a configuration, by their names."""
    declares = {each.name: _always(resolve(each.applies)) for each in features if each.applies}
    made = {each.name: resolve(each.declares) for each in features if each.declares}
    both = declares | made
    return {each.name: both[each.name] for each in features if each.name in both}


def _always(applies: Applies) -> Declares:
    return lambda _configuration: applies


def count_cleaned(features: Sequence[Feature]) -> CountCleaned | None:
    """Return what counts files that were moved or deleted; None: no feature does that."""
    counts: list[CountCleaned] = [resolve(each.count_cleaned) for each in features if each.count_cleaned]
    return counts[0] if counts else None


def kept_events(features: Sequence[Feature]) -> KeptEvents:
    """Return the events that the clean-up leaves for the features."""
    return [resolve(each.keeps_events) for each in features if each.keeps_events]


def chores(features: Sequence[Feature]) -> Sequence[Chore]:
    """Return what the clean-up does for the features."""
    return [chore for each in features if each.chores for chore in resolve(each.chores)]
