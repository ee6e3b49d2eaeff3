from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from asset_job import (
    NEVER_EXPIRE,
    Fenced,
    Forbidden,
    InvalidValue,
    NotFound,
    Refused,
    StoreConflict,
)
from asset_job.run_context import submitted_run
from tests.unit.sdk.execution_server import ALIAS, ORDERS, ExecutionServer, refused

# The asset store


@pytest.mark.parametrize(
    ("asset", "query"),
    [
        ("orders", {"name": "orders"}),
        ("file:///data/orders", {"uri": "file:///data/orders"}),
        ("relative", {"uri": "relative"}),
        ("of_an_alias", {"name": "of_an_alias"}),
        ("s3://lake/day=1", {"uri": "s3://lake/day=1"}),
    ],
)
def test_an_asset_is_named_by_its_name_or_its_uri(daemon: ExecutionServer, asset: str, query: dict[str, str]) -> None:
    daemon.claim = {"outlets": [ORDERS, {"name": "odd", "uri": "relative"}, ALIAS]}
    daemon.resolved = [{"name": "of_an_alias", "uri": "s3://lake/alias"}, {"name": "day", "uri": "s3://lake/day=1"}]
    with submitted_run(daemon.context()) as r:
        r.asset_store[asset].set("a", 1)
    put = next(request for request in daemon.requests if request.method == "PUT")
    assert put.query == {**query, "key": "a"}
    assert put.path == f"store/asset/by-{next(iter(query))}/value"


NEITHER_FORM = [
    {"loc": ["body", "outlet_events", 0, "asset", "str"], "msg": "Input should be a valid string"},
    {
        "loc": ["body", "outlet_events", 0, "asset", "AliasedAsset", "uri"],
        "msg": "Value error, an s3: URI names a bucket",
        "input": "s3://",
    },
]


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        (refused(409, "fenced", "Try 2 was superseded."), Fenced, "Try 2 was superseded."),
        ((409, {"detail": "Try 2 has ended."}), Fenced, "Try 2 has ended."),
        ((401, {"detail": "Not authenticated"}), Fenced, "Not authenticated"),
        (refused(403, "fenced", "Try 2 has ended."), Fenced, "Try 2 has ended."),
        (refused(409, "conflict", "Use rewind."), StoreConflict, "Use rewind."),
        ((403, {"detail": "orders is no outlet"}), Forbidden, "orders is no outlet"),
        (refused(404, "not_found", "No such asset."), NotFound, "No such asset."),
        ((422, {"detail": [{"loc": ["key"], "msg": "too long"}]}), InvalidValue, "^key: too long$"),
        ((422, {"detail": NEITHER_FORM}), InvalidValue, "^uri 's3://': an s3: URI names a bucket$"),
        ((422, {"detail": ["odd"]}), InvalidValue, r'^\["odd"\]$'),
        ((418, "teapot"), Refused, "HTTP 418"),
    ],
)
def test_a_refusal_raises_its_kind_of_error_with_the_daemons_sentence(
    daemon: ExecutionServer, answer: tuple[int, Any], kind: type[Exception], sentence: str
) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    daemon.refusals["store/"] = answer
    with submitted_run(daemon.context()) as r, pytest.raises(kind, match=sentence) as raised:
        r.asset_store.set("a", 1)
    assert type(raised.value) is kind


# The task store


def test_task_entries_have_a_retention(daemon: ExecutionServer) -> None:
    with submitted_run(daemon.context()) as r:
        before = datetime.now(UTC)
        r.task_store.set("default", 1)
        r.task_store.set("short", 1, retention=timedelta(hours=2))
        r.task_store.set("ever", 1, retention=NEVER_EXPIRE)
    left = datetime.fromisoformat(daemon.task_entries["default"]["expires_at"]) - before
    assert timedelta(days=30) <= left < timedelta(days=30, minutes=1)
    assert daemon.task_entries["ever"] == {"value": 1, "expires_at": None}
    expires_at = datetime.fromisoformat(daemon.task_entries["short"]["expires_at"])
    assert expires_at.tzinfo == timezone(timedelta(0))
    assert timedelta(0) <= expires_at - before - timedelta(hours=2) < timedelta(minutes=1)


@pytest.mark.parametrize("key", ["spark_app_id", "a/b?c#d", "ü"])
def test_task_entries_belong_to_the_task_instance(daemon: ExecutionServer, key: str) -> None:
    with submitted_run(daemon.context()) as r:
        r.task_store.set(key, [1])
        assert r.task_store.get(key) == [1]
        r.task_store.delete(key)
        assert r.task_store.get(key, 0) == 0
        r.task_store.set(key, 2)
        r.task_store.clear()
        assert r.task_store.get(key) is None
    paths = {request.path for request in daemon.requests if request.path.startswith("store/")}
    assert all(path.startswith(f"store/ti/{daemon.task_instance_id}") for path in paths)
