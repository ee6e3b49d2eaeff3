"""Questions about the classes of plug-ins. A child answers them, so that the host does not import the classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from config.names import Scope
from triggers.base import BaseConnection, BaseEventTrigger
from triggers.errors import ConfigurationError
from triggers.options import Facts, facts_of
from watcher.host.plugins import check_options, plugin_class
from watcher.triggerer.isolation.wire import Frame

ModelT = TypeVar("ModelT", bound=BaseModel)
_SESSIONS: Final = "pool_size"
"""A field of connections to databases. A child polls in one session and listens in another."""


def trigger_class(name: str, registered: Sequence[str] = ()) -> type[BaseEventTrigger[Any, Any]]:
    """Return the class. Raise `UnknownClass`; `registered` are names that were perhaps meant."""
    trigger: type[BaseEventTrigger[Any, Any]] = plugin_class(name, BaseEventTrigger, registered)
    check_options(name, trigger)
    return trigger


def scope(folder: str | Path) -> Scope:
    """Return pydantic's context for validators."""
    return Scope(folder=Path(folder))


def validated(model: type[ModelT], given: Mapping[str, Any], scope: Scope) -> ModelT:
    """Return the options, which were valid when the configuration was read. Raise `ConfigurationError`, without values."""
    try:
        return model.model_validate(given, context=scope)
    except ValidationError as error:
        raise ConfigurationError(
            f"{error.error_count()} of the values that {model.__qualname__} takes are not valid any more; run `watcher check`"
        ) from None


def connection(name: str, given: Mapping[str, Any], scope: Scope) -> BaseConnection:
    """Return a connection of the child's own. To a database it has one session."""
    made: BaseConnection = validated(plugin_class(name, BaseConnection), given, scope)
    return made.model_copy(update={_SESSIONS: 1}) if _SESSIONS in type(made).model_fields else made


def _describe(request: Frame) -> Frame:
    return {"connection_type": trigger_class(request["class"], request["registered"]).connection_type}


def _defaults(request: Frame) -> Frame:
    """Answer with the defaults for a URI. Only a ValueError's text is meant for people; other errors become their type."""
    try:
        return {"defaults": dict(trigger_class(request["class"]).defaults(request["uri"]))}
    except ValueError as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
        return {"refused": f"the trigger's `defaults` raised {type(error).__name__}; correct the class"}


def _options(request: Frame) -> Frame:
    trigger = trigger_class(request["class"])
    options, answer = _checked(trigger.Options, request)
    if options is not None:
        try:
            answer["facts"] = _facts_json(facts_of(options))
        except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
            answer["faults"], answer["valid"] = [_fault_of_facts(error)], False
    return {**answer, "format": trigger.format}


def _facts_json(facts: Facts) -> Frame:
    after = facts.cleaned_after
    return {**asdict(facts), "cleaned_after": None if after is None else after.total_seconds()}


def _fault_of_facts(error: Exception) -> tuple[Sequence[str], str]:
    return (), f"the options' `facts` raised {type(error).__name__}; correct the class"


def _connection_class(request: Frame) -> Frame:
    plugin_class(request["class"], BaseConnection, request["registered"])
    return {}


def _connection(request: Frame) -> Frame:
    made, answer = _checked(plugin_class(request["class"], BaseConnection), request)
    if made is not None:
        try:
            answer["revealed"] = dict(made.reveal_to_jobs())
            json.dumps(answer["revealed"], allow_nan=False)
        except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything, and the text may hold a secret
            answer["revealed"], answer["not_revealed"] = None, type(error).__name__
    return answer


def _checked(model: Any, request: Frame) -> tuple[Any, Frame]:
    """Check the data as the configuration checks its own models. Return the value, None if invalid, and the answer."""
    from config.reading.report import checked  # noqa: PLC0415  it imports YAML, which only these questions need

    outcome = checked(model, request["data"], tuple(request["path"]), scope(request["folder"]))
    value = outcome.value
    return value, {
        "valid": value is not None,
        "given": outcome.data,
        "shown": None if value is None else value.model_dump(mode="json", fallback=str),
        "faults": [[list(place), sentence] for place, sentence in outcome.faults],
    }


def _watermark(request: Frame) -> Frame:
    trigger = trigger_class(request["class"])
    try:
        sentence, gauges = trigger.describe(request["watermark"])
        return {"sentence": str(sentence), "gauges": {name: float(number) for name, number in gauges.items()}}
    except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
        return {"fault": f"{type(error).__name__}: {error}"}


QUESTIONS: Final[Mapping[str, Callable[[Frame], Frame]]] = {
    "describe": _describe,
    "defaults": _defaults,
    "options": _options,
    "connection_class": _connection_class,
    "connection": _connection,
    "watermark": _watermark,
}
