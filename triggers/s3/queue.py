"""`notifications`: an SQS queue in which S3 names what may be new. A hint that saves latency, never the truth.

Notifications are lost, doubled, late and early. So a failure here is logged and costs latency only; the scans find the
rest. A queue is for one watcher: another watcher would not get the messages that the first one reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_plus, urlsplit

import anyio
import structlog
from anyio.abc import TaskGroup

from triggers.base import Finding
from triggers.errors import TriggerError
from triggers.file_scan.versions import Moment
from triggers.retries import listen_for_ever
from triggers.s3.aws import CLIENT_LIFETIME, DEFAULT_REGION, CredentialSource, aws_errors
from triggers.s3.failures import S3Failure, S3Refused

MOST: Final = 10
"""The most messages that SQS gives at a time."""
LONG_POLL: Final = 20
"""Seconds that a request waits for a message, the most that SQS allows."""
SET_ASIDE: Final = 3600
"""Seconds for which an unreadable message is hidden; a redrive policy counts how often it comes back."""

_REGION: Final = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z]+(?:-[a-z]+)+-[0-9]+)\.")
_REMEDY: Final = (
    "check the queue's url, and allow sqs:ReceiveMessage, DeleteMessage, ChangeMessageVisibility and GetQueueAttributes"
)

log = structlog.get_logger()

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class QueueMessage:
    """One message. `sent` is by the queue's clock."""

    receipt: str
    sent: Moment
    keys: Sequence[str]


class Queue:
    """The messages of one watcher. A task of its own receives the next ones while the watcher handles those it took."""

    def __init__(self, url: str, connect: Connect, *, watcher: str, wake: Callable[[], None]) -> None:
        """`wake` is called when there are messages to take."""
        self._url = url
        self._connect = connect
        self._wake = wake
        self._log = log.bind(watcher=watcher, queue=url)
        self._client: Any = None
        self._received: Sequence[QueueMessage] = ()
        self._asked = anyio.Event()

    def take(self) -> Sequence[QueueMessage]:
        """Return the messages that were received since. The next ones are received only now.

        The caller hands all of them to `done` once they are committed.
        """
        taken, self._received = self._received, ()
        self._asked.set()
        return taken

    async def done(self, messages: Sequence[QueueMessage]) -> None:
        """Delete the messages. One that cannot be deleted comes again, and names nothing new."""
        if self._client is None:
            return
        entries = [{"Id": str(number), "ReceiptHandle": message.receipt} for number, message in enumerate(messages)]
        try:
            with aws_errors(remedy=_REMEDY):
                await self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        except TriggerError as error:
            self._log.warning("s3.notifications_not_deleted", error=str(error))

    async def run(self) -> None:
        """Receive messages until cancelled. Never raises anything else."""
        await listen_for_ever(self._receive_for_a_while, self._log, "s3.notifications_lost")

    async def _receive_for_a_while(self, works: Callable[[], None]) -> None:
        await self._asked.wait()
        until = anyio.current_time() + CLIENT_LIFETIME
        with aws_errors(remedy=_REMEDY):
            async with self._connect() as client:
                self._client = client
                try:
                    while True:
                        await self._asked.wait()
                        if anyio.current_time() >= until:
                            return
                        await self._receive(client, works)
                finally:
                    self._client = None

    async def _receive(self, client: Any, works: Callable[[], None]) -> None:
        response = await client.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=MOST,
            WaitTimeSeconds=LONG_POLL,
            MessageSystemAttributeNames=["SentTimestamp"],
        )
        works()
        messages = [read for raw in response.get("Messages", ()) if (read := await self._read(client, raw))]
        if messages:
            self._received, self._asked = messages, anyio.Event()
            self._wake()

    async def _read(self, client: Any, message: Any) -> QueueMessage | None:
        receipt = message["ReceiptHandle"]
        try:
            keys = keys_named(message["Body"])
        except UnreadableMessage as error:
            body = message["Body"][:2000]
            self._log.warning(
                "s3.notification_unreadable", error=str(error), message_id=message["MessageId"], body=body
            )
            await client.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=SET_ASIDE
            )
            return None
        return QueueMessage(receipt=receipt, sent=int(message["Attributes"]["SentTimestamp"]) * 1000, keys=keys)


class Queues:
    """The queues of one connection: its credentials, and the tasks in which they are received."""

    def __init__(self, credentials: CredentialSource | None, *, region: str | None, tasks: TaskGroup) -> None:
        self._credentials = credentials
        self._region = region
        self._tasks = tasks

    @contextmanager
    def listening(self, url: str, *, watcher: str, wake: Callable[[], None]) -> Iterator[Queue]:
        """Receive messages while the block runs. Call `check` first, which finds out whether there are credentials."""
        queue, scope = Queue(url, lambda: self._connect(url), watcher=watcher, wake=wake), anyio.CancelScope()

        async def receiving() -> None:
            with scope:
                await queue.run()

        self._tasks.start_soon(receiving, name=f"notifications of {watcher}")
        try:
            yield queue
        finally:
            scope.cancel()

    async def check(self, url: str) -> Finding:
        """Check whether the queue can be read. If not, that is a warning, since it costs latency only."""
        remedy = f"{_REMEDY}; files are found by polling meanwhile"
        try:
            with aws_errors(remedy=remedy):
                async with self._connect(url) as client:
                    await client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        except TriggerError as error:
            message = f"{error.failure.code}: {error.failure.message}" if isinstance(error, S3Refused) else str(error)
            return Finding.warning("notifications", message, remedy)
        return Finding.ok("notifications", f"queue {url} is read")

    def _connect(self, url: str) -> AbstractAsyncContextManager[Any]:
        if self._credentials is None:
            message = "an anonymous connection cannot read a queue"
            raise S3Failure(code="NoCredentials", message=message, remedy=_REMEDY).error()
        parts = urlsplit(url)
        match = _REGION.search(parts.hostname or "")
        region = match[1] if match else self._region or DEFAULT_REGION
        return self._credentials.client("sqs", region=region, endpoint_url=f"{parts.scheme}://{parts.netloc}")


class UnreadableMessage(ValueError):
    """The message is not one of S3's."""


def keys_named(body: str) -> list[str]:
    """Return the keys in a message as S3 sends it, or wrapped by SNS, EventBridge or both; none for S3's test message.

    The kind of event and the bucket do not matter: looking the keys up shows what is there. Raises `UnreadableMessage`.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
    """
    try:
        return [*_keys(json.loads(body))]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UnreadableMessage(
            f"no notification of S3, SNS or EventBridge ({type(error).__name__}: {error})"
        ) from error


def _keys(message: Any) -> Iterator[str]:
    if "Records" in message:
        for record in message["Records"]:
            yield unquote_plus(_text(record["s3"]["object"]["key"]))
    elif "detail" in message:  # EventBridge does not encode keys
        yield _text(message["detail"]["object"]["key"])
    elif "Message" in message:
        yield from _keys(json.loads(message["Message"]))
    elif message["Event"] != "s3:TestEvent":
        raise UnreadableMessage(f"unknown event {message['Event']!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnreadableMessage(f"{value!r} where a key is due")
    value.encode()  # raises ValueError for half of a character, which JSON may hold and no key can
    return value
