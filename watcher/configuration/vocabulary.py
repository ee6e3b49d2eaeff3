"""The classes that a configuration names: registered ones, and the user's plug-ins by dotted path."""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from config.errors import UnknownClass
from config.names import Isolation
from config.vocabulary import ForeignModel, Spelling, TriggerKind, Vocabulary
from triggers.base import BaseConnection, BaseEventTrigger, JsonValue
from triggers.options import facts_of
from watcher.host.plugins import NO_ISOLATION, WatermarkDescription, add_to_import_path, check_options, plugin_class
from watcher.installed import installed, known_settings
from watcher.submit.base import Submitter

if TYPE_CHECKING:
    from store.catalog.watchers import WatcherRow

TRIGGERS: Final = installed().words("triggers")
"""The dotted path of each class. Only named classes are imported, because each brings the client of its source along."""
SPELLINGS: Final = {
    name: Spelling(key=spelled.key, value=spelled.value, trigger=spelled.trigger)
    for feature in installed().features
    for name, spelled in feature.spellings.items()
}
"""Other ways to write a trigger, by the name that is written."""
CONNECTIONS: Final = installed().words("connections")
SUBMITTERS: Final = installed().submitters()
ValueT = TypeVar("ValueT")
_GAUGE: Final = re.compile("[a-z][a-z0-9_]*")


class ForeignClasses(Protocol):
    """Answers for classes of third parties, which this process does not import. It may block."""

    def prepare(self, plugins: Path, hidden: frozenset[str]) -> None:
        """Set where plug-ins are, and the variables of the environment that they do not see."""

    def trigger(self, path: str, registered: Sequence[str]) -> TriggerKind:
        """Return what the YAML of a watcher with this class must hold. Raises `UnknownClass`; `registered` may be meant."""

    def connection(self, name: str, registered: Sequence[str]) -> ForeignModel:
        """Return the model of a connection. Raises `UnknownClass`."""

    def describe(self, trigger: str, watermark: JsonValue) -> tuple[str, Mapping[str, float]]:
        """Describe a watermark, see `BaseEventTrigger.describe`. Raises `UnknownClass`."""


def vocabulary(foreign: ForeignClasses | None = None) -> Vocabulary:
    """Return the registered names. A dotted path means a class on `plugins_dir`, or an installed one.

    Triggers and connections of third parties are not imported: `foreign` answers for them. Without it, triggers in processes of
    their own are refused, and connections of third parties are imported.
    """

    def add_plugins(folder: Path, hidden: frozenset[str] = frozenset()) -> None:
        add_to_import_path(folder)  # for store backends and submitters
        if foreign is not None:
            foreign.prepare(folder, hidden)

    return Vocabulary(
        trigger=lambda name, isolation: _kind_of(name, isolation, foreign),
        triggers=_Registered(TRIGGERS, lambda name: _kind(trigger_class(name))),
        connection=lambda name: _connection_model(name, foreign),
        connections=_Registered(CONNECTIONS, connection_class),
        submitter=lambda name: submitter_class(name).Options,
        refusals=lambda name, spark, options: submitter_class(name).refusals(spark, options),
        submitters=_Registered(SUBMITTERS, lambda name: submitter_class(name).Options),
        settings=known_settings,
        add_plugins=add_plugins,
        spellings=SPELLINGS,
    )


@dataclass(frozen=True)
class _Registered(Mapping[str, ValueT]):
    """The answers of registered classes. Each class is imported and asked when it is needed."""

    paths: Mapping[str, str]
    ask: Callable[[str], ValueT]

    def __getitem__(self, name: str) -> ValueT:
        return self.ask(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def _kind_of(name: str, isolation: Isolation | None, foreign: ForeignClasses | None) -> TriggerKind:
    usual = "process" if _is_foreign(name) else "none"
    if (isolation or usual) == "none":
        return _kind(trigger_class(name))
    path = trigger_path(name)
    if foreign is None:
        raise UnknownClass(f"`{name}` needs a process of its own; {NO_ISOLATION}")
    return foreign.trigger(path, tuple(TRIGGERS))


def _connection_model(name: str, foreign: ForeignClasses | None) -> type[BaseConnection] | ForeignModel:
    if foreign is None or name in CONNECTIONS or "." not in name:
        return connection_class(name)
    return foreign.connection(name, tuple(CONNECTIONS))


def _is_foreign(trigger: str) -> bool:
    return "." in trigger and trigger not in TRIGGERS


def trigger_path(name: str) -> str:
    """Return the dotted path by which a child process finds a trigger's class. Raises `UnknownClass`."""
    if "." not in name:
        raise UnknownClass(f"unknown trigger `{name}`", tuple(TRIGGERS))
    return TRIGGERS.get(name, name)


def connection_path(name: str) -> str:
    """Return the dotted path by which a child process finds a connection's class."""
    return CONNECTIONS.get(name, name)


def trigger_class(name: str) -> type[BaseEventTrigger[Any, Any]]:
    """Return the class of a registered name or a dotted path. Raises `UnknownClass`."""
    trigger: type[BaseEventTrigger[Any, Any]] = _class(name, BaseEventTrigger, TRIGGERS, f"unknown trigger `{name}`")
    return trigger


def submitter_class(name: str) -> type[Submitter]:
    """Return the class of a registered name or a dotted path. Raises `UnknownClass`."""
    submitter: type[Submitter] = _class(name, Submitter, SUBMITTERS, f"unknown submitter `{name}`")
    if not isinstance(getattr(submitter, "ends_with_home", None), bool):
        raise UnknownClass(f"`{name}` does not define `ends_with_home`, True or False; add it to the class")
    return submitter


def connection_class(name: str) -> type[BaseConnection]:
    """Return the class of a registered `type` or a dotted path. Raises `UnknownClass`."""
    connection: type[BaseConnection] = _class(name, BaseConnection, CONNECTIONS, "is no type of connection")
    return connection


def _class(name: str, base: type, registered: Mapping[str, str], unknown: str) -> Any:
    if name in registered:
        return plugin_class(registered[name], base)
    if "." not in name:
        raise UnknownClass(unknown, tuple(registered))
    plugin = plugin_class(name, base, tuple(registered))
    if base is not BaseConnection:
        check_options(name, plugin)
    return plugin


def _kind(trigger: type[BaseEventTrigger[Any, Any]]) -> TriggerKind:
    return TriggerKind(
        options=trigger.Options, connection_type=trigger.connection_type, defaults=trigger.defaults, facts=facts_of
    )


def describe(trigger: str, watermark: JsonValue) -> WatermarkDescription:
    """Describe a watermark for people and for Prometheus.

    The description is empty without a watermark, or when this process has not imported the trigger's class: a plug-in is
    never imported here. Never raises, whatever the class does.
    """
    known = trigger_class(trigger) if trigger in TRIGGERS else _imported(trigger)
    if known is None or watermark is None:
        return WatermarkDescription()
    return _described(trigger, lambda: known.describe(watermark))


class Descriptions:
    """Describes watermarks, also those of triggers whose classes this process does not import.

    A child process describes each such watermark once. Blocks, so it is not for the event loop. Without `foreign` the
    description of such a trigger is empty.
    """

    def __init__(self, foreign: ForeignClasses | None = None) -> None:
        self._foreign = foreign
        self._of: dict[str, tuple[JsonValue, WatermarkDescription]] = {}

    def sentences(self, watchers: Iterable[WatcherRow], patience: float) -> list[str | None]:
        """Return a sentence about each watcher's watermark, or None when there is nothing to say.

        After `patience` seconds no child process is asked: a plug-in that hangs hides sentences and nothing else.
        """
        until = time.monotonic() + patience
        sentences = []
        for watcher in watchers:
            in_time = self if time.monotonic() < until else Descriptions()
            sentences.append(in_time.of_watcher(watcher).sentence or None)
        return sentences

    def of_watcher(self, watcher: WatcherRow) -> WatermarkDescription:
        watermark = watcher.watermark_now
        return self.describe(watcher.trigger, None if watermark is None else json.loads(watermark), watcher.name)

    def describe(self, trigger: str, watermark: JsonValue, watcher: str = "") -> WatermarkDescription:
        """Describe the watermark of the watcher with this name."""
        foreign = self._foreign
        if foreign is None or watermark is None or not _is_foreign(trigger) or _imported(trigger):
            return describe(trigger, watermark)
        newest = self._of.get(watcher)
        if newest is None or newest[0] != watermark:
            description = _described(trigger, lambda: foreign.describe(trigger, watermark))
            newest = self._of[watcher] = watermark, description
        return newest[1]


def _described(trigger: str, describe: Callable[[], tuple[str, Mapping[str, float]]]) -> WatermarkDescription:
    try:
        sentence, gauges = describe()
        numbers = {name: float(number) for name, number in gauges.items()}
        if unfit := [name for name in numbers if not _GAUGE.fullmatch(name)]:
            raise ValueError(f"{unfit[0]!r} is no name for a gauge")  # noqa: TRY301  named below, as all it raises
        return WatermarkDescription(sentence=str(sentence), gauges=numbers)
    except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
        reason = error.sentence if isinstance(error, UnknownClass) else f"{type(error).__name__}: {error}"
        fault = f"`{trigger}` could not describe its watermark ({reason}); correct its `describe`"
        return WatermarkDescription(sentence=fault, fault=fault)


def _imported(name: str) -> type[BaseEventTrigger[Any, Any]] | None:
    module_name, _, class_name = name.rpartition(".")
    plugin = getattr(sys.modules.get(module_name), class_name, None)
    return plugin if inspect.isclass(plugin) and issubclass(plugin, BaseEventTrigger) else None
