"""Manifests: files that name the files of a partition, as lines or as JSON (pure).

A name without a scheme or a leading `/` is relative to the folder of its manifest. In events a name stands relative to that
folder if the file lies below it, else it is an address: `s3://bucket/key`, or an absolute path.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from triggers.shared.globs import glob_expression

LARGEST: Final = 1_000_000
"""The most bytes of a manifest."""
MOST_NAMES: Final = 10_000
"""The most names in a manifest."""
_LONGEST_WRITTEN: Final = 4_000_000
"""The most characters of the names of one manifest in its event, as JSON: many absolute ones may be longer than the manifest."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_S3: Final = frozenset({"s3", "s3a", "s3n"})
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class BadManifest(ValueError):
    """A manifest cannot be read as one. Its text is the reason, for people."""


def end_matcher(globs: Collection[str]) -> Callable[[str], bool]:
    """Return whether a glob matches the end of a key or path, from any folder on."""
    expressions = [glob_expression(f"**/{glob.removeprefix('/')}") for glob in globs]
    return lambda name: any(expression.search(name) for expression in expressions)


def name_of(file: Any) -> str:
    """Return the key or the path of a file in an event; '' if it has neither."""
    name = (file.get("key") or file.get("path")) if isinstance(file, Mapping) else file
    return name if isinstance(name, str) else ""


def address_of(file: Any) -> str:
    """Return the one address of a file in an event, whichever watcher reported it: an `s3:` URL, or an absolute path."""
    name = name_of(file)
    if isinstance(file, Mapping) and file.get("key"):
        return f"s3://{file.get('bucket')}/{name}"
    return _normal(name) if name else ""


def addresses(names: Sequence[str], manifest: str) -> Iterator[str]:
    """Yield the addresses of the files that a manifest names. `names` are as its event has them, `manifest` is its address."""
    folder = _folder(manifest)
    return (name if _is_address(name) else f"{folder}{name}" for name in names)


def parse(content: bytes, manifest: str) -> Sequence[str]:
    """Return the names in a manifest, each once, as its event has them. `manifest` is its address. Raises `BadManifest`."""
    if len(content) > LARGEST:
        raise BadManifest(f"it has more than {LARGEST:,} bytes")
    try:
        text = content.decode("utf-8-sig").strip(" \t\r\n")
    except UnicodeDecodeError as error:
        raise BadManifest(f"its byte {error.start} is not UTF-8") from error
    if not text:
        raise BadManifest("it names no file; write [] where none is meant")
    names = _json_names(text) if text[0] in "[{" else _line_names(text)
    if len(names) > MOST_NAMES:
        raise BadManifest(f"it has more than {MOST_NAMES:,} names")
    folder = _folder(manifest)
    written = list(dict.fromkeys(_shortened(_address(name, folder), folder) for name in names))
    if len(json.dumps(written)) > _LONGEST_WRITTEN:
        raise BadManifest(
            f"its names have more than {_LONGEST_WRITTEN:,} characters once they are absolute; name files below it"
        )
    return written


def _line_names(text: str) -> Sequence[str]:
    return [name for line in _LINE_END.split(text) if (name := line.strip(" \t"))]


def _json_names(text: str) -> Sequence[str]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"it begins like JSON, and is none ({error})") from error
    listed, each_is = content, "each element of the list must be a text"
    if isinstance(content, dict):
        entries = content.get("entries")
        if not isinstance(entries, list):
            raise BadManifest("it is a JSON object without a list `entries`")
        listed, each_is = [_url_of(entry) for entry in entries], "`entries` must be objects, each with a text `url`"
    names = [name for name in listed if isinstance(name, str) and name]
    if len(names) < len(listed):
        raise BadManifest(each_is)
    return names


def _url_of(entry: Any) -> Any:
    return entry.get("url") if isinstance(entry, dict) else None


def _address(name: str, folder: str) -> str:
    """Return the address that a name means. Raises `BadManifest`."""
    if "\0" in name or _is_no_text(name):
        raise BadManifest(f"{name!r} cannot be the name of a file")
    if (match := _SCHEME.fullmatch(name)) is not None:
        return _of_url(match[1].lower(), match[2], name)
    if name.startswith("/") and folder.startswith("s3://"):
        return f"{_bucket(folder)}{_of_a_file(name, name)}"
    path = _of_a_path(name, name)
    return _normal(path) if path.startswith("/") else _joined(folder, path)


def _of_a_file(place: str, name: str) -> str:
    """Return where a name leads. Raises `BadManifest` if that is a folder: no such file ever comes."""
    if place.endswith("/"):
        raise BadManifest(f"it names {name!r}, which is a folder and no file")
    return place


def _of_a_path(path: str, name: str) -> str:
    is_above = path.rpartition("/")[2] in {".", ".."}
    return _of_a_file(f"{path}/" if is_above else path, name)


def _is_no_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as JSON may have it
        return True
    return False


def _of_url(scheme: str, rest: str, name: str) -> str:
    if scheme in _S3 and all(rest.partition("/")[::2]):
        return f"s3://{_of_a_file(rest, name)}"
    if scheme == "file" and rest.startswith("/") and "\0" not in (path := unquote(rest)):
        return _normal(_of_a_path(path, name))
    raise BadManifest(f"{name!r} is no address of a file: write s3://bucket/key, file:///path, or a relative name")


def _joined(folder: str, name: str) -> str:
    """Return a relative name at its folder. `.` and `..` are folders, as in a path; empty ones stay, because keys have them."""
    bucket = _bucket(folder)
    above = folder.removeprefix(bucket).split("/")[1:-1]
    segments: list[str] = []
    for segment in name.split("/"):
        if segment == "..":
            if not (segments or above):
                raise BadManifest(f"{name!r} leads out of the place where the manifest lies")
            (segments or above).pop()
        elif segment != ".":
            segments.append(segment)
    address = "/".join((bucket, *above, *segments))
    return address if bucket else _normal(address)


def _folder(manifest: str) -> str:
    """Return the address of a manifest's folder, with the `/` at its end."""
    return manifest[: manifest.rfind("/") + 1]


def _bucket(address: str) -> str:
    """Return `s3://bucket` of an address; '' for a path."""
    return f"s3://{address.removeprefix('s3://').partition('/')[0]}" if address.startswith("s3://") else ""


def _shortened(address: str, folder: str) -> str:
    below = address.removeprefix(folder)
    return address if not below or _is_address(below) else below


def _is_address(name: str) -> bool:
    return name.startswith(("/", "s3://"))


def _normal(path: str) -> str:
    """Return a path without `.`, `..` and empty folders. It names the same file, unless a link leads out of a folder."""
    return posixpath.normpath(f"/{path.lstrip('/')}" if path.startswith("//") else path)
