"""Values from outside the YAML: references in its text, and settings from the environment.

`${NAME}`, `${NAME:-default}`, `${file:/run/secrets/x}` and `$$` are replaced in the string scalars of a parsed document. It
happens after parsing, so a value from outside cannot change the document's structure, and only in values, never in keys. A
value from outside is not expanded again. `WATCHER_SETTINGS__API__HOST=0.0.0.0` wins over the file's `settings.api.host`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from config.errors import KeyPath
from config.reading.document import Document, Location
from config.reading.sources import Stamp, stamp

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
    """Replaces references, and remembers the values so that no message shows them.

    `problems` are (path, sentence), one for each reference that cannot be replaced. Its text stays as it is.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        """Relative paths in `${file:…}` start at `folder`."""
        self.problems: list[tuple[KeyPath, str]] = []
        self.files: dict[Path, Stamp] = {}
        """The stamps of all files that `${file:…}` names, taken just before reading; None for a file that does not exist."""
        self._names: set[str] = set()
        self._environ = environ
        self._folder = folder
        self._values: list[tuple[KeyPath, str, str]] = []

    @property
    def names(self) -> frozenset[str]:
        """The names of the environment variables that were looked up."""
        return frozenset(self._names)

    def expand(self, value: Any, path: KeyPath = ()) -> Any:
        """A copy of `value` with the references in all its strings replaced."""
        if isinstance(value, dict):
            return {key: self.expand(member, (*path, key)) for key, member in value.items()}
        if isinstance(value, list):
            return [self.expand(member, (*path, index)) for index, member in enumerate(value)]
        if isinstance(value, str):
            return _REFERENCE.sub(lambda match: self._replacement(match, path), value)
        return value

    def hide(self, sentence: str, path: KeyPath) -> str:
        """`sentence`, about `path`, with references in place of the values that were put in there or elsewhere in the same entry."""
        for place, text, reference in self._values:
            if place[:2] == path[:2] and len(text) >= _SHORTEST_SECRET:
                sentence = reference.join(re.split(rf"(?<!\w){re.escape(text)}(?!\w)", sentence))
        return sentence

    def _replacement(self, match: re.Match[str], path: KeyPath) -> str:
        if match["dollar"]:
            return "$"
        try:
            text = self._look_up(match)
        except LookupError as error:
            self.problems.append((path, str(error.args[0])))
            return match[0]
        self._values.append((path, text, match[0]))
        return text

    def _look_up(self, match: re.Match[str]) -> str:
        if match["malformed"]:
            raise LookupError(
                "`${` does not begin a reference: write `${NAME}`, `${NAME:-default}` or `${file:/path}`, and `$$` for a plain $"
            )
        if match["file"]:
            return self._file(match["file"])
        self._names.add(match["name"])
        value = self._environ.get(match["name"])
        if match["default"] is not None:
            return value or match["default"]
        if value is None:
            raise LookupError(
                f"the environment variable {match['name']} is not set; set it, or write `${{{match['name']}:-default}}`"
            )
        return value

    def _file(self, name: str) -> str:
        """The file's text without line breaks at its end: editors add them, and secrets do not have them."""
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
    """Put the settings from the environment into `document`. An error in one names the variable as its place.

    Values are text, and are coerced to the setting's type. `null`, and a value that begins with `{` or `[`, is read as YAML.
    Each `$` is escaped, so that interpolation restores the value as it was.
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
            return  # the section is no mapping, which is reported when it is validated
    path = (*sections, key)
    document.locations[path] = Location(file=variable, line=None)
    try:
        is_yaml = text == "null" or text.startswith(("{", "["))
        values[key] = YAML(typ="safe", pure=True).load(text) if is_yaml else text
    except YAMLError:
        document.problems.append(document.problem(path, "is not valid YAML; correct its brackets or quotes"))
