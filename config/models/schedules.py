"""What starts a run of a job: a tree of conditions over assets and aliases, a cron expression, whichever comes first, or both.

In the YAML a bare name is an asset and a bare list means all:

    schedule: {all: [landing_orders, {any: [customers, {alias: daily_outputs}]}]}
    schedule: {any: [orders, {asset: customers, where: {extra.region: eu}}], or_cron: "0 * * * *", timezone: Europe/Berlin}
    schedule: {all: [orders, customers], cron: "0 6 * * *"}
    schedule: {cron: "0 * * * *"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias
from zoneinfo import available_timezones

from croniter import CroniterError, croniter
from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from config.errors import KeyPath
from config.models.event_filters import MOST_IN_A_SCHEDULE, faults_of_where
from config.names import NAME_PATTERN, Scope, did_you_mean
from config.sentences import misplaced

JsonCondition: TypeAlias = "str | dict[str, Any]"

_WORDS: Final = frozenset({"all", "any", "asset", "alias", "where", "cron", "or_cron", "timezone"})
_KINDS: Final = ({"asset"}, {"alias"})
_CRON_FIELDS: Final = 5
_MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("and", "&", "&&", "both", "each", "every", "allof"), "all"),
    **dict.fromkeys(("or", "|", "||", "either", "oneof", "anyof"), "any"),
    **dict.fromkeys(("filter", "if", "when"), "where"),
}
"""Words of other tools by what they are called here. Suggestions by their letters would call `and` an `any`."""
_NEGATIONS: Final = frozenset({"not", "!", "none", "noneof", "except", "unless"})
_CONNECTIVE: Final = re.compile(r"\s*(?:[,;]\s*and\b|[,;]\s*or\b|[,;&|+/]+)\s*|\s+(?:and|or)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class AssetCondition:
    """Met by an event of the asset. With `where` only by one that says what it asks for."""

    name: str
    where: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class AliasCondition:
    """Met by an event of any asset that the alias resolved to. With `where` only by one that says what it asks for."""

    name: str
    where: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class All:
    """Met when each of its parts is met. It is never empty."""

    of: tuple[Condition, ...]


@dataclass(frozen=True)
class Any_:  # noqa: N801 - `Any` is taken
    """Met when one of its parts is met. It is never empty."""

    of: tuple[Condition, ...]


Condition: TypeAlias = AssetCondition | AliasCondition | All | Any_
Reference: TypeAlias = AssetCondition | AliasCondition


@dataclass(frozen=True)
class CronConfig:
    """A cron expression (five fields or an `@…` word) in a time zone of the IANA database."""

    expression: str
    timezone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A condition, a time, or both. With both, whichever comes first starts a run; a joint one needs the two together."""

    condition: Condition | None = None
    cron: CronConfig | None = None
    joint: bool = False


def references(condition: Condition | None) -> Iterator[Reference]:
    """Yield the assets and aliases in `condition`, in the order written."""
    match condition:
        case All(of=parts) | Any_(of=parts):
            for part in parts:
                yield from references(part)
        case AssetCondition() | AliasCondition():
            yield condition


def needs_several(condition: Condition | None) -> bool:
    """Whether any part of `condition` needs more than one event."""
    match condition:
        case All(of=parts):
            return len(parts) > 1 or any(needs_several(part) for part in parts)
        case Any_(of=parts):
            return any(needs_several(part) for part in parts)
    return False


def needed_together(condition: Condition | None) -> Iterator[Reference]:
    """Yield the assets and aliases in `condition` that need events of others beside their own."""
    match condition:
        case All(of=parts) if len(parts) > 1:
            yield from references(condition)
        case All(of=parts) | Any_(of=parts):
            for part in parts:
                yield from needed_together(part)


def condition_to_json(condition: Condition) -> JsonCondition:
    """`condition` as the YAML writes it."""
    match condition:
        case AssetCondition(name=name, where=None):
            return name
        case AssetCondition(name=name, where=where):
            return {"asset": name, "where": where}
        case AliasCondition(name=name, where=where):
            return {"alias": name} if where is None else {"alias": name, "where": where}
        case All(of=parts):
            return {"all": [condition_to_json(part) for part in parts]}
        case Any_(of=parts):
            return {"any": [condition_to_json(part) for part in parts]}


def schedule_to_json(schedule: Schedule) -> JsonCondition:
    """`schedule` as the YAML writes it."""
    if schedule.cron is None:
        return condition_to_json(schedule.condition) if schedule.condition else {}
    time = {"timezone": schedule.cron.timezone}
    if schedule.condition is None:
        return {"cron": schedule.cron.expression, **time}
    condition = condition_to_json(schedule.condition)
    tree = {"all": [condition]} if isinstance(condition, str) else condition
    return {**tree, "cron" if schedule.joint else "or_cron": schedule.cron.expression, **time}


class _Parser:
    """Parses values of the YAML. It goes on after a fault, so that all faults are reported."""

    def __init__(self, scope: Scope | None) -> None:
        self.faults: list[tuple[KeyPath, str]] = []
        self._scope = scope

    def schedule(self, value: Any) -> Schedule | None:
        if not isinstance(value, dict):
            condition = self.condition(value, ())
            return Schedule(condition=condition) if condition else None
        tree = {key: part for key, part in value.items() if key not in {"cron", "or_cron", "timezone"}}
        cron = self._cron(value)
        if "cron" in value and "or_cron" in value:
            self._fault((), "has both `cron` (time and events) and `or_cron` (time or events); remove one of them")
        if "cron" in value and not tree:
            return Schedule(cron=cron)
        condition = self.condition(tree, ())
        if sum(reference.where is not None for reference in references(condition)) > MOST_IN_A_SCHEDULE:
            self._fault((), f"has more than {MOST_IN_A_SCHEDULE} references with `where`; divide the job")
        return Schedule(condition=condition, cron=cron, joint="cron" in value) if condition else None

    def condition(self, value: Any, path: KeyPath) -> Condition | None:
        match value:
            case str():
                return self._asset(value, path)
            case list():
                return self._parts(All, value, path)
            case {"all": parts} if len(value) == 1:
                return self._parts(All, parts, (*path, "all"))
            case {"any": parts} if len(value) == 1:
                return self._parts(Any_, parts, (*path, "any"))
            case dict() if value.keys() - {"where"} in _KINDS:
                return self._with_where(value, path)
            case dict() if unknown := value.keys() - _WORDS:
                for word in unknown:
                    self._fault((*path, word), f"is not a key here; {_remedy_for_word(word)}")
            case _:
                self._fault(
                    path, "must be an asset's name, or one of `{all: [...]}`, `{any: [...]}` and `{alias: name}`"
                )
        return None

    def reference(self, value: Any, path: KeyPath) -> Reference | None:
        match value:
            case str():
                return self._asset(value, path)
            case {"alias": name} if len(value) == 1:
                return self._alias(name, (*path, "alias"))
        self._fault(path, "must be an asset's name or `{alias: name}`")
        return None

    def _parts(self, kind: type[All | Any_], value: Any, path: KeyPath) -> Condition | None:
        if not isinstance(value, list):
            hint = f": write `{_listed(value)}`" if isinstance(value, str) else ""
            self._fault(path, f"must be a list of conditions{hint}")
            return None
        if not value:
            self._fault(path, "is an empty condition, which would never be met; name at least one asset")
            return None
        parts = [self.condition(part, (*path, index)) for index, part in enumerate(value)]
        return kind(tuple(part for part in parts if part is not None))

    def _with_where(self, value: dict[str, Any], path: KeyPath) -> Reference | None:
        where = value.get("where")
        if where is not None:
            self.faults += faults_of_where(where, (*path, "where"))
        if "alias" in value:
            alias = self._alias(value["alias"], (*path, "alias"))
            return alias and replace(alias, where=where)
        if not isinstance(value["asset"], str):
            names = value["asset"] if isinstance(value["asset"], list) else []
            listed = f"; for several write `{{all: [{', '.join(map(str, names))}]}}`, or `any`" if names else ""
            self._fault((*path, "asset"), f"must be an asset's name{listed}")
            return None
        return replace(self._asset(value["asset"], (*path, "asset")), where=where)

    def _asset(self, name: str, path: KeyPath) -> AssetCondition:
        if self._scope and (fault := self._scope.check_asset(name)):
            self._fault(path, self._several_names(name) or fault + _hint_of_time(name))
        return AssetCondition(name)

    def _alias(self, name: Any, path: KeyPath) -> AliasCondition | None:
        if not isinstance(name, str):
            self._fault(path, "must be an alias's name")
            return None
        if self._scope and (fault := self._scope.check_alias(name)):
            self._fault(path, fault)
        return AliasCondition(name)

    def _cron(self, value: dict[str, Any]) -> CronConfig | None:
        key = "cron" if "cron" in value else "or_cron"
        zone = value.get("timezone", "UTC")
        if zone != "UTC" and str(zone) not in (zones := available_timezones()):
            self._fault(("timezone",), f"is not a time zone of the IANA database; {did_you_mean(str(zone), zones)}")
        if key not in value:
            if "timezone" in value:
                self._fault(("timezone",), "has no effect without `cron` or `or_cron`; remove it")
            return None
        if not _is_cron(value[key]):
            self._fault((key,), 'is not a cron expression that ever fires: write five fields such as "0 * * * *"')
        return CronConfig(expression=str(value[key]), timezone=str(zone))

    def _several_names(self, text: str) -> str | None:
        """What to write for several names in one text; None: it is one name."""
        text = text.strip("[]() ")
        names = _CONNECTIVE.split(text)
        if len(names) == 1 and self._scope and all(name in self._scope.assets for name in text.split()):
            names = text.split()
        if len(names) == 1 or not all(re.fullmatch(NAME_PATTERN, name) for name in names):
            return None
        listed = f"[{', '.join(names)}]"
        if any(re.search(r"\||\bor\b", each[0], re.IGNORECASE) for each in _CONNECTIVE.finditer(text)):
            return f"is one text and must be one name: write `{{any: {listed}}}`, or `{listed}` if all are needed"
        return f"is one text and must be one name: write the list `{listed}`"

    def _fault(self, path: KeyPath, sentence: str) -> None:
        self.faults.append((path, sentence))


def _remedy_for_word(word: str) -> str:
    """What to write in place of a word that is no key of a condition."""
    bare = re.sub("[ _-]", "", word).casefold()
    if bare in _NEGATIONS:
        return "a condition waits for events, and an event cannot not come: name only what the job needs"
    meant = _MEANT.get(bare, bare)
    return f"did you mean `{meant}`?" if meant in _WORDS else did_you_mean(word, _WORDS)


def _hint_of_time(name: str) -> str:
    return f'; a time is written `{{cron: "{name}"}}`' if croniter.is_valid(name) else ""


def _listed(text: str) -> str:
    """`text`, one name or several, as a list of the YAML."""
    return f"[{', '.join(filter(None, _CONNECTIVE.split(text.strip())))}]"


def _is_cron(expression: Any) -> bool:
    """Whether `expression` is one that every process reads alike: without seconds and without croniter's random fields (`R`)."""
    if not isinstance(expression, str):
        return False
    fields = expression.split()
    if not expression.startswith("@") and (len(fields) != _CRON_FIELDS or any(field[0] in "rR" for field in fields)):
        return False
    try:
        croniter(expression, datetime(2024, 1, 1)).get_next(datetime)  # noqa: DTZ001 - any date will do
    except (CroniterError, ValueError, OverflowError):
        return False
    return True


def _parse_schedule(value: Any, info: ValidationInfo) -> Schedule | None:
    if value is None:
        return None
    parser = _Parser(info.context)
    schedule = parser.schedule(value)
    if parser.faults:
        raise misplaced(value, *parser.faults)
    return schedule


def _parse_references(value: Any, info: ValidationInfo) -> tuple[Reference, ...]:
    if not isinstance(value, list | tuple):
        hint = f": write `{_listed(value)}`" if isinstance(value, str) else ""
        raise ValueError(f"must be a list of asset names and `{{alias: name}}`{hint}")  # noqa: TRY004 - pydantic's protocol
    parser = _Parser(info.context)
    parsed = [parser.reference(item, (index,)) for index, item in enumerate(value)]
    if parser.faults:
        raise misplaced(value, *parser.faults)
    return tuple(reference for reference in parsed if reference)


ScheduleField: TypeAlias = Annotated[
    Schedule | None,
    PlainValidator(_parse_schedule),
    PlainSerializer(lambda schedule: schedule and schedule_to_json(schedule)),
    WithJsonSchema({}),
]
ReferencesField: TypeAlias = Annotated[
    tuple[Reference, ...],
    PlainValidator(_parse_references),
    PlainSerializer(lambda references: [condition_to_json(reference) for reference in references]),
    WithJsonSchema({}),
]
