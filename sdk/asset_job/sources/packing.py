"""How files are packed: by name, without regard to case, and confirmed by the first bytes. Archives are refused."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Final

from asset_job.errors import FileInvalid

if TYPE_CHECKING:
    import pyarrow as pa

PIECE: Final = 4 << 20
"""Bytes of one piece of a file."""
_LARGE_PIECE: Final = 16 << 20
"""Bytes of a packed file that are fetched at once."""
_LONGEST_MARK: Final = 6
BEGINNING: Final = 512
"""The first bytes of a file that tell what it is: a header of tar."""
_ENDINGS: Final = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd", ".lz4": "lz4"}
_MARKS: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"PAR1": "Parquet",
    b"Obj\x01": "Avro",
}
"""The first bytes of what is no text -> its name. A text never begins with them, but for `BZh`, `PAR1` and `ORC`."""
_CAN_BE_TEXT: Final = {"bz2", "Parquet"}
_ARCHIVES: Final = {"tar", "zip", "7z", "xz", "rar"}
"""What holds files, or is packed as nothing here unpacks."""
_ARCHIVE_ENDINGS: Final = re.compile(r"\.(?:(tar|7z|xz|rar)|t(?:gz|bz|bz2|zst|lz4|xz))$")
_TAR_SUM: Final = slice(148, 156)
"""Where the header of tar has the sum of its bytes, counting spaces here."""
_TAR_MAGIC: Final = slice(257, 262)


def codec_by_name(name: str) -> str | None:
    """The packing that a file's name implies; None if it implies none."""
    lower = name.lower()
    return next((codec for ending, codec in _ENDINGS.items() if lower.endswith(ending)), None)


def without_packing(name: str) -> str:
    """A file's name in lower case, without the endings of packings."""
    lower = name.lower()
    while ending := next((ending for ending in _ENDINGS if lower.endswith(ending)), None):
        lower = lower.removesuffix(ending)
    return lower


def check_packing(name: str, first: bytes) -> str | None:
    """The packing of a file of text that begins with these bytes. Raises `FileInvalid` if its name says something else.

    So it does for an archive, by its name or by its first bytes.
    """
    refuse_archive(name, first)
    named = codec_by_name(name)
    real = _kind(first, may_be_text=named is None)
    if named == real or (named is not None and not first):
        return named
    by_name, by_content = (f"packed by {named}" if named else "text"), (f"{real}" if real else "not packed")
    raise FileInvalid(f"{name} is {by_name} by its name, and {by_content} by its first bytes: rename the file")


def refuse_archive(name: str, first: bytes, packed: str = "") -> None:
    """Raise `FileInvalid` for an archive, by its name or by the first bytes, which were `packed`."""
    named = _ARCHIVE_ENDINGS.search(without_packing(name))
    kind = _kind(first)
    archive = kind if kind in _ARCHIVES else named and (named[1] or "tar")
    if archive is not None:
        raise FileInvalid(
            f"{name} is {archive}{packed}, which is not read: unpack it, and write what it holds as files of their own"
        )


def _kind(first: bytes, *, may_be_text: bool = True) -> str | None:
    """What a file is that begins so, and is no text; None: it may be one."""
    kind = next((kind for mark, kind in _MARKS.items() if first.startswith(mark)), None)
    if kind in _CAN_BE_TEXT and may_be_text and not _is_binary(first[:_LONGEST_MARK]):
        return None
    return "tar" if kind is None and _is_tar(first) else kind


def _is_binary(first: bytes) -> bool:
    return any(byte < ord("\t") for byte in first) or (first.startswith(b"BZh") and first[3:4].isdigit())


def _is_tar(first: bytes) -> bool:
    """Whether a file begins with a header of tar: the magic word with a NUL before it, or the sum of its bytes."""
    if first[_TAR_MAGIC] == b"ustar" and b"\0" in first[: _TAR_MAGIC.start]:
        return True
    written = re.fullmatch(rb" *([0-7]+)[ \0]*", first[_TAR_SUM])
    if written is None or len(first) < BEGINNING:
        return False
    counted = first[: _TAR_SUM.start] + b" " * 8 + first[_TAR_SUM.stop : BEGINNING]
    return sum(counted) == int(written[1], 8)


def checked(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The pieces of a file that is not packed, by its name and by its first bytes. Raises `FileInvalid`."""
    first = _beginning(pieces)
    check_packing(name, first[:BEGINNING])
    if first:
        yield first
        yield from pieces


def _beginning(pieces: Iterator[bytes]) -> bytes:
    """The first pieces, which tell what a file is; fewer bytes if the file has no more."""
    first = next(pieces, b"")
    while len(first) < BEGINNING and (piece := next(pieces, b"")):
        first += piece
    return first


def _checked_unpacked(pieces: Iterator[bytes], name: str, codec: str) -> Iterator[bytes]:
    """The pieces of what was packed, which is a text. Raises `FileInvalid` for what is packed twice, and for archives."""
    first = _beginning(pieces)
    refuse_archive(name, first[:BEGINNING], f" packed by {codec}")
    if (kind := _kind(first[:BEGINNING])) is not None:
        raise FileInvalid(
            f"{name} is packed by {codec}, and holds {kind} and no text: unpack it once, and write it again"
        )
    if first:
        yield first
        yield from pieces


def unpacked_if_named(stored: IO[bytes], name: str) -> Iterator[bytes]:
    """The bytes that a file holds which its name may say is packed, a few megabytes at a time. Raises `FileInvalid`."""
    buffered = io.BufferedReader(stored, _LARGE_PIECE)  # type: ignore[type-var]  # any raw stream
    codec = check_packing(name, buffered.peek(BEGINNING)[:BEGINNING])
    if codec is None:
        yield from checked(iter(lambda: buffered.read(PIECE), b""), name)
        return
    import pyarrow as pa  # noqa: PLC0415 - names are also looked at where pyarrow is missing

    with pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), codec) as decompressed:
        yield from _checked_unpacked(iter(lambda: _read(decompressed, name), b""), name, codec)


def _read(decompressed: pa.CompressedInputStream, name: str) -> bytes:
    """Some unpacked bytes. Raises `FileInvalid`."""
    try:
        return bytes(decompressed.read(PIECE))
    except OSError as error:
        if not is_of_content(error):
            raise
        raise FileInvalid(f"{name} cannot be unpacked: {error}; correct the file") from error


def is_of_content(error: Exception) -> bool:
    """Whether an error of Arrow's is about what it reads. A disk or connection that fails has a number, or a class of its own."""
    return not isinstance(error, OSError) or (error.errno is None and type(error) is OSError)
