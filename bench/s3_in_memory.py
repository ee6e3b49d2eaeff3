"""An S3 server of listings and PUTs that answers from memory, so that a measurement shows the client's own cost."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime
from email.utils import format_datetime
from multiprocessing.connection import Connection
from urllib.parse import parse_qs, unquote, urlsplit

_LISTING = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>{objects}</ListBucketResult>"
)
_OBJECT = (
    "<Contents><Key>{key}</Key><LastModified>{modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
    "<ETag>&quot;00&quot;</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


class Buckets:
    """The keys, `<folder>/<name>`, and the listing of each folder, which is made anew after a PUT."""

    def __init__(self) -> None:
        self._objects: dict[str, list[str]] = defaultdict(list)
        self._listings: dict[str, bytes] = {}

    def put(self, key: str) -> bytes:
        folder = f"{key.rpartition('/')[0]}/"
        self._objects[folder].append(_OBJECT.format(key=key, modified=datetime.now(UTC)))
        self._listings.pop(folder, None)
        return b""

    def listing(self, prefix: str) -> bytes:
        if prefix not in self._listings:
            self._listings[prefix] = _LISTING.format(objects="".join(sorted(self._objects[prefix]))).encode()
        return self._listings[prefix]

    def answer(self, method: str, target: str) -> bytes:
        place = urlsplit(target)
        if method == "PUT":
            return self.put(unquote(place.path).split("/", 2)[2])
        return self.listing(parse_qs(place.query).get("prefix", [""])[0])


def serve(port: Connection) -> None:
    """Serve until ended. Sets `port` to the port where it listens."""
    buckets = Buckets()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            method, target, _ = head.decode().split(" ", 2)
            body = buckets.answer(method, target)
            date = format_datetime(datetime.now(UTC), usegmt=True)
            writer.write(
                f'HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: application/xml\r\nETag: "00"\r\n'
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            await writer.drain()

    async def listen() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=2000)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(listen())
