"""`notifications`: an SQS queue in which S3 says what may be new. A hint for latency, never the truth.

Notifications are lost, doubled, late and early. So whatever goes wrong here is logged and costs latency only; the scans
find the rest. One queue is for one watcher: what one reads, another does not get.
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
from triggers.hosting import listen_for_ever
from triggers.s3.aws import CLIENT_LIFETIME, DEFAULT_REGION, CredentialSource, aws_errors
from triggers.s3.failures import S3Failure, S3Refused

MOST: Final = 10
"""Messages that SQS gives at a time."""
LONG_POLL: Final = 20
"""Seconds, the most that SQS allows."""
SET_ASIDE: Final = 3600
"""Seconds for which an unreadable message is hidden; a redrive policy counts each time it comes back."""

_REGION: Final = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z]+(?:-[a-z]+)+-[0-9]+)\.")
_REMEDY: Final = (
    "check the queue's url, and allow sqs:ReceiveMessage, DeleteMessage, ChangeMessageVisibility and GetQueueAttributes"
)

log = structlog.get_logger()

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class QueueMessage:
    """One message. `sent` is the queue's time."""

    receipt: str
    sent: Moment
    keys: Sequence[str]


class Queue:
    """One watcher's hints: received in a task of their own while the watcher works on those it took."""

    def __init__(self, url: str, connect: Connect, *, watcher: str, wake: Callable[[], None]) -> None:
        """`wake` is called when there is something to take."""
        self._url = url
        self._connect = connect
        self._wake = wake
        self._log = log.bind(watcher=watcher, queue=url)
        self._client: Any = None
        self._received: Sequence[QueueMessage] = ()
        self._asked = anyio.Event()

    def take(self) -> Sequence[QueueMessage]:
        """What came since; the next ones are received only then. All that is taken shall go to `done`, once committed."""
        taken, self._received = self._received, ()
        self._asked.set()
        return taken

    async def done(self, hints: Sequence[QueueMessage]) -> None:
        """They are not needed any more. What cannot be deleted comes again, and is found known."""
        if self._client is None:
            return
        entries = [{"Id": str(number), "ReceiptHandle": hint.receipt} for number, hint in enumerate(hints)]
        try:
            with aws_errors(remedy=_REMEDY):
                await self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        except TriggerError as error:
            self._log.warning("s3.notifications_not_deleted", error=str(error))

    async def run(self) -> None:
        """Until cancelled. Nothing that goes wrong leaves it."""
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
        hints = [hint for message in response.get("Messages", ()) if (hint := await self._read(client, message))]
        if hints:
            self._received, self._asked = hints, anyio.Event()
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
        """`check` has said that there are credentials."""
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
        """A queue that cannot be read costs latency only: a warning."""
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
            message = "an anonymous connection reads no queue"
            raise S3Failure(code="NoCredentials", message=message, remedy=_REMEDY).error()
        parts = urlsplit(url)
        match = _REGION.search(parts.hostname or "")
        region = match[1] if match else self._region or DEFAULT_REGION
        return self._credentials.client("sqs", region=region, endpoint_url=f"{parts.scheme}://{parts.netloc}")


class UnreadableMessage(ValueError):
    """The message is none of S3's."""


def keys_named(body: str) -> list[str]:
    """In a message as S3 sends it, or wrapped by SNS, EventBridge or both; none in S3's test message.

    What happened to them does not matter, nor which bucket it was: a look will tell. Raises `UnreadableMessage`.
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
