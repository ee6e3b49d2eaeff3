"""Worker-side backends: values stay where the job runs, only references are sent, and no value is left behind."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from asset_job import AssetJobError, Fenced, Run, StoreConflict, backends
from asset_job.backends import AssetScope, BaseStateBackend
from asset_job.run_context import submitted_run
from asset_job.storage import ObjectStorageStateBackend
from tests.unit.sdk.execution_server import LANDING, ORDERS, ExecutionServer, refused


class Vault(BaseStateBackend):
    """Keeps values in a dictionary under references that do not look like references."""

    values: dict[str, Any] = {}  # noqa: RUF012  one vault for all of a test
    broken = 0

    def __init__(self, *, name: str) -> None:
        self.name = name

    def serialize_task_state_store_to_ref(self, *, value, key, scope):
        return self._keep(value, key, scope)

    def serialize_asset_state_store_to_ref(self, *, value, key, scope):
        return None if value == "small" else self._keep(value, key, scope)

    def _keep(self, value, key, scope):
        reference = "/".join((self.name, *map(str, asdict(scope).values()), key))
        self.values[reference] = value
        return reference

    def deserialize_task_state_store_from_ref(self, stored):
        return self.values[stored]

    deserialize_asset_state_store_from_ref = deserialize_task_state_store_from_ref

    def purge_task_state_store(self, stored):
        if Vault.broken:
            Vault.broken -= 1
            raise OSError("the vault is shut")
        self.values.pop(stored, None)

    purge_asset_state_store = purge_task_state_store


@pytest.fixture(autouse=True)
def vault(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(Vault, "values", {})
    monkeypatch.setattr(Vault, "broken", 0)
    monkeypatch.setattr(backends, "_PAUSES", (0, 0))
    monkeypatch.setitem(sys.modules, "my_vault", sys.modules[__name__])
    return Vault.values


def run(daemon: ExecutionServer, path: str = "my_vault.Vault", **claim: Any) -> Run:
    options = {"name": "vault"} if path == "my_vault.Vault" else claim.pop("options", {})
    daemon.again()
    daemon.claim = {"outlets": [ORDERS, LANDING], "worker_backend": {"path": path, "options": options}, **claim}
    return submitted_run(daemon.context())


TASK_REFERENCE = "vault/load_orders/manual__1/load/-1/k"
ORDERS_REFERENCE = "vault/orders/file:///data/orders/k"


def test_only_references_are_sent_and_values_are_read_back(daemon: ExecutionServer, vault: dict[str, Any]) -> None:
    with run(daemon) as r:
        r.task_store.set("k", {"secret": 1})
        r.asset_store["orders"].set("k", [2])
        assert (r.task_store.get("k"), r.asset_store["orders"].get("k")) == ({"secret": 1}, [2])

    assert vault == {TASK_REFERENCE: {"secret": 1}, ORDERS_REFERENCE: [2]}
    assert daemon.entries == {("orders", "k"): {"value": ORDERS_REFERENCE, "is_ref": True}}
    entry = daemon.task_entries["k"]
    assert (entry["value"], entry["is_ref"], "expires_at" in entry) == (TASK_REFERENCE, True, True)


def test_a_text_that_looks_like_a_reference_is_not_a_reference(daemon: ExecutionServer, vault: dict[str, Any]) -> None:
    with run(daemon) as r:
        r.asset_store["orders"].set("k", [2])
        daemon.put(("orders", "plain"), {"value": ORDERS_REFERENCE})
        assert r.asset_store["orders"].get("plain") == ORDERS_REFERENCE
        r.asset_store["orders"].delete("plain")
    assert vault == {ORDERS_REFERENCE: [2]}


def test_the_reference_is_the_same_by_name_and_by_uri(daemon: ExecutionServer, vault: dict[str, Any]) -> None:
    with run(daemon) as r:
        r.asset_store["orders"].set("k", 1)
        r.asset_store[ORDERS["uri"]].set("k", 2)
    assert vault == {ORDERS_REFERENCE: 2}


def test_deleted_cleared_and_replaced_values_are_removed_from_the_backend(
    daemon: ExecutionServer, vault: dict[str, Any]
) -> None:
    with run(daemon) as r:
        for store in (r.task_store, r.asset_store["orders"], r.asset_store["landing"]):
            for key in ("a", "b", "c"):
                store.set(key, [key])
        r.task_store.delete("a")
        r.task_store.delete("a")
        r.task_store.clear()
        r.asset_store["orders"].delete("a")
        r.asset_store["orders"].set("b", "small")
        r.asset_store["landing"].clear()
        assert r.asset_store["orders"].get("b") == "small"
    assert vault == {ORDERS_REFERENCE.replace("/k", "/c"): ["c"]}
    assert daemon.entries["orders", "b"] == {"value": "small"}


def test_success_removes_the_values_of_this_and_earlier_tries(daemon: ExecutionServer, vault: dict[str, Any]) -> None:
    with contextlib.suppress(RuntimeError), run(daemon, clear_on_success=True) as r:
        r.task_store.set("of the first try", 1)
        raise RuntimeError
    assert len(vault) == 1
    with run(daemon, clear_on_success=True) as r:
        r.task_store.set("of the second", 1)
        r.asset_store["orders"].set("k", 1)
    assert vault == {ORDERS_REFERENCE: 1}


def test_a_value_that_cannot_be_removed_is_retried_logged_and_reported(
    daemon: ExecutionServer, caplog: pytest.LogCaptureFixture, vault: dict[str, Any]
) -> None:
    with run(daemon) as r:
        r.task_store.set("k", 1)
        Vault.broken = 2
        r.task_store.delete("k")
        assert vault == {}
        r.task_store.set("k", 1)
        Vault.broken = 3
        r.task_store.delete("k")
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [
        f"not removed: the worker-side backend my_vault.Vault could not remove {TASK_REFERENCE!r}: the vault is shut"
    ]
    assert daemon.finished[-1]["message"] == f"values that could not be removed: {TASK_REFERENCE}"


def test_a_refused_write_leaves_no_value_in_the_backend(
    daemon: ExecutionServer, vault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Vault._keep

    def superseded_meanwhile(self: Vault, *what: Any) -> str:
        daemon.refusals["store/asset/by-name/value"] = refused(409, "fenced", "Try 2 was superseded.")
        return keep(self, *what)

    monkeypatch.setattr(Vault, "_keep", superseded_meanwhile)
    with run(daemon) as r, pytest.raises(Fenced):
        r.asset_store["orders"].set("k", 1)
    assert vault == {}


def test_a_reader_without_the_backend_gets_the_reference_and_one_warning(
    daemon: ExecutionServer, caplog: pytest.LogCaptureFixture
) -> None:
    for spec in (None, {"path": "no_such_module.Vault", "options": {}}):
        daemon.again()
        daemon.claim = {"outlets": [ORDERS], "worker_backend": spec}
        daemon.put(("orders", "k"), {"value": "vault/k", "is_ref": True})
        caplog.clear()
        with submitted_run(daemon.context()) as r:
            assert [r.asset_store.get("k") for _ in range(3)] == ["vault/k"] * 3
        assert len([record for record in caplog.records if "reference" in record.message]) == 1


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("no_such_module.Vault", {}, "No module named 'no_such_module'; send its module along"),
        ("json.Vault", {}, "has no attribute 'Vault'"),
        ("asset_job.storage.ObjectStorageStateBackend", {}, "'url'"),
        ("asset_job.storage.ObjectStorageStateBackend", {"url": "x", "compression": "rar"}, "use gzip"),
    ],
)
def test_a_write_without_the_backend_fails_and_stores_nothing(
    daemon: ExecutionServer, path: str, options: dict[str, Any], sentence: str
) -> None:
    with run(daemon, path, options=options) as r, pytest.raises(AssetJobError, match=sentence):
        r.task_store.set("k", "a secret")
    assert daemon.task_entries == {}


def test_a_missing_value_raises_a_sentence(daemon: ExecutionServer, vault: dict[str, Any]) -> None:
    with run(daemon) as r:
        r.task_store.set("k", 1)
        vault.clear()
        with pytest.raises(AssetJobError, match="could not read 'k' from"):
            r.task_store.get("k")


# --- in transactions


def test_a_transaction_sends_only_references(daemon: ExecutionServer, vault: dict[str, Any]) -> None:
    with run(daemon) as r:
        for key in ("k", "replaced", "deleted"):
            r.asset_store["orders"].set(key, [key])
        with r.asset_store["orders"].transaction() as t:
            t["k"] = [*t.get("k"), 2]
            t["plain"] = "small"
            t["replaced"] = "small"
            t.delete("deleted")
        assert r.asset_store["orders"].get("k") == ["k", 2]
    body = next(request.body for request in daemon.requests if request.path == "store/asset/transaction")
    assert body["set"] == {"k": ORDERS_REFERENCE, "plain": "small", "replaced": "small"}
    assert body["refs"] == ["k"]
    assert vault == {ORDERS_REFERENCE: ["k", 2]}


def test_a_refused_transaction_keeps_only_the_earlier_values(daemon: ExecutionServer, vault: dict[str, Any]) -> None:
    with run(daemon) as r:
        r.asset_store["orders"].set("k", "of an entry")
        daemon.refusals["store/asset/transaction"] = refused(409, "fenced", "Try 2 was superseded.")
        with pytest.raises(Fenced), r.asset_store["orders"].transaction() as t:
            t["k"] = t["new"] = "of the transaction"
    assert [*vault] == [ORDERS_REFERENCE]


def test_a_conflict_that_can_be_seen_replaces_no_value_in_the_backend(
    daemon: ExecutionServer, vault: dict[str, Any]
) -> None:
    def work() -> None:
        with r.asset_store["orders"].transaction() as t:
            t["k"] = "by the transaction"
            t["seen"] = t.get("seen")
            r.asset_store["orders"].set("seen", "by somebody else")

    with run(daemon) as r:
        for key in ("k", "seen"):
            r.asset_store["orders"].set(key, "before")
        with pytest.raises(StoreConflict, match="'seen' has changed since it was read: repeat the transaction"):
            work()
    assert {*vault.values()} == {"before", "by somebody else"}


def test_values_stored_before_one_that_fails_are_removed(
    daemon: ExecutionServer, vault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Vault._keep

    def full(self: Vault, value: Any, *where: Any) -> str:
        if value == "too much":
            raise OSError("the vault is full")
        return keep(self, value, *where)

    monkeypatch.setattr(Vault, "_keep", full)
    with run(daemon) as r, pytest.raises(AssetJobError, match="the vault is full"):  # noqa: SIM117
        with r.asset_store["orders"].transaction() as t:
            t["a"], t["b"] = "fits", "too much"
    assert (vault, daemon.entries) == ({}, {})


# --- in a folder


@pytest.mark.parametrize("compression", [None, "gzip", "bz2", "xz"])
def test_any_key_is_stored_inside_the_folder(daemon: ExecutionServer, tmp_path: Path, compression: str | None) -> None:
    options = {"url": f"{tmp_path.as_uri()}/state", "compression": compression}
    value = {"text": "ü" * 100, "n": [1, 2.5, None]}
    with run(daemon, "asset_job.storage.ObjectStorageStateBackend", options=options) as r:
        for key in ("k", "../../up", "a/b", ".", "ü" * 512, "x" * 512):
            for store in (r.task_store, r.asset_store["orders"]):
                store.set(key, "before")
                store.set(key, value)
                assert store.get(key) == value
            assert len(files(tmp_path / "state")) == len(files(tmp_path)) == 2
            assert str(daemon.task_entries[key]["value"]).startswith(options["url"])
            r.task_store.delete(key)
            r.asset_store["orders"].clear()
            assert files(tmp_path) == []


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_small_values_stay_in_the_database(tmp_path: Path) -> None:
    backend = ObjectStorageStateBackend(url=tmp_path.as_uri(), threshold_bytes=10)
    scope = AssetScope(name="orders")
    assert backend.serialize_asset_state_store_to_ref(value="x" * 8, key="k", scope=scope) is None
    reference = backend.serialize_asset_state_store_to_ref(value="x" * 9, key="k", scope=scope)
    assert backend.deserialize_asset_state_store_from_ref(reference) == "x" * 9
    compressed = ObjectStorageStateBackend(url=tmp_path.as_uri(), compression="gzip")
    assert compressed.deserialize_asset_state_store_from_ref(reference) == "x" * 9


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "FOLDER/../secret", "FOLDERx/k", 7, None])
def test_a_forged_reference_is_rejected(tmp_path: Path, reference: Any) -> None:
    (tmp_path / "secret").write_text(json.dumps("secret"))
    url = f"{tmp_path.as_uri()}/state"
    made_up = reference.replace("FOLDER", url) if isinstance(reference, str) else reference
    backend = ObjectStorageStateBackend(url=url)
    for act in (backend.deserialize_task_state_store_from_ref, backend.purge_asset_state_store):
        with pytest.raises(ValueError, match="does not lie in"):
            act(made_up)
    assert (tmp_path / "secret").exists()
