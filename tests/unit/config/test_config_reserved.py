"""What is described but not built is refused in one sentence; its default may be written out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from config.errors import ConfigurationInvalid
from config.features.publishing.json_schema import json_schema
from config.models import IngestConfig, JobConfig
from config.models.reserved import RESERVED
from config.models.settings import Settings
from config.reading.loader import load
from config.section import keys, models_at
from watcher.configuration.vocabulary import vocabulary

KEYS = {entry.path: entry.default for entry in RESERVED}
OTHERS: Mapping[str, Any] = {"assets.*.watchers.*.assets": {"landing": "orders/**"}}


def written(path: str, value: Any) -> dict[str, Any]:
    """A valid configuration with `value` at `path`, where `*` stands for any name."""
    document: dict[str, Any] = {
        "version": 1,
        "connections": {"lake": {"type": "s3"}},
        "assets": {
            "landing": {
                "uri": "s3://landing/",
                "watchers": {"files": {"trigger": "s3.new_files", "connection": "lake", "batch": {"max_files": 1}}},
            },
            "table": {"uri": "file:///table"},
        },
        "jobs": {
            "load": {
                "schedule": "landing",
                "outlets": ["table"],
                "spark": {"application": "builtin:ingest", "connections": ["lake"], "options": {}},
            }
        },
    }
    *inner, key = path.split(".")
    at = document
    for part in inner:
        name = next(iter(at)) if part == "*" else part
        at = at.setdefault(name, {})
    at[key] = value
    return document


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., list[str]]:
    """The problems of a document, with the triggers that are shipped."""

    def loaded(document: Any, **environ: str) -> list[str]:
        file = tmp_path / "watchers.yaml"
        file.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
        try:
            load(file, vocabulary(), environ)
        except ConfigurationInvalid as refused:
            return [f"{problem.line}: {problem.path}: {problem.message}" for problem in refused.problems]
        return []

    return loaded


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(json_schema(vocabulary()))


@pytest.mark.parametrize("path", KEYS)
def test_a_default_that_is_written_out_is_accepted(
    loaded: Callable[..., list[str]], validator: Draft202012Validator, path: str
) -> None:
    document = written(path, KEYS[path])
    assert loaded(document) == []
    assert [error.message for error in validator.iter_errors(document)] == []


@pytest.mark.parametrize("path", KEYS)
def test_anything_else_is_refused_with_line_and_path(
    loaded: Callable[..., list[str]], validator: Draft202012Validator, path: str
) -> None:
    document = written(path, OTHERS.get(path, "hunter22"))
    [problem] = loaded(document)
    line, place, sentence = problem.split(": ", 2)
    assert f'"{path.rpartition(".")[2]}"' in json.dumps(document, indent=1).splitlines()[int(line) - 1]
    assert len(place.split(".")) == len(path.split("."))
    assert sentence == "is not built; remove it"
    assert not validator.is_valid(document)


def test_a_default_may_come_from_the_environment(
    loaded: Callable[..., list[str]], validator: Draft202012Validator
) -> None:
    document = written("settings.openlineage", "${HISTORY:-null}")
    assert (loaded(document), validator.is_valid(document)) == ([], True)
    assert "not built" in loaded(document, HISTORY="http://h")[0]
    document = written("settings.home", "h")
    assert loaded(document, WATCHER_SETTINGS__OPENLINEAGE="null", WATCHER_SETTINGS__AIRFLOW="null") == []
    [problem] = loaded(document, WATCHER_SETTINGS__OPENLINEAGE="http://h")
    assert problem == "None: settings.openlineage: is not built; remove it"


def test_what_is_not_reserved_stays_unknown(loaded: Callable[..., list[str]]) -> None:
    assert "is not a key here; did you mean `home`?" in loaded(written("settings.hom", "x"))[0]
    assert "is not a key here" in loaded(written("assets.*.isolation", "none"))[0]


def test_options_of_another_application_are_not_checked(loaded: Callable[..., list[str]]) -> None:
    spark = {"application": "a.py", "options": {"format": "delta", "schema_evolution": "add_columns"}}
    assert loaded(written("jobs.*.spark", spark)) == []


def test_a_key_that_a_model_has_is_not_reserved() -> None:
    """The entry of a key must be removed from the table when the key is built."""
    triggers = [kind.options for kind in vocabulary().triggers.values()]
    sections: dict[str, list[type[BaseModel]]] = {
        "settings.": [Settings],
        "assets.*.watchers.*.": triggers,
        "jobs.*.spark.options.": [IngestConfig],
        "jobs.*.": [JobConfig],
    }
    for path in KEYS:
        section = next(section for section in sections if path.startswith(section))
        *inner, key = path.removeprefix(section).split(".")
        for model in sections[section]:
            assert not any(key in keys(holder) for holder in models_at(model, tuple(inner))), path
