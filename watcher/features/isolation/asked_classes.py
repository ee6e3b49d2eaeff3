"""What classes of third parties say of themselves in processes of their own: the models of options and connections among it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, Field, model_serializer

from config.errors import KeyPath, UnknownClass
from config.vocabulary import Checked, TriggerKind
from triggers.base import BaseConnection, Facts, JsonObject, JsonValue
from watcher.features.isolation.classes import scope
from watcher.features.isolation.inquiries import Inquirer
from watcher.features.isolation.wire import Frame
from watcher.host.plugins import NotRevealed, plugin_class


class ForeignOptions(BaseModel):
    """Options of a trigger whose class this process does not import. They are dumped as the class's own model dumps them."""

    given: dict[str, Any] = Field(repr=False)
    shown: dict[str, Any] = Field(repr=False)
    format: int = 1
    """The format of the states that the trigger's class yields."""
    facts: Facts = Facts()
    """What they say of their watcher."""

    @model_serializer
    def _dump(self) -> dict[str, Any]:
        return self.shown


class ForeignConnection(BaseConnection):
    """A connection whose class this process imports only if one of its own triggers uses it."""

    given: dict[str, Any] = Field(repr=False)
    shown: dict[str, Any] = Field(repr=False)
    folder: Path
    revealed: Any = Field(repr=False)
    """What jobs get; None when the class failed to say: `fault`."""
    fault: str | None = None

    @model_serializer
    def _dump(self) -> dict[str, Any]:
        return self.shown

    def open(self) -> AbstractAsyncContextManager[Any]:
        """Import the class, and open the client in this process."""
        model: type[BaseConnection] = plugin_class(self.type, BaseConnection)
        return model.model_validate(self.given, context=scope(self.folder)).open()

    def reveal_to_jobs(self) -> JsonObject:
        """Return what the class revealed in its own process. Raises `NotRevealed` if it failed there."""
        if self.fault is not None:
            raise NotRevealed(self.fault)
        revealed: JsonObject = self.revealed
        return revealed


@dataclass(frozen=True)
class AskedClasses:
    """The `ForeignClasses` of a vocabulary: children of the inquirer answer."""

    inquirer: Inquirer

    def prepare(self, plugins: Path, hidden: frozenset[str]) -> None:
        """Set where plug-ins are, and the variables of the environment that they do not see."""
        self.inquirer.prepare(plugins, hidden)

    def trigger(self, path: str, registered: Sequence[str]) -> TriggerKind:
        """Return what the YAML of a watcher with this class must hold. Raises `UnknownClass`."""

        def defaults(uri: str) -> Mapping[str, Any]:
            answer = self.inquirer.ask(path, "defaults", registered, uri=uri)
            if "refused" in answer:
                raise ValueError(answer["refused"])
            return cast("Mapping[str, Any]", answer["defaults"])

        return TriggerKind(
            options=ForeignModelOf(inquirer=self.inquirer, name=path, question="options"),
            connection_type=self.inquirer.ask(path, "describe", registered)["connection_type"],
            defaults=defaults,
            isolation="process",
            facts=lambda options: cast("ForeignOptions", options).facts,
        )

    def connection(self, name: str, registered: Sequence[str]) -> ForeignModelOf:
        """Return the model of a connection. Raises `UnknownClass`."""
        self.inquirer.ask(name, "connection_class", registered)
        return ForeignModelOf(inquirer=self.inquirer, name=name, question="connection", type=name)

    def describe(self, trigger: str, watermark: JsonValue) -> tuple[str, Mapping[str, float]]:
        """Return what the class says of a watermark. Raises `UnknownClass`, also with what the class raised."""
        answer = self.inquirer.ask(trigger, "watermark", watermark=watermark)
        if "fault" in answer:
            raise UnknownClass(answer["fault"])
        return answer["sentence"], answer["gauges"]


@dataclass(frozen=True, kw_only=True)
class ForeignModelOf:
    """The model of a trigger's options, or of a connection. Its class checks the values in a child."""

    inquirer: Inquirer
    name: str
    """The dotted path of the class."""
    question: str
    type: str = ""

    def check(self, data: Any, path: KeyPath, folder: Path) -> Checked[BaseModel]:
        try:
            answer = self.inquirer.ask(self.name, self.question, data=data, path=list(path), folder=str(folder))
        except UnknownClass as error:
            return Checked(value=None, data=data, faults=[((), f"cannot be checked: {error.sentence}")])
        faults = [(tuple(place), sentence) for place, sentence in answer["faults"]]
        return Checked(value=self._value(answer, folder) if answer["valid"] else None, data=data, faults=faults)

    def _value(self, answer: Frame, folder: Path) -> BaseModel:
        if self.question == "options":
            return ForeignOptions(
                given=answer["given"],
                shown=answer["shown"],
                format=answer["format"],
                facts=_facts(answer["facts"]),
            )
        return ForeignConnection(
            given=answer["given"],
            shown=answer["shown"],
            type=self.type,
            folder=folder,
            revealed=answer["revealed"],
            fault=answer.get("not_revealed"),
        )


def _facts(answer: Frame) -> Facts:
    parts, seconds = answer["parts"], answer["cleaned_after"]
    return Facts(
        starts_now=answer["starts_now"],
        further_assets=tuple(answer["further_assets"]),
        parts=None if parts is None else tuple(parts),
        cleaned_after=None if seconds is None else timedelta(seconds=seconds),
        names_versions=answer["names_versions"],
        has_slot=answer["has_slot"],
    )
