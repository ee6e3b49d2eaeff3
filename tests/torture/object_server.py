"""moto in a process of its own, with the priority of another machine, and with cheap lists and queues. By itself its serializer
takes half a millisecond for each object, and each received message counts all waiting ones three times.

    python -m tests.torture.object_server      prints its address, and ends with its standard input
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

import boto3

from tests.servers import S3Server
from watcher.shared.servers import ACCESS_KEY, REGION, SECRET_KEY, running_s3

_ROW: Final = (
    "<Contents><Key>{Key}</Key><LastModified>{LastModified}</LastModified><ETag>{ETag}</ETag><Size>{Size}</Size>"
    "<StorageClass>{StorageClass}</StorageClass></Contents>"
)
_END: Final = "</ListBucketResult>"


@contextlib.contextmanager
def running_object_server() -> Iterator[S3Server]:
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        hasten(process.pid)
        try:
            endpoint = process.stdout.readline().strip()
            with contextlib.closing(_client(endpoint)) as client:
                yield S3Server(
                    endpoint=endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=REGION, client=client
                )
        finally:
            process.kill()


def hasten(process: int) -> None:
    """Raise the priority of a process that stands for another machine, so that it is not slowed with the daemon. Needs root."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, process, -10)


@contextlib.contextmanager
def hastened() -> Iterator[int]:
    """Raise this thread's priority while the block runs. Yields its usual priority, which its children do not inherit."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    hasten(0)
    try:
        yield usual
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)


def _client(endpoint: str) -> Any:
    identity = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return boto3.client("s3", endpoint_url=endpoint, region_name=REGION, **identity)


def serve() -> None:
    from moto import backends  # noqa: PLC0415  only the server's process needs it
    from moto.s3.responses import S3Response  # noqa: PLC0415
    from moto.sqs.models import SQSBackend  # noqa: PLC0415

    services, serialized = [*backends.list_of_moto_modules()], S3Response.serialized

    def serialized_quickly(self: Any, action: Any) -> Any:
        result = action.result
        rows = result.pop("Contents", ()) if isinstance(result, dict) and "KeyCount" in result else ()
        status, headers, body = serialized(self, action)
        text = "".join(_ROW.format_map(_texts(row)) for row in rows)
        return status, headers, body.replace(_END, text + _END) if text else body

    backends.list_of_moto_modules = lambda: services
    S3Response.serialized = serialized_quickly
    SQSBackend.is_message_valid_based_on_retention_period = _is_kept
    with running_s3() as server:
        sys.stdout.write(f"{server.endpoint}\n")
        sys.stdout.flush()
        sys.stdin.read()
        os._exit(0)  # other threads may be answering requests


def _is_kept(_backend: Any, _queue: str, _message: Any) -> bool:
    """Return True: messages are kept for four days, and no torture takes that long."""
    return True


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    stamp = row["LastModified"].removesuffix("Z").partition(".")[0]
    return {name: escape(str(value)) for name, value in row.items()} | {"LastModified": f"{stamp}.000Z"}


if __name__ == "__main__":
    serve()
