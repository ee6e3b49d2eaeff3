"""An Iceberg REST catalog over pyiceberg's SQL catalog: the requests that create tables, load them and commit to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel
from pyiceberg.catalog.rest import CreateTableRequest, TableResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

_NOTHING = {"location": None, "partition-spec": None, "write-order": None}
_REFUSALS = {
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


class Requests(BaseHTTPRequestHandler):
    def __init__(self, catalog: SqlCatalog, lock: Lock, *rest: Any) -> None:
        self.catalog, self.lock = catalog, lock
        super().__init__(*rest)

    def do_GET(self) -> None:
        self._answer(self._load)

    do_HEAD = do_GET  # noqa: N815  the interface's name

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(partial(self._change, body=body))

    def _load(self, *place: str) -> BaseModel | Mapping[str, Any]:
        match place:
            case ("config",):
                return {"defaults": {}, "overrides": {}}
            case ("namespaces", namespace):
                return {"namespace": [namespace], "properties": self.catalog.load_namespace_properties(namespace)}
            case ("namespaces", namespace, "tables", name):
                return _shown(self.catalog.load_table((namespace, name)))
        raise LookupError(place)

    def _change(self, *place: str, body: bytes) -> BaseModel | Mapping[str, Any]:
        match place:
            case ("namespaces",):
                self.catalog.create_namespace(json.loads(body)["namespace"][0])
                return json.loads(body)  # type: ignore[no-any-return]
            case ("namespaces", namespace, "tables"):
                asked = CreateTableRequest.model_validate({**_NOTHING, **json.loads(body)})
                layout = {"partition_spec": asked.partition_spec} if asked.partition_spec else {}
                made = self.catalog.create_table(
                    (namespace, asked.name), schema=asked.table_schema, properties=asked.properties, **layout
                )
                return _shown(made)
            case ("namespaces", namespace, "tables", name):
                commit = CommitTableRequest.model_validate_json(body)
                table = self.catalog.load_table((namespace, name))
                return self.catalog.commit_table(table, commit.requirements, commit.updates)
        raise LookupError(place)

    def _answer(self, work: Any) -> None:
        place = [unquote(part) for part in urlsplit(self.path).path.split("/")[2:]]
        try:
            with self.lock:
                result = work(*place)
            status, text = 200, result.model_dump_json() if isinstance(result, BaseModel) else json.dumps(result)
        except tuple(_REFUSALS) as error:
            status = _REFUSALS[type(error)]
            text = json.dumps({"error": {"message": str(error), "type": type(error).__name__, "code": status}})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None: ...


def _shown(table: Table) -> TableResponse:
    return TableResponse(**{"metadata-location": table.metadata_location, "metadata": table.metadata})


@contextmanager
def running_catalog(folder: Path, **properties: str) -> Iterator[str]:
    """Run the catalog and yield its address. `properties` are those of the tables' storage, with `warehouse`."""
    catalog = SqlCatalog("ice", uri=f"sqlite:///{folder}/rest.db", **properties)
    handler: Any = partial(Requests, catalog, Lock())
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            catalog.close()
