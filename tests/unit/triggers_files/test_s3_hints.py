"""Messages as S3, SNS and EventBridge send them."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.s3.queue import UnreadableMessage, keys_named


def of_s3(*keys: str) -> dict[str, Any]:
    return {
        "Records": [
            {
                "eventVersion": "2.1",
                "eventSource": "aws:s3",
                "eventName": "ObjectCreated:Put",
                "s3": {"bucket": {"name": "landing"}, "object": {"key": key, "size": 1, "eTag": "e"}},
            }
            for key in keys
        ]
    }


def of_eventbridge(key: str) -> dict[str, Any]:
    detail = {"version": "0", "bucket": {"name": "landing"}, "object": {"key": key, "size": 1}}
    return {"version": "0", "detail-type": "Object Created", "source": "aws.s3", "detail": detail}


def by_sns(message: dict[str, Any]) -> dict[str, Any]:
    return {"Type": "Notification", "MessageId": "1", "TopicArn": "arn:…", "Message": json.dumps(message)}


@pytest.mark.parametrize(
    ("message", "keys"),
    [
        (of_s3("orders/a+b%2Bc%C3%BC.json"), ["orders/a b+cü.json"]),
        (of_s3("a", "b"), ["a", "b"]),
        (by_sns(of_s3("a%20b")), ["a b"]),
        (of_eventbridge("orders/a b+c%41.json"), ["orders/a b+c%41.json"]),
        (by_sns(of_eventbridge("a+b")), ["a+b"]),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "landing"}, []),
        (by_sns({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "landing"}), []),
        ({"Records": []}, []),
    ],
)
def test_the_keys_that_a_message_names(message: dict[str, Any], keys: list[str]) -> None:
    assert keys_named(json.dumps(message)) == keys


@pytest.mark.parametrize(
    "body",
    [
        "",
        "what is this?",
        "[]",
        "7",
        "null",
        '"Records"',
        "{}",
        '{"Event": "s3:SomethingElse"}',
        '{"Records": [{"dynamodb": {}}]}',
        '{"Records": {"s3": 1}}',
        '{"Records": [{"s3": {"object": {"key": null}}}]}',
        '{"detail": {"state": "running"}}',
        r'{"detail": {"object": {"key": "half of a character: \ud800"}}}',
        '{"Message": "hello"}',
        '{"Message": {"Records": []}}',
        "[" * 100_000,
    ],
)
def test_a_message_of_another_kind_is_unreadable(body: str) -> None:
    with pytest.raises(UnreadableMessage):
        keys_named(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["Records", "detail", "Message", "Event", "s3", "object", "key"]), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_message_is_read_or_unreadable(message: Any) -> None:
    with contextlib.suppress(UnreadableMessage):
        assert all(isinstance(key, str) for key in keys_named(json.dumps(message)))
