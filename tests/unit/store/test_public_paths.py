"""What plug-ins, the YAML, the Dockerfile and the documentation name of the store stays where it is."""

from __future__ import annotations

import importlib

import pytest

import store.base
import store.database.engine
import store.errors
import store.keys
import store.memory
import store.metastore
import store.scopes
import store.values

PUBLIC = {
    "store.base": [
        "NEVER_EXPIRE",
        "AssetScope",
        "AssetStoreWriterKind",
        "BaseStoreBackend",
        "NeverExpire",
        "Scope",
        "TaskScope",
        "Writer",
    ],
    "store.values": ["WATERMARK_SUFFIX", "check_expiry", "check_json", "check_key", "to_json"],
    "store.errors": ["BackendFailed", "Conflict", "InvalidValue", "NotFound", "StoreError", "VersionConflict"],
    "store.keys": ["AssetRef", "JobDefinition", "TaskInstanceKey", "TryKey"],
    "store.metastore": ["MetastoreStoreBackend"],
    "store.memory": ["MemoryStoreBackend"],
    "store.backends": ["DEFAULT", "check_backend", "load_backend"],
    "store.database": ["Database", "sqlite_url"],
}


@pytest.mark.parametrize(("module", "names"), PUBLIC.items())
def test_a_public_name_is_there(module: str, names: list[str]) -> None:
    missing = [name for name in names if not hasattr(importlib.import_module(module), name)]
    assert missing == []


def test_an_object_with_two_public_paths_is_the_same_object() -> None:
    assert store.database.Database is store.database.engine.Database
    assert store.base.TaskScope is store.keys.TaskInstanceKey
    for name in ("NEVER_EXPIRE", "AssetScope", "AssetStoreWriterKind", "NeverExpire", "Scope", "TaskScope", "Writer"):
        assert getattr(store.base, name) is getattr(store.scopes, name)
    assert issubclass(store.metastore.MetastoreStoreBackend, store.base.BaseStoreBackend)
