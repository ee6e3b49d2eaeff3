"""The classes that a configuration names: registered ones, and plug-ins of the user by dotted path."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from config.errors import UnknownClass
from config.vocabulary import TriggerKind, Vocabulary
from triggers.base import BaseConnection, BaseEventTrigger, JsonValue
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.s3.connection import S3Connection
from triggers.s3.new_files import S3NewFiles
from watcher.submit.base import Submitter
from watcher.submit.spark_submit import SparkSubmit

TRIGGERS: Final[Mapping[str, type[BaseEventTrigger[Any, Any]]]] = {
    "s3.new_files": S3NewFiles,
    "postgres.new_rows": NewRows,
    "file.new_files": FileNewFiles,
}
CONNECTIONS: Final[Mapping[str, type[BaseConnection]]] = {"s3": S3Connection, "postgres": PostgresConnection}
SUBMITTERS: Final[Mapping[str, type[Submitter]]] = {"spark-submit": SparkSubmit}
_GAUGE: Final = re.compile("[a-z][a-z0-9_]*")


def vocabulary() -> Vocabulary:
    """The registered words; dotted paths mean classes on `plugins_dir`, or installed ones."""
    return Vocabulary(
        trigger=lambda name: _kind(trigger_class(name)),
        triggers={name: _kind(trigger) for name, trigger in TRIGGERS.items()},
        connection=connection_class,
        connections=CONNECTIONS,
        submitter=lambda name: submitter_class(name).Options,
        submitters={name: submitter.Options for name, submitter in SUBMITTERS.items()},
        add_plugins=_add_to_import_path,
    )


def _add_to_import_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def trigger_class(name: str) -> type[BaseEventTrigger[Any, Any]]:
    """The class of a registered name or a dotted path. Raises `UnknownClass`."""
    trigger: type[BaseEventTrigger[Any, Any]] = _class(name, BaseEventTrigger, TRIGGERS, f"unknown trigger `{name}`")
    return trigger


def submitter_class(name: str) -> type[Submitter]:
    """The class of a registered name or a dotted path. Raises `UnknownClass`."""
    submitter: type[Submitter] = _class(name, Submitter, SUBMITTERS, f"unknown submitter `{name}`")
    if not isinstance(getattr(submitter, "ends_with_home", None), bool):
        raise UnknownClass(f"`{name}` does not define `ends_with_home`, True or False; add it to the class")
    return submitter


def connection_class(name: str) -> type[BaseConnection]:
    """The class of a registered `type` or a dotted path. Raises `UnknownClass`."""
    connection: type[BaseConnection] = _class(name, BaseConnection, CONNECTIONS, "is no type of connection")
    return connection


def _class(name: str, base: type, registered: Mapping[str, type], unknown: str) -> Any:
    if name in registered:
        return registered[name]
    if "." not in name:
        raise UnknownClass(unknown, tuple(registered))
    plugin = _plugin(name, base, tuple(registered))
    if base is not BaseConnection and not _is_model(getattr(plugin, "Options", None)):
        raise UnknownClass(f"`{name}` has no `Options`, the pydantic model of its keys; add it to the class")
    return plugin


def _is_model(options: Any) -> bool:
    return inspect.isclass(options) and issubclass(options, BaseModel)


def _plugin(name: str, base: type, registered: tuple[str, ...]) -> Any:
    module_name, _, class_name = name.rpartition(".")
    try:
        plugin = getattr(importlib.import_module(module_name), class_name, None)
    except (Exception, SystemExit) as error:  # a plug-in's own code may raise anything
        raise UnknownClass(
            f"`{name}` cannot be imported ({error}); mend it, or put it on `settings.plugins_dir`", registered
        ) from error
    if not (inspect.isclass(plugin) and issubclass(plugin, base)):
        raise UnknownClass(f"`{name}` is not a subclass of {base.__module__}.{base.__name__}", registered)
    if missing := ", ".join(f"`{method}`" for method in sorted(getattr(plugin, "__abstractmethods__", ()))):
        raise UnknownClass(f"`{name}` does not define {missing}; add it to the class")
    return plugin


def _kind(trigger: type[BaseEventTrigger[Any, Any]]) -> TriggerKind:
    return TriggerKind(options=trigger.Options, connection_type=trigger.connection_type, defaults=trigger.defaults)


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a trigger's class says of a watermark; `fault` when it failed to, the same sentence."""

    sentence: str = ""
    gauges: Mapping[str, float] = field(default_factory=dict)
    fault: str | None = None


def describe(trigger: str, watermark: JsonValue) -> Description:
    """For people and for Prometheus; nothing without a watermark, or where this process has not the trigger's class.

    Never imports a plug-in: one that the configuration named is there already. Raises nothing, whatever the class does.
    """
    known = TRIGGERS.get(trigger) or _imported(trigger)
    if known is None or watermark is None:
        return Description()
    try:
        sentence, gauges = known.describe(watermark)
        numbers = {name: float(number) for name, number in gauges.items()}
        if unfit := [name for name in numbers if not _GAUGE.fullmatch(name)]:
            raise ValueError(f"{unfit[0]!r} is no name for a gauge")  # noqa: TRY301  named below, as all it raises
        return Description(sentence=str(sentence), gauges=numbers)
    except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
        fault = f"`{trigger}` could not describe its watermark ({type(error).__name__}: {error}); mend its `describe`"
        return Description(sentence=fault, fault=fault)


def _imported(name: str) -> type[BaseEventTrigger[Any, Any]] | None:
    module_name, _, class_name = name.rpartition(".")
    plugin = getattr(sys.modules.get(module_name), class_name, None)
    return plugin if inspect.isclass(plugin) and issubclass(plugin, BaseEventTrigger) else None
