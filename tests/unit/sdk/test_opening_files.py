"""Files are opened as what they are: the version that was detected, packed or not by name and content."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from asset_job.errors import BadRecordFound, FileInvalid, FileUnreadable
from asset_job.sources.file_reader import FilesReader, errors_naming
from asset_job.sources.local_files import LocalAccess
from asset_job.sources.options import ReadOptions
from asset_job.sources.packing import checked, unpacked_if_named
from asset_job.sources.parquet.parser import ParquetParser
from asset_job.sources.records import BadRecord
from asset_job.sources.request import LocalSourceFile, format_by_name, items_of

TEXT = b"id,note\n1,a\n"


def detected(path: Path) -> LocalSourceFile:
    """The file as an event names it."""
    status = path.stat()
    return LocalSourceFile(
        path=str(path), size=status.st_size, modified=status.st_mtime_ns // 1000, inode=status.st_ino
    )


def content(file: LocalSourceFile) -> bytes:
    access = LocalAccess()
    [(same, opening)] = access.opened([file])
    with errors_naming(access, same), opening() as opened:
        return b"".join(opened.pieces())


def written(folder: Path, name: str, body: bytes) -> LocalSourceFile:
    (folder / name).write_bytes(body)
    return detected(folder / name)


def zstd(body: bytes, codec: str = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as packed:
        packed.write(body)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "name",
    [
        "a:b.csv",
        "2026-01-01T10:00:00.csv",
        "[1] {x}*?.csv",
        ".hidden.csv",
        "_under.csv",
        "two\nlines.csv",
        "ü 100%.csv",
        "\\x.csv",
    ],
)
def test_a_local_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    assert content(written(tmp_path, name, TEXT)) == TEXT


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.csv.gz", gzip.compress(TEXT, mtime=0)),
        ("A.CSV.GZ", gzip.compress(TEXT, mtime=0)),
        ("two.csv.gz", gzip.compress(TEXT[:5], mtime=0) + gzip.compress(TEXT[5:], mtime=0)),
        ("a.csv.bz2", bz2.compress(TEXT)),
        ("a.CSV.Bz2", bz2.compress(TEXT[:5]) + bz2.compress(TEXT[5:])),
        ("a.csv.zst", zstd(TEXT)),
        ("a.csv.lz4", zstd(TEXT, "lz4")),
    ],
)
def test_a_packed_file_is_known_by_its_name_in_any_case(tmp_path: Path, name: str, body: bytes) -> None:
    assert format_by_name(name) == "csv"
    assert content(written(tmp_path, name, body)) == TEXT


@pytest.mark.parametrize(
    ("name", "body", "sentence"),
    [
        (
            "a.csv",
            gzip.compress(TEXT, mtime=0),
            "a.csv is text by its name, and gzip by its first bytes: rename the file",
        ),
        (
            "a.csv.gz",
            TEXT,
            "a.csv.gz is packed by gzip by its name, and not packed by its first bytes: rename the file",
        ),
        ("a.csv.gz", zstd(TEXT), "packed by gzip by its name, and zstd by its first bytes"),
        ("a.json", b"PK\x03\x04\x14\x00", "a.json is zip, which is not read"),
        ("a.json", b"PAR1\x15\x04\x15", "text by its name, and Parquet by its first bytes"),
        ("a.csv.gz", gzip.compress(TEXT * 1000, mtime=0)[:-9], "a.csv.gz cannot be unpacked: "),
        ("a.csv.gz", gzip.compress(TEXT, mtime=0) + b"no gzip", "a.csv.gz cannot be unpacked: "),
    ],
)
def test_a_file_whose_content_is_not_what_its_name_says_is_refused(
    tmp_path: Path, name: str, body: bytes, sentence: str
) -> None:
    with pytest.raises(FileInvalid) as refused:
        content(written(tmp_path, name, body))
    assert sentence in str(refused.value)


def tar(form: int = tarfile.PAX_FORMAT, body: bytes = TEXT) -> bytes:
    """An archive with one file."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=form) as archive:
        member = tarfile.TarInfo("logs/a.csv")
        member.size = len(body)
        archive.addfile(member, io.BytesIO(body))
    return written.getvalue()


def old_tar() -> bytes:
    """An archive as before the magic word `ustar`, which has the sum of its header alone."""
    body = bytearray(tar(tarfile.USTAR_FORMAT))
    body[257:265] = bytes(8)
    body[148:156] = b" " * 8
    body[148:156] = b"%06o\0 " % sum(body[:512])
    return bytes(body)


ARCHIVES = {
    "pax": ("tar", tar()),
    "gnu": ("tar", tar(tarfile.GNU_FORMAT)),
    "ustar": ("tar", tar(tarfile.USTAR_FORMAT)),
    "old tar": ("tar", old_tar()),
    "zip": ("zip", b"PK\x03\x04\x14\x00" + bytes(600)),
    "7z": ("7z", b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(600)),
    "xz": ("xz", lzma.compress(TEXT)),
    "rar": ("rar", b"Rar!\x1a\x07\x01\x00" + bytes(600)),
}
"""What archives begin with, and how they are called."""
PACKINGS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "": (bytes, ""),
    ".gz": (gzip.compress, " packed by gzip"),
    ".bz2": (bz2.compress, " packed by bz2"),
    ".zst": (zstd, " packed by zstd"),
    ".lz4": (lambda body: zstd(body, "lz4"), " packed by lz4"),
}


@pytest.mark.parametrize("ending", PACKINGS)
@pytest.mark.parametrize("archive", ARCHIVES)
def test_an_archive_is_refused_whatever_its_name_says(tmp_path: Path, archive: str, ending: str) -> None:
    (kind, body), (pack, packed), name = ARCHIVES[archive], PACKINGS[ending], f"logs.csv{ending}"
    with pytest.raises(FileInvalid) as refused:
        content(written(tmp_path, name, pack(body)))
    assert f"{name} is {kind}{packed}, which is not read: unpack it" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "pack", "kind"),
    [
        ("logs.tar", bytes, "tar"),
        ("logs.tar.gz", gzip.compress, "tar"),
        ("LOGS.TGZ", gzip.compress, "tar"),
        ("logs.tar.bz2", bz2.compress, "tar"),
        ("logs.tbz2", bz2.compress, "tar"),
        ("logs.tar.zst", zstd, "tar"),
        ("logs.tar.xz", lzma.compress, "xz"),
        ("logs.txz", lzma.compress, "xz"),
        ("logs.7z", lambda _: ARCHIVES["7z"][1], "7z"),
        ("logs.rar", lambda _: b"", "rar"),
    ],
)
@pytest.mark.parametrize("body", ["files", "no file"])
def test_an_archive_is_refused_by_its_name(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], kind: str, body: str
) -> None:
    packed = pack(tar() if body == "files" else bytes(10_240))
    with pytest.raises(FileInvalid, match=f"{name} is {kind}, which is not read: unpack it"):
        content(written(tmp_path, name, packed))


def test_what_is_packed_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileInvalid, match=r"a\.csv\.gz is packed by gzip, and holds zstd and no text"):
        content(written(tmp_path, "a.csv.gz", gzip.compress(zstd(TEXT))))


def test_an_archive_is_refused_in_whatever_pieces_it_comes() -> None:
    body = tar()
    with pytest.raises(FileInvalid, match=r"a\.csv is tar, which"):
        list(checked((body[at : at + 7] for at in range(0, len(body), 7)), "a.csv"))
    text = TEXT * 100
    assert b"".join(checked((text[at : at + 7] for at in range(0, len(text), 7)), "a.csv")) == text


def test_the_first_part_of_a_large_archive_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", tar(body=TEXT * 1000))
    with pytest.raises(FileInvalid, match=r"a\.csv is tar, which"):
        content(replace(file, part=(0, 2000)))


def test_an_archive_is_no_parquet_file(tmp_path: Path) -> None:
    parser = ParquetParser(columns=pa.schema([("id", pa.int64())]), options=ReadOptions())
    for name in ("a.parquet", "a.tar"):
        file = written(tmp_path, name, tar())
        [(same, opening)] = LocalAccess().opened([file])
        with pytest.raises(FileInvalid, match=f"{name} is tar, which is not read"), opening() as opened:
            list(parser.parse(opened))
        assert same is file


@pytest.mark.parametrize("at", [256, 257, 258])
def test_a_text_may_have_the_word_of_tar_where_tar_has_it(tmp_path: Path, at: int) -> None:
    body = b"x" * at + b"ustar\n" + b"0" * 600
    assert content(written(tmp_path, "a.txt", body)) == body
    assert content(written(tmp_path, "a.txt.gz", gzip.compress(body))) == body


@pytest.mark.parametrize("body", [b"", b"BZh is a name\n", b"PAR1S is a text\n", b"P", b"\xff\xfea\x00"])
def test_a_text_may_begin_as_it_likes(tmp_path: Path, body: bytes) -> None:
    assert content(written(tmp_path, "a.txt", body)) == body


def test_a_file_that_was_changed_since_it_was_detected_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    file = written(tmp_path, "a.csv", TEXT)
    stamps = (path.stat().st_atime_ns, path.stat().st_mtime_ns)

    def appended() -> None:
        path.write_bytes(TEXT + b"2,b\n")

    def same_size() -> None:
        path.write_bytes(TEXT.replace(b"a", b"b"))
        os.utime(path, ns=(stamps[0], stamps[1] + 1000))

    def another_inode() -> None:
        path.rename(tmp_path / "before")
        path.write_bytes(TEXT)
        os.utime(path, ns=stamps)

    for change in (appended, same_size, another_inode):
        change()
        with pytest.raises(FileUnreadable, match=r"a\.csv was overwritten since it was detected; put it back"):
            content(file)
    path.unlink()
    with pytest.raises(FileUnreadable, match=r"a\.csv was deleted since it was detected; put it back"):
        content(file)


def test_a_file_that_changes_while_it_is_read_is_not_read(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", TEXT)
    access = LocalAccess()
    [(_, opening)] = access.opened([file])
    with ExitStack() as reading:
        assert b"".join(reading.enter_context(opening()).pieces()) == TEXT
        (tmp_path / "a.csv").write_bytes(TEXT + b"2,b\n")
        with pytest.raises(FileUnreadable, match="was overwritten"):
            reading.close()


def test_an_event_of_an_earlier_version_names_no_inode(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT)
    stamp = path.stat().st_mtime_ns // 1000
    moment = f"2026-11-26T00:00:{stamp % 60_000_000 / 1_000_000:09.6f}Z"
    given: dict[str, Any] = {"path": str(path), "size": len(TEXT)}
    [plain] = items_of([given], [])
    assert content(plain) == TEXT
    [stamped] = items_of([{**given, "last_modified": moment}], [])
    assert (stamped.inode, stamped.modified % 1_000_000) == (None, stamp % 1_000_000)


class Halves:
    """Parses no format: a file's bytes are one row, then there is a bad record."""

    columns = pa.schema([("text", pa.string())])

    def parse(self, file: Any) -> Any:
        yield pa.record_batch([[b"".join(file.pieces()).decode()]], schema=self.columns)
        yield BadRecord(record="x", at="line 2", reason="it is bad", count=3)


@pytest.mark.parametrize("skip", [False, True])
def test_a_bad_record_fails_the_read_or_is_kept_or_dropped(tmp_path: Path, skip: bool) -> None:
    shares = [[written(tmp_path, "a.csv", TEXT)], [written(tmp_path, "broken.csv", gzip.compress(TEXT, mtime=0))]]

    def rows(bad: Any, share: int) -> list[dict[str, Any]]:
        reader = FilesReader(access=LocalAccess(), shares=shares, parser=Halves(), bad=bad, skip=skip)
        return [row for batch in reader.read(reader.partitions()[share]) for row in batch.to_pylist()]

    name = shares[0][0].path
    bad = {"_record": "x", "_file": name, "_at": "line 2", "_reason": "it is bad", "_count": 3}
    assert rows("keep", 0) == [{"0": TEXT.decode(), "1": None}, {"0": None, "1": bad}]
    assert rows("drop", 0) == [{"0": TEXT.decode()}]
    with pytest.raises(BadRecordFound, match=r"a\.csv, line 2: it is bad; correct the file, or read with a schema"):
        rows("fail", 0)
    if skip:
        [left_out] = rows("keep", 1)
        assert left_out["1"]["_at"] == "file"
        assert "by its first bytes" in left_out["1"]["_reason"]
        assert rows("fail", 1) == []
    else:
        with pytest.raises(FileInvalid, match="by its first bytes"):
            rows("keep", 1)


class Failing(io.BytesIO):
    """A disk that fails behind the first bytes."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_disk_that_fails_is_not_the_fault_of_a_packed_file(ending: str) -> None:
    content = os.urandom(20 << 20)
    packed = gzip.compress(content, 1) if ending == "gz" else pa.compress(content, "zstd", asbytes=True)
    with pytest.raises(OSError, match="Input/output error"):
        list(unpacked_if_named(Failing(packed), f"a.csv.{ending}"))


class Truncated:
    """Parses no format: a row, before it is seen that the file is broken."""

    columns = pa.schema([("text", pa.string())])

    def parse(self, file: Any) -> Any:
        yield pa.record_batch([["a row"]], schema=self.columns)
        raise FileInvalid(f"{file.name} is cut off")


def test_a_file_that_turns_out_to_be_broken_is_left_out_as_a_whole(tmp_path: Path) -> None:
    shares = [[written(tmp_path, "a.csv", TEXT)]]
    reader = FilesReader(access=LocalAccess(), shares=shares, parser=Truncated(), bad="keep", skip=True)
    [row] = [row for batch in reader.read(reader.partitions()[0]) for row in batch.to_pylist()]
    assert (row["0"], row["1"]["_reason"]) == (None, f"{shares[0][0].path} is cut off")
    strict = FilesReader(access=LocalAccess(), shares=shares, parser=Truncated(), bad="keep", skip=False)
    with pytest.raises(FileInvalid, match="is cut off"):
        list(strict.read(strict.partitions()[0]))
