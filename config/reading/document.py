"""YAML files as plain values, with the place where each of them was written.

YAML 1.2: `yes` and timestamps are strings, keys are strings as written, a key given twice is a problem. A folder's
`*.yaml` and `*.yml` files are read as one document; each name in it may be defined in one of them only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from config.errors import ConfigurationInvalid, KeyPath, Problem, dotted
from config.reading.sources import yaml_files

_REMEDIES: Final[Mapping[str, str]] = {
    r"'\t'": "indent by spaces here, not by a tab",
    "undefined alias": "put quotes around the text that begins with `*` here",
    "could not find expected ':'": "put a space behind the colon of each key, here and in the line above",
}
"""What to do about mistakes that YAML's own words do not lead to."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """The place where a value was written: a line of a file, or an environment variable or a whole file (`line` None)."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(kw_only=True)
class Document:
    """The values of a YAML file. `locations` has every path in `data`, and () for the whole document.

    `problems` are those that did not prevent reading the rest.
    """

    data: dict[str, Any]
    locations: dict[KeyPath, Location]
    problems: list[Problem] = field(default_factory=list)

    def locate(self, path: KeyPath) -> Location:
        """The location of `path`, or of the nearest mapping or list around it."""
        while path not in self.locations:
            path = path[:-1]
        return self.locations[path]

    def problem(self, path: KeyPath, message: str) -> Problem:
        place = self.locate(path)
        return Problem(file=place.file, line=place.line, path=dotted(path), message=message)


def read(path: Path) -> Document:
    """Read the file `path`, or merge the YAML files of the folder `path`. Raises `ConfigurationInvalid` if it cannot be read."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for file in yaml_files(path):
        try:
            documents.append(_read_file(file))
        except ConfigurationInvalid as error:
            problems += error.problems
    if problems:
        raise ConfigurationInvalid(problems)
    whole = Document(data={}, locations={(): Location(file=str(path), line=None)})
    if len(documents) == 1:
        return documents[0]
    for document in documents:
        _merge(whole, document)
    return whole


def _read_file(file: Path) -> Document:
    root = _compose(file)
    if root is None:
        raise ConfigurationInvalid.in_file(file, "the file is empty; begin it with `version: 1`")
    if not isinstance(root, MappingNode):
        raise ConfigurationInvalid.in_file(
            file, "must be a mapping (`key: value`) that begins with `version: 1`", _line(root)
        )
    reader = _NodeReader(str(file), most=max(_MANY_VALUES, root.end_mark.index))
    data = reader.value(root, ())
    return Document(data=data, locations=reader.locations, problems=reader.problems)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationInvalid.in_file(
            file, "no such file; create it, or name another with --config or WATCHER_CONFIG"
        ) from None
    except OSError as error:
        raise ConfigurationInvalid.in_file(file, f"cannot be read ({error.strerror}); check its permissions") from None
    except UnicodeDecodeError:
        raise ConfigurationInvalid.in_file(file, "is not UTF-8 text; save it as UTF-8") from None


def _remedy(reason: str, line: str) -> str:
    """Return what to do about a line at which the parser stopped."""
    if "${" in line:
        return "put quotes around the `${…}` here"
    return next(
        (remedy for part, remedy in _REMEDIES.items() if part in reason), "correct indentation, brackets or quotes here"
    )


def _compose(file: Path) -> Node | None:
    text = _text(file)
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        remedy = _remedy(reason, "".join(text.splitlines()[line - 1 : line]))
        raise ConfigurationInvalid.in_file(file, f"is not valid YAML ({reason}); {remedy}", line) from None
    except YAMLError:
        raise ConfigurationInvalid.in_file(
            file, "is not valid YAML (it holds a control character); remove it"
        ) from None
    except RecursionError:
        raise ConfigurationInvalid.in_file(file, "is nested too deeply; flatten it") from None
    return root


def _merge(whole: Document, part: Document) -> None:
    """Add the sections of `part` name by name, so that the entries of a section may stand in several files."""
    whole.problems += part.problems
    for section, content in part.data.items():
        present = whole.data.get(section)
        if present is None:
            whole.data[section] = content
        elif isinstance(content, dict) and isinstance(present, dict):
            for name in content.keys() & present.keys():
                whole.problems.append(_defined_twice(part, (section, name), whole.locations[section, name]))
            present.update({name: value for name, value in content.items() if name not in present})
        elif content is not None and content != present:
            whole.problems.append(_defined_twice(part, (section,), whole.locations[section,]))
    whole.locations = {**part.locations, **whole.locations}


def _defined_twice(document: Document, path: KeyPath, first: Location) -> Problem:
    return document.problem(path, f"is defined twice, first at {first}; remove or rename one of them")


_MANY_VALUES: Final = 100_000
"""A number of values that fits into memory, however short the file is."""


class _NodeReader:
    """Turns the nodes of one file into values. It goes on after a problem, so that all problems are reported."""

    def __init__(self, file: str, *, most: int) -> None:
        """Read at most `most` values.

        Without aliases a file holds fewer values than characters; aliases of aliases can stand for any number.
        """
        self.locations: dict[KeyPath, Location] = {(): Location(file=file, line=None)}
        self.problems: list[Problem] = []
        self._file = file
        self._most = most
        self._open: list[Node] = []

    def value(self, node: Node, path: KeyPath) -> Any:
        self._most -= 1
        if self._most < 0:
            message = "holds too many values through aliases (`*…`) of aliases; write them out, or leave some out"
            raise ConfigurationInvalid.in_file(Path(self._file), message, _line(node))
        if any(node is outer for outer in self._open):
            return self._problem(node, path, "contains itself through an alias (`*…`); write the value out")
        self._open.append(node)
        try:
            return self._content(node, path)
        finally:
            self._open.pop()

    def _content(self, node: Node, path: KeyPath) -> Any:
        kind = str(node.tag).removeprefix("tag:yaml.org,2002:")
        match node:
            case MappingNode() if kind == "map":
                return self._mapping(node, path)
            case SequenceNode() if kind == "seq":
                return [self._member(item, item, (*path, index)) for index, item in enumerate(node.value)]
            case ScalarNode() if kind in _SCALARS:
                if (text := _whole(node.value)) is None:
                    return self._problem(
                        node, path, "holds half of a character (a lone surrogate); write the whole character"
                    )
                try:
                    return _SCALARS[kind](text)
                except ValueError:
                    return self._problem(node, path, f"the value does not match its tag `!!{kind}`; remove the tag")
        return self._problem(node, path, f"the tag `{node.tag}` has no meaning here; remove it")

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            name = _whole(key.value) if isinstance(key, ScalarNode) else None
            if name is None:
                self._problem(key, path, "a key must be plain text; give it a name")
            elif name == "<<":
                self._problem(
                    key, path, "YAML 1.2 has no merge key (`<<`); repeat the keys, or share a whole value by `*…`"
                )
            elif name in mapping:
                first = self.locations[*path, name]
                self._problem(key, (*path, name), f"is defined twice, first at {first}; remove one of them")
            else:
                mapping[name] = self._member(key, value, (*path, name))
        return mapping

    def _member(self, start: Node, value: Node, path: KeyPath) -> Any:
        self.locations[path] = Location(file=self._file, line=_line(start))
        return self.value(value, path)

    def _problem(self, node: Node, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(file=self._file, line=_line(node), path=dotted(path), message=message))


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _whole(text: str) -> str | None:
    """`text` with each pair of surrogates (JSON's escapes make them) as one character. None if one lacks its other half."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16") if _SURROGATE.search(text) else text
    except UnicodeDecodeError:
        return None


def _integer(text: str) -> int:
    """The number that `text` writes: decimal even with leading zeros, as YAML 1.2 says, or `0x…`, `0o…`."""
    digits = text.replace("_", "")
    try:
        return int(digits)
    except ValueError:
        return int(digits, base=0)


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    "str": str,
    "timestamp": str,
    "int": _integer,
    "float": lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan").replace(".Inf", "inf")),
    "bool": lambda text: text.lower() in {"true", "yes", "on"},  # the latter two under a `%YAML 1.1` directive
    "null": lambda _: None,
}
