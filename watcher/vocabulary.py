"""The words of the configuration that name our triggers and connections, and the plug-ins of the user."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from config.errors import UnknownTrigger
from config.vocabulary import TriggerKind, Vocabulary
from triggers.base import BaseEventTrigger
from triggers.registry import CONNECTIONS, TRIGGERS


def vocabulary() -> Vocabulary:
    """The registered words; dotted paths mean classes on `plugins_dir`, or installed ones."""
    return Vocabulary(
        trigger=lambda name: _kind(trigger_class(name)),
        triggers={name: _kind(trigger) for name, trigger in TRIGGERS.items()},
        connections=CONNECTIONS,
        add_plugins=_add_to_import_path,
    )


def _add_to_import_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def trigger_class(name: str) -> type[BaseEventTrigger[Any, Any]]:
    """The class of a registered name or a dotted path. Raises `UnknownTrigger`."""
    if name in TRIGGERS:
        return TRIGGERS[name]
    module_name, _, class_name = name.rpartition(".")
    if not module_name:
        raise UnknownTrigger(f"unknown trigger `{name}`", tuple(TRIGGERS))
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except Exception as error:  # a plug-in's own code may raise anything
        raise UnknownTrigger(f"the trigger `{name}` cannot be imported ({error})", tuple(TRIGGERS)) from error
    if not (isinstance(found, type) and issubclass(found, BaseEventTrigger)):
        raise UnknownTrigger(f"`{name}` is not a subclass of triggers.base.BaseEventTrigger", tuple(TRIGGERS))
    return found


def _kind(trigger: type[BaseEventTrigger[Any, Any]]) -> TriggerKind:
    return TriggerKind(options=trigger.Options, connection_type=trigger.connection_type, defaults=trigger.defaults)
