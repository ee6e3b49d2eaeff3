"""Which fields each kind of writer sets: all of its own and none of the others."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.base import AssetStoreWriterKind, Writer
from store.errors import InvalidValue

FIELDS: dict[str, Any] = {
    "dag_id": "load",
    "run_id": "r",
    "task_id": "t",
    "map_index": -1,
    "watcher": "files",
    "actor": "ann",
}
NEEDED = {
    AssetStoreWriterKind.TASK: {"dag_id", "run_id", "task_id", "map_index"},
    AssetStoreWriterKind.WATCHER: {"watcher"},
    AssetStoreWriterKind.API: {"actor"},
}


@given(kind=st.sampled_from(AssetStoreWriterKind), given_fields=st.sets(st.sampled_from(sorted(FIELDS))))
def test_a_writer_exists_exactly_with_the_fields_of_its_kind(
    kind: AssetStoreWriterKind, given_fields: set[str]
) -> None:
    fields = {name: FIELDS[name] for name in given_fields}
    if given_fields == NEEDED[kind]:
        assert Writer(kind=kind, write_id="w", **fields).kind is kind
    else:
        with pytest.raises(InvalidValue, match=f"a {kind} writer sets exactly"):
            Writer(kind=kind, write_id="w", **fields)


@pytest.mark.parametrize("kind", ["robot", "", "task", None])
def test_an_unknown_kind_is_impossible(kind: str | None) -> None:
    with pytest.raises(InvalidValue, match="unknown writer kind"):
        Writer(kind=cast("AssetStoreWriterKind", kind), write_id="w", actor="ann")
