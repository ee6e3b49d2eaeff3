"""The configured dotted path becomes a backend, or one sentence with a remedy."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from store.backends import DEFAULT, load_backend
from store.database import Database, sqlite_url
from store.errors import BackendUnusable
from store.memory import MemoryStoreBackend
from store.metastore import MetastoreStoreBackend

PLUG_IN = """
from store.memory import MemoryStoreBackend
from store.base import BaseStoreBackend

class Small(MemoryStoreBackend):
    def __init__(self, *, size: int) -> None:
        super().__init__()
        if size < 0:
            raise ValueError("size must not be negative")
        self.size = size

class Half(BaseStoreBackend):
    async def aget(self, scope, key, *, session=None): ...
    async def aset(self, scope, key, value, *, expires_at=None, session=None): ...
    async def adelete(self, scope, key, *, session=None): ...

class Stranger:
    pass

not_even_a_class = 1
"""


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database.open(sqlite_url(tmp_path / "watcher.db")) as database:
        yield database


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the module `plug_in` of this source importable."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plug_in", raising=False)

    def write(source: str) -> None:
        (tmp_path / "plug_in.py").write_text(source)

    return write


async def test_the_default_lives_in_the_metadata_database(database: Database) -> None:
    assert isinstance(load_backend(DEFAULT, {}, database), MetastoreStoreBackend)


async def test_a_plug_in_gets_its_options(database: Database, plug_in: Callable[[str], None]) -> None:
    plug_in(PLUG_IN)
    backend = load_backend("plug_in.Small", {"size": 3}, database)
    assert isinstance(backend, MemoryStoreBackend)
    assert vars(backend)["size"] == 3


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("nowhere.at.All", {}, "cannot be imported: No module named 'nowhere'; correct settings.store.backend, or put"),
        ("plug_in.Missing", {}, "cannot be imported: module 'plug_in' has no attribute 'Missing'; correct settings"),
        ("Small", {}, "cannot be imported: Empty module name; correct settings.store.backend"),
        ("", {}, "cannot be imported: Empty module name; correct settings.store.backend"),
        ("plug_in.Stranger", {}, "plug_in.Stranger is not a store backend; make it a subclass of"),
        ("plug_in.not_even_a_class", {}, "is not a store backend; make it a subclass of"),
        ("store.base.BaseStoreBackend", {}, "lacks aclear, adelete, aget, aset; add"),
        ("plug_in.Half", {}, "the store backend plug_in.Half lacks aclear; add what is missing"),
        (
            "plug_in.Small",
            {},
            "options do not fit the store backend plug_in.Small: missing a required argument: 'size'",
        ),
        ("plug_in.Small", {"size": 1, "url": "x"}, "got an unexpected keyword argument 'url'; correct the options"),
        ("plug_in.Small", {"size": -1}, "cannot be made: size must not be negative; correct settings.store.options"),
        (DEFAULT, {"database": "x"}, "options do not fit the store backend store.metastore.MetastoreStoreBackend"),
    ],
)
async def test_an_unusable_backend_is_refused_with_one_sentence(
    database: Database, plug_in: Callable[[str], None], path: str, options: dict[str, object], sentence: str
) -> None:
    plug_in(PLUG_IN)
    with pytest.raises(BackendUnusable, match=re.escape(sentence)) as refused:
        load_backend(path, options, database)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("source", ["raise RuntimeError('no licence')", "def broken(:"])
async def test_a_module_that_raises_cannot_be_imported(
    database: Database, plug_in: Callable[[str], None], source: str
) -> None:
    plug_in(source)
    with pytest.raises(BackendUnusable, match=r"plug_in\.Small cannot be imported: (no licence|.*syntax)"):
        load_backend("plug_in.Small", {}, database)
