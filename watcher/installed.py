"""The features that a process has: those of this distribution, and installed ones of others that the configuration names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from config.errors import UnknownClass
from config.models.settings import KnownSettings, Settings, SettingsPart
from config.names import did_you_mean
from store.errors import StoreError
from watcher.errors import FeatureUnusable, StartRefused
from watcher.feature import CONTRACT, OPEN, Feature, Path
from watcher.features import BUILT_IN

ENTRY_POINTS: Final = "asset_watcher.features"
"""The group in which a distribution names its features: the name, and the dotted path of the `Feature`."""
NAME: Final = re.compile("[a-z][a-z0-9]{0,31}")
"""The name of a feature of another distribution: one word, because it stands in paths of the API and in names of tables."""
KERNEL: Final[Mapping[str, Mapping[str, Path]]] = {
    "commands": {
        "run": "watcher.cli.run.top",
        "db": "watcher.cli.administration.db",
        "state-store": "watcher.cli.administration.state_store",
    }
}
"""The words that there are without any feature, by the hook to which features add theirs."""
_DATA: Final = frozenset({"name", "contract", "needs", "tables_version", "help_groups"})
"""The members of a feature that are no hooks."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Features in the order of the list. `unavailable` are those that were named and cannot be used, each with a sentence."""

    features: Sequence[Feature]
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def is_built_in(self, feature: Feature) -> bool:
        """Whether the feature comes with the daemon. Others keep to prefixes of their own, and their failures end nothing."""
        return feature.name in BUILT_IN

    @property
    def of_others(self) -> Installed:
        """The features of other distributions."""
        return Installed(features=[each for each in self.features if not self.is_built_in(each)])

    def configured(self, settings: Settings) -> Installed:
        """Return the features that have something to do with these settings: nothing of the others is on the way."""
        parts = self.resolved("settings")
        used = [each for each in self.features if each.name not in parts or parts[each.name].is_configured(settings)]
        return Installed(features=used, unavailable=self.unavailable)

    def words(self, hook: str) -> Mapping[str, Path]:
        """Return the words of a hook, such as `commands`: the kernel's and those of all features. Raises `ValueError` if two bring one."""
        paths = dict(KERNEL.get(hook, {}))
        owners: dict[str, str] = {}
        for feature in self.features:
            for word, path in getattr(feature, hook).items():
                if word in paths:
                    own = f"the daemon itself and the feature {feature.name}"
                    both = f"the features {owners[word]} and {feature.name}" if word in owners else own
                    raise ValueError(f"{both} both bring {word!r} as one of their {hook}; leave one out")
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

    def resolved(self, hook: str) -> Mapping[str, Any]:
        """Return what stands behind the path that each feature names for a hook, by the feature's name.

        Raises `FeatureUnusable` for a feature of another distribution that cannot be imported.
        """
        made = {}
        for name, path in self.paths(hook).items():
            with naming(name):
                made[name] = resolve(path)
        return made


@cache
def installed(names: tuple[str, ...] = ()) -> Installed:
    """Return the features of this distribution, and those of others with these names.

    Raises `UnknownClass` for a name that no installed distribution has, and for a feature that breaks its contract.
    """
    features: list[Feature] = [resolve(f"watcher.features.{name}.feature.FEATURE") for name in BUILT_IN]
    unavailable: dict[str, str] = {}
    points: Sequence[EntryPoint] = [*entry_points(group=ENTRY_POINTS)] if names else ()
    for name in dict.fromkeys(names):
        try:
            features.append(_loaded(name, _entry_point(name, points)))
        except _OtherContract as other:
            unavailable[name] = (
                f"the feature `{name}` {other} and this daemon has contract {CONTRACT}; "
                "it is left out until the one or the other is upgraded"
            )
    known = {*BUILT_IN, *names}
    for feature in features[len(BUILT_IN) :]:
        if missing := sorted(feature.needs - known):
            raise UnknownClass(f"the feature `{feature.name}` needs `{missing[0]}`; add that to settings.features")
    have = Installed(features=features, unavailable=unavailable)
    try:
        have.words("commands")
    except ValueError as error:
        raise UnknownClass(str(error)) from None
    return have


class _OtherContract(Exception):
    """A feature is written for another contract. The text goes on after its name."""


def _entry_point(name: str, points: Sequence[EntryPoint]) -> EntryPoint:
    if name in BUILT_IN:
        raise UnknownClass(f"`{name}` is one of the daemon's own features, which are always there; leave it out")
    if not NAME.fullmatch(name):
        raise UnknownClass(f"`{name}` is no name of a feature: it is one word of a-z and 0-9, with at most 32 of them")
    named = [point for point in points if point.name == name]
    if not named:
        remedy = did_you_mean(name, {point.name for point in points})
        raise UnknownClass(f"no installed feature is called `{name}`; install it, or {remedy}")
    if len({point.value for point in named}) > 1:
        raise UnknownClass(f"two installed distributions have a feature called `{name}`; uninstall one of them")
    return named[0]


def _loaded(name: str, point: EntryPoint) -> Feature:
    try:
        feature = point.load()
    except (Exception, SystemExit) as error:  # its author's code
        if isinstance(error, TypeError) and "Feature.__init__()" in str(error):  # a later contract has other members
            raise _OtherContract(f"uses what another contract has ({error})") from error
        raise UnknownClass(f"the feature `{name}` cannot be imported ({error}); correct it") from error
    if not isinstance(feature, Feature) or feature.name != name:
        raise UnknownClass(f"`{point.value}` is not a `Feature` with the name `{name}`; correct the entry point")
    if feature.contract != CONTRACT:
        raise _OtherContract(f"is written for contract {feature.contract}")
    if closed := sorted(hook for hook in hooks(feature) if hook not in OPEN):
        raise UnknownClass(
            f"the feature `{name}` brings `{closed[0]}`, which only the daemon's own features may do by now; it may bring "
            + ", ".join(f"`{hook}`" for hook in sorted(OPEN))
        )
    if (feature.upgrade is None) is not (feature.tables_version < 1):
        raise UnknownClass(f"the feature `{name}` must have `upgrade` and a `tables_version` from 1 on, or neither")
    return feature


def hooks(feature: Feature) -> Mapping[str, Any]:
    """Return what the feature brings, by the hook."""
    return {
        each.name: value
        for each in fields(feature)
        if each.name not in _DATA and (value := getattr(feature, each.name))
    }


def resolve(path: Path) -> Any:
    """Return what a dotted path means. Raises what importing its module raises, and AttributeError."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn what code of a feature raises into one sentence that names it: `FeatureUnusable`.

    What a start check may raise passes unchanged, and so does all that the daemon's own features raise.
    """
    try:
        yield
    except (StartRefused, StoreError):
        raise
    except Exception as error:
        if name in BUILT_IN:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise FeatureUnusable(
            f"the feature {name} has failed ({reason}); correct it, or take it out of settings.features"
        ) from error


def known_settings(features: Sequence[str]) -> KnownSettings:
    """Return the keys of `settings`, with those of the features that come with the daemon and of these others.

    Raises `UnknownClass` for a feature that cannot be used, or whose keys another one has.
    """
    return _known_settings(tuple(features))


@cache
def _known_settings(features: tuple[str, ...]) -> KnownSettings:
    have = installed(features)
    try:
        parts = have.resolved("settings")
        for name, part in ((name, part) for name, part in parts.items() if name not in BUILT_IN):
            _check_part(name, part)
        known = KnownSettings(parts=tuple(parts.values()), unavailable=have.unavailable)
        _ = known.model  # which refuses a key that two parts have
    except (FeatureUnusable, ValueError) as error:
        raise UnknownClass(str(error)) from error
    return known


def _check_part(name: str, part: Any) -> None:
    if not (isinstance(part, type) and issubclass(part, SettingsPart) and [*part.model_fields] == [name]):
        raise ValueError(
            f"the settings of the feature {name} must be a `SettingsPart` with the one key `{name}`; correct it"
        )
