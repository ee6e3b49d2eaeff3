"""The calls that a transaction makes to the daemon."""

from __future__ import annotations

from typing import Any

import pytest

from asset_job import AssetJobError, Forbidden, StoreConflict
from asset_job.run_context import submitted_run
from tests.unit.sdk.execution_server import ALIAS, ORDERS, ExecutionServer, Request, refused


def sent(daemon: ExecutionServer) -> list[Request]:
    return [request for request in daemon.requests if request.path == "store/asset/transaction"]


def test_a_transaction_is_one_call_with_the_reads_and_the_changes(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    daemon.put(("orders", "watermark"), {"value": 1})
    daemon.put(("orders", "watermark"), {"value": 2})
    with submitted_run(daemon.context()) as r, r.asset_store["orders"].transaction() as t:
        t["watermark"] = t.get("watermark") + t.get("step", 1)
        t.get("watermark")
        t.increment("total_runs", 3)
        t.delete("old")
    (request,) = sent(daemon)
    assert request.body == {
        "asset": "orders",
        "ordinal": 0,
        "reads": {"watermark": 2, "step": 0},
        "set": {"watermark": 3},
        "increment": {"total_runs": 3},
        "delete": ["old"],
        "refs": [],
    }
    assert (request.method, "idempotency-key" in request.headers) == ("POST", True)
    assert [one.query["key"] for one in daemon.requests if one.method == "GET"] == ["watermark", "step"]


def test_a_weak_etag_is_understood(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    daemon.put(("orders", "a"), {"value": 1})
    daemon.tag_form = 'W/"{}"'
    with submitted_run(daemon.context()) as r, r.asset_store.transaction() as t:
        t.get("a")
    assert sent(daemon)[0].body["reads"] == {"a": 1}


def test_a_transaction_whose_response_was_lost_is_repeated_with_the_same_key(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    with submitted_run(daemon.context()) as r, r.asset_store.transaction() as t:
        t.increment("n")
        daemon.faults = [0, 503]
    assert daemon.entries["orders", "n"]["value"] == 1
    assert len({request.headers["idempotency-key"] for request in sent(daemon)}) == 1
    assert len(sent(daemon)) == 3


def test_transactions_are_counted_per_asset_by_whichever_name(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS, {"name": "other", "uri": "s3://other"}, ALIAS]}
    daemon.resolved = [{"name": "of_the_alias", "uri": "s3://lake/alias"}, {"name": "day", "uri": "s3://lake/day=1"}]
    with submitted_run(daemon.context()) as r:
        for name in ("orders", ORDERS["uri"], "other", "orders", "s3://lake/day=1", "of_the_alias", "s3://lake/day=1"):
            with r.asset_store[name].transaction() as t:
                t.increment("n")
    assert [(request.body["asset"], request.body["ordinal"]) for request in sent(daemon)] == [
        ("orders", 0),
        ("orders", 1),
        ("other", 0),
        ("orders", 2),
        # Two names may be one asset here: of such assets no number is given twice.
        ("s3://lake/day=1", 0),
        ("of_the_alias", 1),
        ("s3://lake/day=1", 2),
    ]


def test_an_empty_block_sends_nothing_and_is_counted(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    with submitted_run(daemon.context()) as r:
        with r.asset_store.transaction():
            pass
        with r.asset_store.transaction() as t:
            t.get("a")
    assert [(request.body["ordinal"], request.body["reads"]) for request in sent(daemon)] == [(1, {"a": 0})]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(409, "conflict", "`landing.watermark` is its watcher's: use rewind"), StoreConflict),
        (refused(403, "forbidden", "the job does not declare orders"), Forbidden),
    ],
)
def test_a_refused_transaction_raises_the_daemons_sentence(
    daemon: ExecutionServer, answer: Any, kind: type[Exception]
) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    daemon.refusals["store/asset/transaction"] = answer
    with (
        submitted_run(daemon.context()) as r,
        pytest.raises(kind, match=answer[1]["detail"]["message"]),
        r.asset_store.transaction() as t,
    ):
        t["a"] = 1


def test_a_transaction_on_a_store_without_versions_raises_a_sentence(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    daemon.put(("orders", "a"), {"value": 1})
    daemon.tag_form = ""
    with (
        submitted_run(daemon.context()) as r,
        pytest.raises(AssetJobError, match="'a' has no version, because the daemon's store backend has no versions"),
        r.asset_store.transaction() as t,
    ):
        t.get("a")
