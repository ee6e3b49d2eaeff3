"""The sources that the trigger suite watches: each knows how to add an item, and which items an event stands for."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit

import psycopg

from tests.servers import S3Server
from triggers.base import TriggerEvent
from triggers.changes.slot import slot_name

PLUGINS = Path(__file__).parents[1] / "plugins"


class Source(ABC):
    """A source to watch. A suite enters it, adds items, and expects each of them once."""

    trigger: str
    """As in the YAML, and so are `options` and `connection`. With these options everything counts as new, and a poll
    follows the one before at once."""
    options: Mapping[str, Any]
    connection: Mapping[str, Any] | None = None
    has_past: ClassVar[bool] = True
    """Whether it can be read from its start, without a position. A log can only be read on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    @abstractmethod
    def add(self, number: int) -> Hashable:
        """Make the item with this number visible; numbers go up from 1. Gives its name."""

    @abstractmethod
    def items_of(self, event: TriggerEvent) -> Iterable[Hashable]:
        """Return the names of the items that an event stands for."""


class LocalFolder(Source):
    trigger = "file.new_files"

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder = folder
        limit = {"max_files": 2}
        self.options = {
            "path": str(folder),
            "mode": mode,
            "start": "all",
            "min_age": "0s",
            "interval": "1ms",
            "batch": limit,
        }

    def add(self, number: int) -> Hashable:
        (self._folder / f"{number}.json").write_text("{}")
        return f"{number}.json"

    def items_of(self, event: TriggerEvent) -> Iterable[Hashable]:
        files: Any = event.payload["files"]
        return [Path(file["path"]).name for file in files]


class S3Prefix(Source):
    trigger = "s3.new_files"

    def __init__(self, server: S3Server, bucket: str, mode: str) -> None:
        self._server = server
        self._bucket = bucket
        self.options = {"bucket": bucket, "mode": mode, "start": "all", "interval": "1ms", "batch": {"max_files": 2}}
        self.connection = {
            "type": "s3",
            "endpoint_url": server.endpoint,
            "region": server.region,
            "access_key_id": server.access_key,
            "secret_access_key": server.secret_key,
        }

    def add(self, number: int) -> Hashable:
        self._server.client.put_object(Bucket=self._bucket, Key=f"{number}.json", Body=b"{}")
        return f"{number}.json"

    def items_of(self, event: TriggerEvent) -> Iterable[Hashable]:
        files: Any = event.payload["files"]
        return [file["key"] for file in files]


class PostgresTable(Source):
    trigger = "postgres.new_rows"

    def __init__(self, dsn: str, mode: str) -> None:
        self._dsn = dsn
        self.options = {"table": "items", "mode": mode, "start": "all", "interval": "1ms", "batch": {"max_rows": 2}}
        self.connection = {"type": "postgres", "dsn": dsn}
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
                " updated_at timestamptz NOT NULL DEFAULT now())"
            )
            connection.execute("CREATE INDEX ON items (updated_at)")

    def add(self, number: int) -> Hashable:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("INSERT INTO items DEFAULT VALUES")
        return number

    def items_of(self, event: TriggerEvent) -> Iterable[Hashable]:
        payload: Any = event.payload
        ranges = payload.get("ranges", ())
        return payload.get("keys") or [number for low, high in ranges for number in range(low, high + 1)]


class PublishedTable(Source):
    """A table whose changes are read. Its slot is there before the first change, so each counts as new."""

    has_past = False

    def __init__(self, dsn: str, trigger: str) -> None:
        self._dsn = dsn
        self.trigger = trigger
        mode = {"mode": "log"} if trigger == "postgres.new_rows" else {}
        self.options = {**mode, "table": "items", "interval": "1ms", "batch": {"max_rows": 2}, "publication": "all"}
        self.connection = {"type": "postgres", "dsn": dsn}
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
            connection.execute('CREATE PUBLICATION "all" FOR TABLE items')
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot_name("", "w")])

    def add(self, number: int) -> Hashable:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("INSERT INTO items DEFAULT VALUES")
        return number

    def items_of(self, event: TriggerEvent) -> Iterable[Hashable]:
        changes: Any = event.payload["changes"]
        return [change["key"] for change in changes]


class NoticeBoard(Source):
    """The source of the plug-in `tests/plugins/notice_board.py`, with the server it speaks with."""

    trigger = "notice_board.NewNotices"
    options: ClassVar[Mapping[str, Any]] = {"topic": "sales", "interval": "1ms", "page_size": 2}
    token = "a-third-partys-token"

    def __init__(self) -> None:
        self._notices: list[dict[str, Any]] = []
        handler = type("Handler", (_BoardHandler,), {"notices": self._notices, "token": self.token})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.connection = {"type": "notice_board.BoardConnection", "url": self.url, "token": self.token}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def add(self, number: int) -> Hashable:
        self._notices.append({"number": number, "text": f"notice {number}"})
        return number

    def items_of(self, event: TriggerEvent) -> Iterable[Hashable]:
        notices: Any = event.payload["notices"]
        return [notice["number"] for notice in notices]


class _BoardHandler(BaseHTTPRequestHandler):
    notices: ClassVar[list[dict[str, Any]]]
    token: ClassVar[str]

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {self.token}":
            self.send_error(401)
            return
        query = parse_qs(urlsplit(self.path).query)
        after, limit = int(query["after"][0]), int(query["limit"][0])
        posted = [*self.notices]
        body = json.dumps({"notices": posted[after : after + limit], "posted": len(posted)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class has it so
        """Log nothing: requests are no news in a test."""
