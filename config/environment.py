"""Settings from the environment: `WATCHER_SETTINGS__API__HOST=0.0.0.0` wins over the file's `settings.api.host`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from config.document import Document, Location

PREFIX: Final = "WATCHER_SETTINGS__"


def override_settings(document: Document, environ: Mapping[str, str]) -> None:
    """Put the environment's settings into `document`, where errors will name the variable as their place.

    Values are text and coerced to the setting's type; `null`, and what begins with `{` or `[`, is read as YAML. They are
    escaped, so that interpolation gives them back as they are.
    """
    for variable in sorted(environ, key=lambda name: (name.count("__"), name)):  # a whole section before its members
        if variable.startswith(PREFIX):
            _put(document, variable, environ[variable].replace("$", "$$"))


def _put(document: Document, variable: str, text: str) -> None:
    *sections, key = ("settings", *variable.removeprefix(PREFIX).lower().split("__"))
    values = document.data
    for section in sections:
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            return  # the section is wrong in itself, and is told so
    path = (*sections, key)
    document.locations[path] = Location(file=variable, line=None)
    try:
        values[key] = _value(text)
    except YAMLError:
        document.problems.append(document.problem(path, "is not valid YAML; mend its brackets or quotes"))


def _value(text: str) -> Any:
    if text == "null" or text.startswith(("{", "[")):
        return YAML(typ="safe", pure=True).load(text)
    return text
