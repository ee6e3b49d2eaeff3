"""The JSON Schema of the YAML, which editors use to complete and to check: `watcher schema`.

It depends on the vocabulary: the keys of a watcher follow from its `trigger`, those of a connection from its `type`. It is
looser than `load` where JSON Schema cannot express a rule (references between sections), and never stricter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeAlias, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from config.models.assets import AliasConfig, AssetConfig
from config.models.ingest import INGEST, IngestConfig
from config.models.jobs import JobConfig
from config.models.reserved import RESERVED
from config.models.settings import Settings
from config.models.spark import SparkConfig
from config.models.values import format_duration
from config.names import NAME_PATTERN, Isolation
from config.section import LARGEST_INT
from config.vocabulary import Spelling, Vocabulary

Schema: TypeAlias = dict[str, Any]

_DOTTED_PATH: Final = r"^\w+(\.\w+)+$"
_FROM_ELSEWHERE: Final = ({"type": "string", "pattern": _DOTTED_PATH}, {"$ref": "#/$defs/FromOutside"})
_HOLDS_SCHEMA: Final = frozenset({"additionalProperties", "allOf", "anyOf", "items", "oneOf", "prefixItems"})
_HOLDS_SCHEMAS_BY_NAME: Final = frozenset({"patternProperties", "properties"})


def _mapping(required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


_ALIAS: Final[Schema] = _mapping("alias", alias={"type": "string"})
_REFERENCES: Final[Schema] = {"type": "array", "items": {"anyOf": [{"type": "string"}, _ALIAS]}}
_WHERE: Final[Schema] = {
    "type": "object",
    "minProperties": 1,
    "description": "What an event must say: paths below extra, or partition_key, with a value, or a list of which one must be there.",
    "propertyNames": {"pattern": r"^(partition_key|extra(\.([^\\.]|\\[\\.])+)+)$"},
}
_FILTERED: Final[tuple[Schema, ...]] = tuple(
    _mapping(kind, **{kind: {"type": "string"}}, where=_WHERE) for kind in ("asset", "alias")
)
_CONDITIONS: Final[Schema] = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Condition"}}
_TIMEZONE: Final[Schema] = {"type": "string", "default": "UTC", "description": "A time zone of the IANA database."}
_ISOLATION: Final[Schema] = {
    "enum": [*get_args(Isolation), None],
    "description": "Where the trigger runs: in a process of its own, the default of dotted paths, or in the daemon's.",
}
_CRON: Final[Schema] = {"type": "string", "description": "Five cron fields, or a word such as @daily."}


def _timed(required: str, **properties: Schema) -> Schema:
    both = {"not": {"required": ["cron", "or_cron"]}}
    return _mapping(required, **properties, cron=_CRON, or_cron=_CRON, timezone=_TIMEZONE) | both


_WRITTEN_HERE: Final[Mapping[str, Schema]] = {
    "Condition": {
        "anyOf": [
            {"type": "string"},
            _CONDITIONS,
            _mapping("all", all=_CONDITIONS),
            _mapping("any", any=_CONDITIONS),
            *_FILTERED,
        ]
    },
    "Schedule": {
        "description": "Assets, aliases or a time that start a run. A bare list means all. Null: a run is started by hand only.",
        "anyOf": [
            {"type": "null"},
            {"type": "string"},
            _CONDITIONS,
            _timed("all", all=_CONDITIONS),
            _timed("any", any=_CONDITIONS),
            *(_timed(kind, **{kind: {"type": "string"}}, where=_WHERE) for kind in ("asset", "alias")),
            _mapping("cron", cron=_CRON, timezone=_TIMEZONE),
        ],
    },
    "FromOutside": {
        "type": "string",
        "pattern": r"\$\{",
        "description": "${NAME}, ${NAME:-default} or ${file:/path}, coerced to the field's type.",
    },
}


def json_schema(vocabulary: Vocabulary) -> Schema:
    """The schema (draft 2020-12) of one file that is a whole configuration."""
    connections = vocabulary.connections
    options = {name: kind.options for name, kind in vocabulary.triggers.items() if isinstance(kind.options, type)}
    settings = vocabulary.settings(()).model
    models = (settings, AssetConfig, AliasConfig, JobConfig, SparkConfig, IngestConfig)
    submitters = vocabulary.submitters
    definitions = _Definitions(*models, *connections.values(), *options.values(), *submitters.values())
    _complete_assets(definitions, options, vocabulary.spellings)
    _add_reserved(definitions, options, settings)
    _complete_jobs(definitions, submitters)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Asset Watcher",
        "type": "object",
        "properties": {
            "version": {"const": 1},
            "settings": _or_null(definitions.reference(settings)),
            "connections": _named(_chosen_by("type", definitions.references(connections))),
            "assets": _named(_or_null(definitions.reference(AssetConfig))),
            "aliases": _named(_or_null(definitions.reference(AliasConfig))),
            "jobs": _named(definitions.reference(JobConfig)),
        },
        "required": ["version"],
        "additionalProperties": False,
        "$defs": {**definitions.all, **_WRITTEN_HERE},
    }


def _complete_assets(
    definitions: _Definitions, options: Mapping[str, type[BaseModel]], spellings: Mapping[str, Spelling]
) -> None:
    for model in options.values():
        beside = {
            "trigger": {"type": "string"},
            "connection": {"type": "string"},
            "isolation": _ISOLATION,
            "pause_after_failures": _or_null({"type": "integer", "minimum": 1, "maximum": LARGEST_INT}),
        }
        schema = definitions.body(model)
        schema["properties"] = {**schema.get("properties", {}), **beside}
        schema.pop("required", None)  # the asset's URI implies some
    asset = definitions.body(AssetConfig)
    asset.pop("required")  # the uri is the name by default
    keys = definitions.references(options)
    spelled = {
        name: _or_else(spelling.key, spelling.value, keys[spelling.trigger], keys[name])
        for name, spelling in spellings.items()
        if name in keys
    }
    asset["properties"]["watchers"] |= _named(_chosen_by("trigger", {**keys, **spelled}))


def _complete_jobs(definitions: _Definitions, submitters: Mapping[str, type[BaseModel]]) -> None:
    job, spark = definitions.body(JobConfig), definitions.body(SparkConfig)
    job["properties"]["schedule"] = {"$ref": "#/$defs/Schedule"}
    job["properties"]["inlets"] |= _REFERENCES
    job["properties"]["outlets"] |= _REFERENCES
    # A submitter that is not registered may have any options among the keys.
    spark.pop("additionalProperties")
    spark["properties"]["submitter"] |= {"anyOf": [{"enum": list(submitters)}, *_FROM_ELSEWHERE]}
    known = {*spark["properties"], *(key for model in submitters.values() for key in model.model_fields)}
    for name, model in submitters.items():
        spark |= {"allOf": [*spark.get("allOf", ()), *_options_of(name, definitions.body(model))]}
    usual = {"properties": {"submitter": {"enum": list(submitters)}}}
    spark["allOf"] += [{"if": usual, "then": {"propertyNames": {"enum": sorted(known)}}}]
    spark |= _when("application", INGEST, {"properties": {"options": definitions.reference(IngestConfig)}})


def _options_of(submitter: str, model: Schema) -> list[Schema]:
    """The rule for a submitter's own keys, if it has any."""
    own = {key: model[key] for key in ("properties", "required") if model.get(key)}
    return [_when("submitter", submitter, own)] if own else []


def _add_reserved(definitions: _Definitions, options: Mapping[str, type[BaseModel]], settings: type[Settings]) -> None:
    """Add the keys that are not built, with their defaults as the only values."""
    sections: Mapping[str, list[type[BaseModel]]] = {
        "settings": [settings],
        "assets.*.watchers.*": list(options.values()),
        "jobs.*.spark.options": [IngestConfig],
        "jobs.*": [JobConfig],
    }
    for entry in RESERVED:
        section = next(name for name in sections if entry.path.startswith(f"{name}."))
        *inner, key = entry.path.removeprefix(f"{section}.").split(".")
        for model in sections[section]:
            definitions.within(model, inner).setdefault(key, _with_outside(_only(entry.default)))


def _only(value: Any) -> Schema:
    schema: Schema = {"const": value}
    if isinstance(value, dict) and value:
        members = {name: _only(member) for name, member in value.items()}
        schema = {"type": "object", "properties": members, "additionalProperties": False}
    return {**schema, "description": "Not built."}


_PUBLISHED_NAMES: Final = {IngestConfig.__name__: "IngestOptions"}
"""The names in `$defs` of classes that are called otherwise here."""


class _SchemaGenerator(GenerateJsonSchema):
    def encode_default(self, dft: Any) -> Any:
        """The default as the YAML writes it; pydantic would write PT10S."""
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def normalize_name(self, name: str) -> str:
        """The key of a class in `$defs`."""
        return super().normalize_name(_PUBLISHED_NAMES.get(name, name))


class _Definitions:
    """The models' own schemas, in which `${…}` is allowed wherever a value is not any text."""

    def __init__(self, *models: type[BaseModel]) -> None:
        modes = [(model, "validation") for model in dict.fromkeys(models)]
        self._references, generated = models_json_schema(
            modes,  # type: ignore[arg-type]  # a literal, widened by the list
            schema_generator=_SchemaGenerator,
        )
        self.all: dict[str, Schema] = {name: _with_outside(schema) for name, schema in generated["$defs"].items()}

    def reference(self, model: type[BaseModel]) -> Schema:
        return dict(self._references[model, "validation"])

    def references(self, models: Mapping[str, type[BaseModel]]) -> dict[str, Schema]:
        return {name: self.reference(model) for name, model in models.items()}

    def body(self, model: type[BaseModel]) -> Schema:
        return self._at(self.reference(model))

    def within(self, model: type[BaseModel], path: Iterable[str]) -> Schema:
        """The properties of the mapping at `path` within a `model`; a new dict if there is no such mapping."""
        properties: Schema = self.body(model).setdefault("properties", {})
        for name in path:
            properties = self._at(properties[name])["properties"] if "$ref" in properties.get(name, ()) else {}
        return properties

    def _at(self, reference: Schema) -> Schema:
        return self.all[str(reference["$ref"]).rpartition("/")[2]]


def _with_outside(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_outside(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    inner = dict(schema)
    for key in schema.keys() & _HOLDS_SCHEMA:
        inner[key] = _with_outside(schema[key])
    for key in schema.keys() & _HOLDS_SCHEMAS_BY_NAME:
        inner[key] = {name: _with_outside(member) for name, member in schema[key].items()}
    if schema.get("type") not in ("boolean", "integer", "number") and not schema.keys() & {"const", "enum", "pattern"}:
        return inner
    outer = {key: inner.pop(key) for key in ("title", "description", "default") if key in inner}
    return {**outer, "anyOf": [inner, {"$ref": "#/$defs/FromOutside"}]}


def _named(schema: Schema) -> Schema:
    return {
        "type": ["object", "null"],
        "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
        "additionalProperties": schema,
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _chosen_by(key: str, schemas: Mapping[str, Schema]) -> Schema:
    """A mapping whose keys follow from the value of `key`. With the dotted path of a plug-in any keys are allowed."""
    return {
        "type": "object",
        "properties": {key: {"anyOf": [{"enum": list(schemas)}, *_FROM_ELSEWHERE]}},
        "required": [key],
        "allOf": [_when(key, name, schema) for name, schema in schemas.items()],
    }


def _or_else(key: str, value: str, schema: Schema, otherwise: Schema) -> Schema:
    return {**_when(key, value, schema), "else": otherwise}


def _when(key: str, value: str, schema: Schema) -> Schema:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": schema}
