"""The features that a process has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from watcher.feature import Feature, Path
from watcher.features import BUILT_IN


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Features in the order of the list."""

    features: Sequence[Feature]

    def words(self, hook: str) -> Mapping[str, Path]:
        """Return the words that a hook gets from all features, such as `planners`."""
        return {word: path for feature in self.features for word, path in getattr(feature, hook).items()}

    def paths(self, hook: str) -> Mapping[str, Path]:
        """Return what each feature names for a hook, such as `step`, by the feature's name, without those that bring nothing."""
        named = {feature.name: getattr(feature, hook) for feature in self.features}
        return {name: path for name, path in named.items() if path is not None}


@cache
def installed() -> Installed:
    """Return the features of this distribution."""
    return Installed(features=[resolve(f"watcher.features.{name}.feature.FEATURE") for name in BUILT_IN])


def resolve(path: Path) -> Any:
    """Return what a dotted path means. Raises what importing its module raises, and AttributeError."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
