"""What S3 says in a queue's message: which objects may be new. Pure.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_plus


class Unreadable(ValueError):
    """The message is none of S3's."""


def keys_named(body: str) -> list[str]:
    """In a message as S3 sends it, or wrapped by SNS, EventBridge or both; none in S3's test message. Raises `Unreadable`.

    It does not matter what happened to them, nor which bucket it was: a look will tell.
    """
    try:
        return [*_keys(json.loads(body))]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Unreadable(f"no notification of S3, SNS or EventBridge ({type(error).__name__}: {error})") from error


def _keys(message: Any) -> Iterator[str]:
    if "Records" in message:
        for record in message["Records"]:
            yield unquote_plus(_text(record["s3"]["object"]["key"]))
    elif "detail" in message:  # EventBridge does not encode keys
        yield _text(message["detail"]["object"]["key"])
    elif "Message" in message:
        yield from _keys(json.loads(message["Message"]))
    elif message["Event"] != "s3:TestEvent":
        raise Unreadable(f"unknown event {message['Event']!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"{value!r} where a key is due")
    return value
