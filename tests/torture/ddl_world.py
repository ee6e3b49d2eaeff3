"""A table that is altered all the time, and an independent model of what its watcher must emit.

Each version of a row has a number of its own. The model knows which versions must be emitted, which may be emitted because
they existed only between two polls, which conditions of exactness are broken now, and which words report them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import asyncpg

SCHEMA: Final = """
CREATE SEQUENCE versions;
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN NEW.version := nextval('versions'); NEW.updated_at := clock_timestamp(); RETURN NEW; END $$;
CREATE TABLE t (id bigserial, part int NOT NULL DEFAULT 0, note text, version bigint, updated_at timestamptz NOT NULL DEFAULT now(),
                PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE INDEX ON t (updated_at);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION stamp();
"""
SET_BACK: Final = 40
"""Ids by which the sequence is set back: more than are drawn between two polls, else nobody could notice."""
MOST_DRAWN: Final = 12


@dataclass(kw_only=True)
class Broken:
    """A condition that does not hold now: the words that report it, and the action that repairs it."""

    words: str
    mend: str


@dataclass(kw_only=True)
class Model:
    owed: set[int] = field(default_factory=set)
    """Versions that must be emitted once."""
    gone: set[int] = field(default_factory=set)
    """Versions that are no longer visible, and that may have been emitted before."""
    told: Counter[int] = field(default_factory=Counter)
    broken: dict[str, Broken] = field(default_factory=dict)
    decides: str = ""
    """Words that say why a person must decide, '' while nobody must."""
    may_decide: set[str] = field(default_factory=set)
    """Words that may demand a decision: sequence and table both have new files, so ids may come again."""
    brought: str = ""
    """The attached partition whose rows are not emitted until somebody decides."""

    def judge(self) -> str:
        """Return what is wrong with the emitted versions, '' if they are exact."""
        lost = sorted(self.owed - self.told.keys())
        repeated = sorted(version for version, times in self.told.items() if times > 1)
        unknown = sorted(self.told.keys() - self.owed - self.gone)
        return f"lost {lost}, repeated {repeated}, unknown {unknown}" if lost or repeated or unknown else ""

    def begin_anew(self, visible: set[int]) -> None:
        """Expect every visible version once more, after a rewind to the start."""
        self.gone |= self.owed | self.told.keys()
        self.owed, self.told, self.decides, self.brought = visible, Counter(), "", ""
        self.may_decide.clear()


class World:
    """Alters the table. `admin` owns it; `writer` keeps a transaction open now and then."""

    def __init__(
        self, random: Random, mode: str, role: str, admin: asyncpg.Connection, writer: asyncpg.Connection
    ) -> None:
        self.random, self.mode, self.role, self.admin, self.writer = random, mode, role, admin, writer
        self.model = Model()
        self.numbers = 0
        self.drawn = 0
        self.position = 0
        """A lower bound of the highest id that was emitted."""
        self.by_hand_up_to = 0
        """The highest id that was inserted explicitly."""
        self.open: list[int] | None = None
        self.locked = self.will_lock = False
        self.prepared: tuple[int, int] | None = None
        self.moves: list[Callable[[], Awaitable[None]]] = [
            *[self.insert] * 4, self.hold, self.end, self.update, self.alter, self.rewrite, self.index, self.vacuum,
            self.truncate, self.restart, self.set_back, self.by_hand, self.cache, self.change_default, self.create_partition,
            self.prepare, self.attach, self.attach, self.detach, self.drop_partition, self.revoke, self.hide, self.lock,
        ]  # fmt: skip

    async def move(self) -> str:
        """Make a random move and return its name. Skip a move that an open transaction blocks."""
        chosen = self.random.choice(self.moves)
        try:
            await chosen()
        except asyncpg.LockNotAvailableError:
            return f"{chosen.__name__} (in the way)"
        return chosen.__name__

    async def versions(self) -> set[int]:
        return {row[0] for row in await self.admin.fetch("SELECT version FROM t")}

    async def follow(self) -> None:
        """Update the model: visible versions must be emitted; those that vanished unemitted need not be."""
        visible = await self.versions()
        self.model.gone |= self.model.owed - visible - self.model.told.keys()
        self.model.owed = (self.model.owed & (visible | self.model.told.keys())) | visible

    @property
    def room(self) -> int:
        return min(5, MOST_DRAWN - self.drawn)

    async def insert(self) -> None:
        if self.room > 0:
            count = self.random.randint(1, self.room)
            self.drawn += count
            parts = [row[0] for row in await self.admin.fetch(PARTS)]
            rows = [(self.random.choice(parts),) for _ in range(count)] if parts else []
            await self.admin.executemany("INSERT INTO t (part) VALUES ($1)", rows)

    async def hold(self) -> None:
        parts = [row[0] for row in await self.admin.fetch(PARTS)]
        if self.open is None and self.room > 0:
            self.drawn += 1
            await self.writer.execute(f"BEGIN; INSERT INTO t (part) VALUES ({self.random.choice(parts)})")
            self.open = []

    async def end(self) -> None:
        if self.open is not None:
            await self.writer.execute(self.random.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
            self.open = None

    async def update(self) -> None:
        if self.mode == "updated_at":
            await self.admin.execute("UPDATE t SET note = 'b' WHERE version % 5 = 0")

    async def alter(self) -> None:
        self.numbers += 1
        statements = [
            "ALTER TABLE t ADD extra int DEFAULT 1; ALTER TABLE t DROP extra",
            "ALTER TABLE t ALTER note SET DEFAULT 'a'",
        ]
        await self.admin.execute(self.random.choice(statements))

    async def rewrite(self) -> None:
        to = self.random.choice(["varchar(99)", "text", "varchar(50)"])
        before = await self.files()
        await self.admin.execute(f"ALTER TABLE t ALTER note TYPE {to} USING note::{to}")
        await self.note_files(before)

    async def vacuum(self) -> None:
        if self.open is None:
            before = await self.files()
            await self.admin.execute("VACUUM FULL t")
            await self.note_files(before)

    async def files(self) -> dict[int, int]:
        return dict(
            await self.admin.fetch(
                "SELECT oid::int8, relfilenode::int8 FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 't'::regclass)"
            )
        )

    async def note_files(self, before: dict[int, int]) -> None:
        """Note changed files. In mode updated_at a new file makes rows look new, or their writers unknown."""
        if any(before.get(oid, file) != file for oid, file in (await self.files()).items()):
            self.model.may_decide.add("table")
            if self.mode == "updated_at":
                self.model.decides = "was rewritten or emptied"

    async def index(self) -> None:
        self.numbers += 1
        await self.admin.execute(f"CREATE INDEX extra_{self.numbers} ON t (note)")

    async def truncate(self) -> None:
        before = await self.files()
        await self.admin.execute("TRUNCATE t")
        await self.note_files(before)

    async def restart(self) -> None:
        if self.position <= MOST_DRAWN:
            return
        before = await self.files()
        await self.admin.execute("TRUNCATE t RESTART IDENTITY")
        await self.note_files(before)
        if self.mode == "id":
            self.model.decides = "t_id_seq"

    async def set_back(self) -> None:
        last = await self.admin.fetchval("SELECT last_value FROM t_id_seq")
        if self.mode == "id" and self.open is None and self.position - SET_BACK > 0 and last >= self.position:
            to = self.position - SET_BACK
            how = self.random.choice(["SELECT setval('t_id_seq', {})", "ALTER SEQUENCE t_id_seq RESTART {}"])
            await self.admin.execute(f"DELETE FROM t WHERE id >= {to}; {how.format(to)}")
            self.model.decides = "t_id_seq"

    async def by_hand(self) -> None:
        """Insert an explicit id, above all drawn and earlier explicit ids: it is not drawn soon, and was never emitted."""
        if self.mode == "id":
            self.by_hand_up_to = await self.admin.fetchval(BY_HAND, self.random.randint(1, 3), self.by_hand_up_to)

    async def keep_apart(self) -> None:
        """Keep the sequence away from explicit ids: an id could otherwise be given twice, in two partitions."""
        await self.admin.execute(KEEP_APART)

    async def cache(self) -> None:
        if self.mode == "id":
            await self.admin.execute("ALTER SEQUENCE t_id_seq CACHE 5")
            self.model.may_decide.add("sequence")
            mend = "ALTER SEQUENCE t_id_seq CACHE 1; DISCARD SEQUENCES"
            self.model.broken["cache"] = Broken(words="hands out ids in blocks", mend=mend)

    async def change_default(self) -> None:
        if self.mode == "id":
            await self.admin.execute(
                "ALTER TABLE t ALTER id SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint"
            )
            mend = "ALTER TABLE t ALTER id SET DEFAULT nextval('t_id_seq')"
            self.model.broken["default"] = Broken(words="is not drawn from a sequence", mend=mend)

    async def create_partition(self) -> None:
        part = await self.free_part()
        if part is not None:
            await self.admin.execute(f"CREATE TABLE t{part} PARTITION OF t FOR VALUES IN ({part})")

    async def attach(self) -> None:
        """Attach a partition that was filled earlier."""
        if self.prepared is None or self.model.brought:
            return
        part, rows = self.prepared
        kind = await self.admin.fetchval(KIND_OF_NOTE)
        await self.admin.execute(
            f"ALTER TABLE t{part} ALTER note TYPE {kind}; ALTER TABLE t ATTACH PARTITION t{part} FOR VALUES IN ({part})"
        )
        self.prepared = None
        if rows:
            self.model.brought = f"public.t{part}"

    async def prepare(self) -> None:
        part = await self.free_part()
        if part is None or self.prepared is not None or "default" in self.model.broken or self.room < 3:
            return
        rows = self.random.choice([0, 3])
        await self.admin.execute(
            f"CREATE TABLE t{part} (LIKE t INCLUDING DEFAULTS);"
            f"INSERT INTO t{part} (part, version, updated_at) SELECT {part}, nextval('versions'), now() - interval '1 hour'"
            f" FROM generate_series(1, {rows})"
        )
        self.drawn += rows
        self.prepared = part, rows

    async def free_part(self) -> int | None:
        taken = {
            row[0]
            for row in await self.admin.fetch("SELECT substr(relname, 2)::int FROM pg_class WHERE relname ~ '^t[0-9]$'")
        }
        return next((part for part in range(4) if part not in taken), None)

    async def detach(self) -> None:
        parts = [row[0] for row in await self.admin.fetch(PARTS)]
        if len(parts) > 1 and self.open is None:
            part = self.random.choice(parts)
            await self.admin.execute(f"ALTER TABLE t DETACH PARTITION t{part}; DROP TABLE t{part}")
            if self.model.brought == f"public.t{part}":
                self.model.brought = ""

    async def drop_partition(self) -> None:
        parts = [row[0] for row in await self.admin.fetch(PARTS)]
        if len(parts) > 1 and self.open is None:
            part = self.random.choice(parts)
            await self.admin.execute(f"DROP TABLE t{part}")
            if self.model.brought == f"public.t{part}":
                self.model.brought = ""

    async def revoke(self) -> None:
        await self.admin.execute(f"REVOKE SELECT ON t FROM {self.role}")
        self.model.broken["right"] = Broken(words="permission denied", mend=f"GRANT SELECT ON t TO {self.role}")

    async def hide(self) -> None:
        await self.admin.execute(
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS even ON t;"
            "CREATE POLICY even ON t USING (version % 2 = 0)"
        )
        self.model.broken["policy"] = Broken(
            words="row-level security", mend="ALTER TABLE t DISABLE ROW LEVEL SECURITY"
        )

    async def lock(self) -> None:
        self.will_lock = self.open is None

    async def take_lock(self) -> None:
        """Have the lock taken at the next poll."""
        if self.will_lock and self.open is None:
            await self.writer.execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            self.locked = True
        self.will_lock = False

    async def unlock(self) -> None:
        if self.locked:
            await self.writer.execute("ROLLBACK")
        self.locked = False

    async def mend(self) -> None:
        """Repair everything that is broken, as the owner, who waits for no lock."""
        await self.unlock()
        await self.end()
        broken, self.model.broken = self.model.broken, {}
        for each in broken.values():
            await self.admin.execute(each.mend)
        if "cache" in broken:
            await self.writer.execute("DISCARD SEQUENCES")


KEEP_APART: Final = """
SELECT setval('t_id_seq', max(id)) FROM t, t_id_seq s WHERE id > s.last_value
HAVING min(id) < (SELECT last_value FROM t_id_seq) + 100
"""
KIND_OF_NOTE: Final = (
    "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'note'"
)
PARTS: Final = "SELECT substr(inhrelid::regclass::text, 2)::int FROM pg_inherits WHERE inhparent = 't'::regclass"
BY_HAND: Final = """
INSERT INTO t (id, part)
SELECT 1000 * $1::int + greatest((SELECT last_value FROM t_id_seq), (SELECT coalesce(max(id), 0) FROM t), $2::int8),
       (SELECT min(substr(inhrelid::regclass::text, 2)::int) FROM pg_inherits WHERE inhparent = 't'::regclass)
RETURNING id
"""
