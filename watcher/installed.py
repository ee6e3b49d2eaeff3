"""The features that a process has: those of this distribution, and installed ones of others that the configuration names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from config.errors import UnknownClass
from config.models.settings import KnownSettings, Settings
from config.names import did_you_mean
from watcher.feature import CONTRACT, Feature, Path
from watcher.features import BUILT_IN

ENTRY_POINTS: Final = "asset_watcher.features"
"""The group in which a distribution names its features: the name, and the dotted path of the `Feature`."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Features in the order of the list. `unavailable` are those that were named and cannot be used, each with a sentence."""

    features: Sequence[Feature]
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def is_built_in(self, feature: Feature) -> bool:
        """Whether the feature comes with the daemon. Others keep to prefixes of their own, and their failures end nothing."""
        return feature.name in BUILT_IN

    def configured(self, settings: Settings) -> Installed:
        """Return the features that have something to do with these settings: nothing of the others is on the way."""
        parts = {name: resolve(path) for name, path in self.paths("settings").items()}
        used = [each for each in self.features if each.name not in parts or parts[each.name].is_configured(settings)]
        return Installed(features=used, unavailable=self.unavailable)

    def words(self, hook: str) -> Mapping[str, Path]:
        """Return the words that a hook gets from all features, such as `triggers`. Raises `ValueError` if two bring one word."""
        owners: dict[str, str] = {}
        paths: dict[str, Path] = {}
        for feature in self.features:
            for word, path in getattr(feature, hook).items():
                if word in owners:
                    raise ValueError(
                        f"the features {owners[word]} and {feature.name} both bring {word!r}; leave one out"
                    )
                owners[word], paths[word] = feature.name, path
        return paths

    def submitters(self) -> Mapping[str, Path]:
        """Return the submitters by their words, each as the last feature that refines it has it."""
        refined = {word: path for feature in self.features for word, path in feature.refines.items()}
        words = self.words("submitters")
        return {word: refined.get(word, path) for word, path in words.items()}

    def paths(self, hook: str) -> Mapping[str, Path]:
        """Return what each feature names for a hook, such as `routes`, by the feature's name, without those that bring nothing."""
        named = {feature.name: getattr(feature, hook) for feature in self.features}
        return {name: path for name, path in named.items() if path is not None}


@cache
def installed(names: tuple[str, ...] = ()) -> Installed:
    """Return the features of this distribution, and those of others with these names.

    Raises `UnknownClass` for a name that no installed distribution has, and for a feature that cannot be imported.
    """
    features: list[Feature] = [resolve(f"watcher.features.{name}.feature.FEATURE") for name in BUILT_IN]
    unavailable: dict[str, str] = {}
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)} if names else {}
    for name in names:
        if name not in points:
            raise UnknownClass(f"no installed feature is called `{name}`; install it, or {did_you_mean(name, points)}")
        feature = _loaded(name, points[name])
        if feature.contract == CONTRACT:
            features.append(feature)
        else:
            unavailable[name] = (
                f"the feature `{name}` is written for contract {feature.contract} and this daemon has {CONTRACT}; "
                "it is left out until the one or the other is upgraded"
            )
    return Installed(features=features, unavailable=unavailable)


def _loaded(name: str, point: EntryPoint) -> Feature:
    try:
        feature = point.load()
    except (Exception, SystemExit) as error:  # its author's code
        raise UnknownClass(f"the feature `{name}` cannot be imported ({error}); correct it") from error
    if not isinstance(feature, Feature) or feature.name != name:
        raise UnknownClass(f"`{point.value}` is not a `Feature` with the name `{name}`; correct the entry point")
    return feature


def resolve(path: Path) -> Any:
    """Return what a dotted path means. Raises what importing its module raises, and AttributeError."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def known_settings(features: Sequence[str]) -> KnownSettings:
    """Return the keys of `settings`, with those of the features that come with the daemon and of these others."""
    return _known_settings(tuple(features))


@cache
def _known_settings(features: tuple[str, ...]) -> KnownSettings:
    have = installed(features)
    parts = tuple(resolve(path) for path in have.paths("settings").values())
    return KnownSettings(parts=parts, unavailable=have.unavailable)
