"""Values from outside the YAML: references in its text, and settings from the environment.

`${NAME}`, `${NAME:-default}`, `${file:/run/secrets/x}` and `$$` are replaced in the string scalars of a parsed document. It
happens after parsing, so what is put in cannot change the document's structure, and only in values, never in keys. What is
put in is not looked at again. `WATCHER_SETTINGS__API__HOST=0.0.0.0` wins over the file's `settings.api.host`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from config.document import Document, KeyPath, Location
from config.sources import Stamp, stamp

PREFIX: Final = "WATCHER_SETTINGS__"

_REFERENCE: Final = re.compile(
    r"""
      (?P<dollar> \$\$ )
    | \$\{ file: (?P<file> [^{}]+ ) \}
    | \$\{ (?P<name> [A-Za-z_][A-Za-z0-9_]* ) (?: :- (?P<default> (?: (?!\$\{) [^}] )* ) )? \}
    | (?P<malformed> \$\{ )
    """,
    re.VERBOSE,
)
_SHORTEST_SECRET: Final = 4  # anything shorter would hide ordinary words of a message


class Interpolation:
    """Replaces references and remembers what it put in, so that no message shows it.

    `problems` are (path, sentence), one for each reference that leads nowhere; its text stays in place.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        """Relative `${file:…}` start at `folder`."""
        self.problems: list[tuple[KeyPath, str]] = []
        self.files: dict[Path, Stamp] = {}
        """Those that `${file:…}` names, there or not, as they were when they were read."""
        self._names: set[str] = set()
        self._environ = environ
        self._folder = folder
        self._put_in: list[tuple[KeyPath, str, str]] = []

    @property
    def names(self) -> frozenset[str]:
        """The names of the environment that were looked up."""
        return frozenset(self._names)

    def expand(self, value: Any, path: KeyPath = ()) -> Any:
        """A copy of `value` with the references in all its strings replaced."""
        if isinstance(value, dict):
            return {key: self.expand(member, (*path, key)) for key, member in value.items()}
        if isinstance(value, list):
            return [self.expand(member, (*path, index)) for index, member in enumerate(value)]
        if isinstance(value, str):
            return _REFERENCE.sub(lambda found: self._replacement(found, path), value)
        return value

    def hide(self, sentence: str, path: KeyPath) -> str:
        """`sentence` about `path` with references in place of what was put in there or elsewhere in the same section."""
        for place, text, reference in self._put_in:
            if place[:2] == path[:2] and len(text) >= _SHORTEST_SECRET:
                sentence = reference.join(re.split(rf"(?<!\w){re.escape(text)}(?!\w)", sentence))
        return sentence

    def _replacement(self, found: re.Match[str], path: KeyPath) -> str:
        if found["dollar"]:
            return "$"
        try:
            text = self._looked_up(found)
        except LookupError as error:
            self.problems.append((path, str(error.args[0])))
            return found[0]
        self._put_in.append((path, text, found[0]))
        return text

    def _looked_up(self, found: re.Match[str]) -> str:
        if found["malformed"]:
            raise LookupError(
                "`${` begins no reference: write `${NAME}`, `${NAME:-default}` or `${file:/path}`, and `$$` for a plain $"
            )
        if found["file"]:
            return self._file(found["file"])
        self._names.add(found["name"])
        value = self._environ.get(found["name"])
        if found["default"] is not None:
            return value or found["default"]
        if value is None:
            raise LookupError(
                f"the environment variable {found['name']} is not set; set it, or write `${{{found['name']}:-default}}`"
            )
        return value

    def _file(self, name: str) -> str:
        """The file's text without the line breaks at its end, which editors add and secrets do not have."""
        file = self._folder / name
        try:
            self.files[file] = stamp(file)
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            reason = error.strerror
        except UnicodeDecodeError:
            reason = "it is not UTF-8 text"
        except ValueError:
            reason = "no file has such a name"
        raise LookupError(f"the file {name} cannot be read ({reason}); create it or correct the path")


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
        is_yaml = text == "null" or text.startswith(("{", "["))
        values[key] = YAML(typ="safe", pure=True).load(text) if is_yaml else text
    except YAMLError:
        document.problems.append(document.problem(path, "is not valid YAML; mend its brackets or quotes"))
