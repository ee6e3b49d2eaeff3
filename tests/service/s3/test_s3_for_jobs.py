"""S3 for jobs without Spark: each kind of connection, and reading files."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import boto3
import obstore
import pyarrow as pa
import pytest
from obstore.store import MemoryStore
from pyarrow import parquet

from asset_job.errors import FileUnreadable, SourceFailed, SourceInvalid
from asset_job.sources.csv.parser import CsvParser
from asset_job.sources.file_reader import errors_naming
from asset_job.sources.lines import LinesParser
from asset_job.sources.options import ReadOptions
from asset_job.sources.parquet import content
from asset_job.sources.parquet.parser import ParquetParser
from asset_job.sources.records import BadRecord, OpenFile, RecordParser
from asset_job.sources.request import S3File
from asset_job.sources.s3_objects import OpenObject, PinnedObject, S3Access, fetched_ahead, s3_access
from tests.effort import PATIENCE
from tests.servers import S3Server

pytestmark = pytest.mark.service


@pytest.fixture
def file(s3_server: S3Server, bucket: str) -> S3File:
    etag = s3_server.client.put_object(Bucket=bucket, Key="a.json", Body=b"found")["ETag"].strip('"')
    return S3File(bucket=bucket, key="a.json", size=5, etag=etag)


@pytest.fixture
def role(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_server.endpoint)
    iam = boto3.client(
        "iam",
        endpoint_url=s3_server.endpoint,
        region_name=s3_server.region,
        aws_access_key_id=s3_server.access_key,
        aws_secret_access_key=s3_server.secret_key,
    )
    arn: str = iam.create_role(RoleName="reader", AssumeRolePolicyDocument=json.dumps({}))["Role"]["Arn"]
    yield arn
    iam.delete_role(RoleName="reader")
    iam.close()


@pytest.fixture
def access(s3_server: S3Server) -> S3Access:
    keys = {"access_key_id": s3_server.access_key, "secret_access_key": s3_server.secret_key}
    return s3_access({"endpoint_url": s3_server.endpoint, "region": s3_server.region, **keys})


def read(access: S3Access, file: S3File) -> bytes:
    return b"".join(piece for opened in reading(access, file) for piece in opened.pieces())


def reading(access: S3Access, file: S3File) -> Iterator[OpenFile]:
    """The file, open for reading."""
    [(same, opening)] = access.opened([file])
    with errors_naming(access, same), opening() as opened:
        yield opened


def test_keys_roles_profiles_and_anonymous_access_can_read(
    s3_server: S3Server, file: S3File, role: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared = tmp_path / "credentials"
    shared.write_text(
        f"[lake]\naws_access_key_id={s3_server.access_key}\naws_secret_access_key={s3_server.secret_key}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    server = {"type": "s3", "endpoint_url": s3_server.endpoint, "region": s3_server.region}
    keys = {"access_key_id": s3_server.access_key, "secret_access_key": s3_server.secret_key}
    with pytest.raises(FileUnreadable, match="may not be read with this connection"):
        read(s3_access({**server, "anonymous": True}), file)
    s3_server.client.put_object_acl(Bucket=file.bucket, Key=file.key, ACL="public-read")
    for identity in (keys, {**keys, "role_arn": role}, {"profile": "lake"}, {"anonymous": True}):
        access = s3_access({**server, **identity})
        assert read(access, file) == b"found"
        if "role_arn" in identity:
            assert dict(access.config)["session_token"]
            assert dict(access.config)["access_key_id"] != s3_server.access_key
        assert dict(access.config).get("secret_access_key", "no secret") not in repr(access)


def test_a_role_that_cannot_be_assumed_raises_a_sentence(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_server.endpoint)
    with pytest.raises(SourceFailed, match=r"the connection's profile or role gives no credentials: .*nowhere"):
        s3_access({"type": "s3", "profile": "nowhere"})


@pytest.mark.parametrize(
    ("key", "etag", "sentence"),
    [
        ("a.json", "another", "was overwritten since it was detected; put it back"),
        ("gone.json", "another", "was deleted since it was detected"),
        ("gone.json", None, "was deleted since it was detected"),
    ],
)
def test_a_file_that_has_changed_is_named(access, file, key, etag, sentence) -> None:
    asked = S3File(bucket=file.bucket, key=key, size=1, etag=etag)
    with pytest.raises(FileUnreadable) as refused:
        read(access, asked)
    assert str(refused.value).startswith(f"s3://{file.bucket}/{key} ")
    assert sentence in str(refused.value)


@pytest.mark.parametrize("key", ["a//b", "../a"])
def test_a_key_that_obstore_would_take_for_another_is_refused(access: S3Access, file: S3File, key: str) -> None:
    with pytest.raises(
        SourceInvalid, match=r"has an empty part, or one that is \. or \.\.: give the job .* reader='spark'"
    ):
        read(access, replace(file, key=key))


def test_odd_keys_are_read_and_written_as_they_are(s3_server: S3Server, bucket: str, access: S3Access) -> None:
    for key in ("a b/ü [1] 100%.json", "run=a+b/day=x%3Ay", "q?x#y&z", "~{}^`<>|\\", "%20"):
        s3_server.client.put_object(Bucket=bucket, Key=key, Body=key.encode())
        assert read(access, S3File(bucket=bucket, key=key, size=1, etag=None)).decode() == key
        obstore.put(access.store(bucket), key, b"again")
        assert s3_server.client.get_object(Bucket=bucket, Key=key)["Body"].read() == b"again"


@contextmanager
def server_that_answers_together(requests: int) -> Iterator[str]:
    """Let each request wait until so many have arrived."""
    all_here = Barrier(requests)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            all_here.wait(PATIENCE)
            body = self.path.encode()
            self.send_response(200)
            headers = {"Content-Length": len(body), "ETag": '"1"', "Last-Modified": "Fri, 20 Nov 2026 09:00:00 GMT"}
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_next_small_files_are_fetched_while_one_is_read() -> None:
    names = [f"{number:02}.json" for number in range(16)]
    with server_that_answers_together(8) as endpoint:
        keys = {"access_key_id": "a", "secret_access_key": "b"}
        access = s3_access({"endpoint_url": endpoint, "region": "r", **keys})
        files = [S3File(bucket="lake", key=name, size=13, etag="1") for name in names]
        read = [b"".join(found().pieces()).decode() for _, found in fetched_ahead(access, files)]
    assert read == [f"/lake/{name}" for name in names]


def test_a_file_that_cannot_be_fetched_is_named_in_its_turn(s3_server: S3Server, bucket: str, access: S3Access) -> None:
    for key in ("1", "3"):
        s3_server.client.put_object(Bucket=bucket, Key=key, Body=key.encode())
    sizes = {"1": 1, "2": 1, "3": 1, "4": 5 << 20}
    files = [S3File(bucket=bucket, key=key, size=size, etag=None) for key, size in sizes.items()]
    outcomes = []
    for file, found in fetched_ahead(access, files):
        try:
            with errors_naming(access, file):
                outcomes.append(b"".join(found().pieces()).decode())
        except FileUnreadable as error:
            outcomes.append(str(error).partition(" since")[0])
    assert outcomes == ["1", f"s3://{bucket}/2 was deleted", "3", f"s3://{bucket}/4 was deleted"]


ORDERS = [{"id": number, "note": "x" * (200_000 if number % 10 == 3 else number % 97)} for number in range(200)]
"""Some lines are longer than what is requested after the end of a part."""
COLUMNS = pa.schema([("id", pa.int64()), ("note", pa.string())])
PLAIN = ReadOptions(header=False, multi_line=False)


def parquet_of_orders() -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(ORDERS), sink, row_group_size=7)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("body", "parser"),
    [
        (
            "\n".join(map(json.dumps, ORDERS)).encode(),
            LinesParser(columns=pa.schema([("value", pa.string())]), options=ReadOptions()),
        ),
        (
            "\r\n".join(["id,note", *(f"{order['id']},{order['note']}" for order in ORDERS)]).encode(),
            CsvParser(columns=COLUMNS, options=replace(PLAIN, header=True)),
        ),
        (
            "\r".join(f"{order['id']},{order['note']}" for order in ORDERS).encode(),
            CsvParser(columns=COLUMNS, options=PLAIN),
        ),
        (parquet_of_orders(), ParquetParser(columns=COLUMNS, options=ReadOptions())),
    ],
    ids=["text", "CSV with a header", "CSV", "Parquet"],
)
def test_the_parts_of_a_file_are_the_whole_wherever_it_is_divided(
    s3_server: S3Server, bucket: str, access: S3Access, body: bytes, parser: RecordParser
) -> None:
    etag = s3_server.client.put_object(Bucket=bucket, Key="large", Body=body)["ETag"].strip('"')
    whole = S3File(bucket=bucket, key="large", size=len(body), etag=etag)

    def rows(file: S3File) -> list[dict[str, Any]]:
        batches = [batch for opened in reading(access, file) for batch in parser.parse(opened)]
        assert not [batch for batch in batches if isinstance(batch, BadRecord)]
        return [row for batch in batches if isinstance(batch, pa.RecordBatch) for row in batch.to_pylist()]

    expected = rows(whole)
    assert len(expected) == len(ORDERS)
    for count in (2, 3, 40):
        cuts = [len(body) * at // count for at in range(count + 1)]
        assert [row for part in pairwise(cuts) for row in rows(replace(whole, part=part))] == expected


def test_a_large_parquet_file_costs_one_request_more_than_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, table = pa.BufferOutputStream(), pa.table({"note": [os.urandom(100) for _ in range(100_000)]})
    parquet.write_table(table, sink)
    store, size, asked = MemoryStore(), len(sink.getvalue()), list[int]()
    obstore.put(store, "large", bytes(sink.getvalue()))
    fetched = PinnedObject.read_buffer

    def counted(pinned: PinnedObject, most: int = -1) -> Any:
        body = fetched(pinned, most)
        asked.append(len(body))
        return body

    monkeypatch.setattr(PinnedObject, "read_buffer", counted)
    file = OpenObject(store, S3File(bucket="b", key="large", size=size, etag="0"), name="large")
    rows = [*ParquetParser(columns=table.schema, options=ReadOptions()).parse(file)]
    assert sum(batch.num_rows for batch in rows if isinstance(batch, pa.RecordBatch)) == len(table)
    assert len(asked) == 2
    assert sum(asked) < size + (64 << 10)


def test_a_file_that_is_larger_than_its_event_says_is_an_error(file: S3File, access: S3Access) -> None:
    parts = [replace(file, size=4, part=part) for part in ((0, 2), (2, 4))]
    for part in parts:
        with pytest.raises(FileUnreadable, match=r"a\.json cannot be read: it has 5 bytes, but its event names 4"):
            read(access, part)


def test_little_of_a_parquet_file_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the row groups that are fetched at once, and not everything that was read before."""
    sink, table = pa.BufferOutputStream(), pa.table({"note": [os.urandom(100) for _ in range(100_000)]})
    parquet.write_table(table, sink, row_group_size=5_000)
    store, size = MemoryStore(), len(sink.getvalue())
    obstore.put(store, "large", bytes(sink.getvalue()))
    monkeypatch.setattr(content, "_TOGETHER", 2 << 20)
    fetched = PinnedObject.read_buffer
    monkeypatch.setattr(PinnedObject, "read_buffer", lambda *asked: bytes(fetched(*asked)))  # in memory that is traced
    tracemalloc.start()
    try:
        file = OpenObject(store, S3File(bucket="b", key="large", size=size, etag="0"), name="large")
        batches = ParquetParser(columns=table.schema, options=ReadOptions()).parse(file)
        assert sum(batch.num_rows for batch in batches if isinstance(batch, pa.RecordBatch)) == len(table)
        assert tracemalloc.get_traced_memory()[1] < size // 2
    finally:
        tracemalloc.stop()
