"""How files are packed: by name, without regard to case, and confirmed by the first bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Final

from asset_job.errors import FileInvalid

if TYPE_CHECKING:
    import pyarrow as pa

PIECE: Final = 4 << 20
"""Bytes of one piece of a file."""
_LARGE_PIECE: Final = 16 << 20
"""Bytes of a packed file that are fetched at once."""
LONGEST_MARK: Final = 6
_ENDINGS: Final = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd", ".lz4": "lz4"}
_MARKS: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"PAR1": "Parquet",
    b"Obj\x01": "Avro",
}
"""The first bytes of what is no text -> its name. A text never begins with them, but for `BZh`, `PAR1` and `ORC`."""
_CAN_BE_TEXT: Final = {"bz2", "Parquet"}


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
    """The packing of a file of text that begins with these bytes. Raises `FileInvalid` if its name says something else."""
    named = codec_by_name(name)
    real = next((kind for mark, kind in _MARKS.items() if first.startswith(mark)), None)
    if named is None and real in _CAN_BE_TEXT and not _is_binary(first):
        real = None
    if named == real or (named is not None and not first):
        return named
    by_name, by_content = (f"packed by {named}" if named else "text"), (f"{real}" if real else "not packed")
    raise FileInvalid(f"{name} is {by_name} by its name, and {by_content} by its first bytes: rename the file")


def _is_binary(first: bytes) -> bool:
    return any(byte < ord("\t") for byte in first) or (first.startswith(b"BZh") and first[3:4].isdigit())


def checked(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The pieces of a file that is not packed, by its name and by its first bytes. Raises `FileInvalid`."""
    first = next(pieces, b"")
    check_packing(name, first[:LONGEST_MARK])
    if first:
        yield first
        yield from pieces


def unpacked_if_named(stored: IO[bytes], name: str) -> Iterator[bytes]:
    """The bytes that a file holds which its name may say is packed, a few megabytes at a time. Raises `FileInvalid`."""
    buffered = io.BufferedReader(stored, _LARGE_PIECE)  # type: ignore[type-var]  # any raw stream
    codec = check_packing(name, buffered.peek(LONGEST_MARK)[:LONGEST_MARK])
    if codec is None:
        yield from iter(lambda: buffered.read(PIECE), b"")
        return
    import pyarrow as pa  # noqa: PLC0415 - names are also looked at where pyarrow is missing

    with pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), codec) as decompressed:
        while piece := _read(decompressed, name):
            yield piece


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
