from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.tiny_host import options
from triggers.base import Finding, TriggerContext
from triggers.errors import SourceUnavailable
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows

pytestmark = pytest.mark.service

GOOD = "CREATE TABLE orders (id bigserial PRIMARY KEY, note text);"
PARTS = "CREATE TABLE part PARTITION OF orders FOR VALUES FROM (0) TO (1000);"


async def findings_of(dsn: str, **values: object) -> list[Finding]:
    async with PostgresConnection.model_validate({"dsn": dsn}).open() as client:
        return await NewRows(options(**values), client, TriggerContext(watcher="orders_rows")).check()


@pytest.fixture
async def admin(postgres_database: PostgresDatabase) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_database.dsn)
    yield connection
    await connection.close()


@dataclass(frozen=True, kw_only=True)
class Case:
    schema: str
    finding: str
    remedy: str
    options: Mapping[str, object] = field(default_factory=dict)


BY_ID = {
    "view": Case(
        schema="CREATE VIEW orders AS SELECT 1 AS id",
        finding="error table: public.orders is a view",
        remedy="watch the table into which rows are inserted",
    ),
    "inherited": Case(
        schema=f"{GOOD} CREATE TABLE child () INHERITS (orders)",
        finding="error table: other tables inherit from public.orders: nothing keeps ids unique across them",
        remedy="watch each table, or turn it into a partitioned table",
    ),
    "no column": Case(
        schema=GOOD,
        options={"column": "nr", "columns": ["note", "price"]},
        finding="error columns: public.orders has no column nr, price",
        remedy="choose from id, note, with `column`, `columns`, `partition` and `soft_delete`",
    ),
    "no index": Case(
        schema="CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY)",
        finding="error index: no valid btree index starts with id: each poll would read the whole table",
        remedy='CREATE UNIQUE INDEX CONCURRENTLY ON "public"."orders" ("id")',
    ),
    "partial index": Case(
        schema="CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY); CREATE UNIQUE INDEX ON orders (id) WHERE id > 0",
        finding="error index: no valid btree index starts with id: each poll would read the whole table",
        remedy='CREATE UNIQUE INDEX CONCURRENTLY ON "public"."orders" ("id")',
    ),
    "text": Case(
        schema="CREATE TABLE orders (id text PRIMARY KEY)",
        finding="error column: id is text, not an integer",
        remedy="mode: id needs a growing integer; for other keys use mode: updated_at",
    ),
    "nullable": Case(
        schema="CREATE TABLE orders (id bigint UNIQUE DEFAULT 1)",
        finding="error column: id may be null",
        remedy='ALTER TABLE "public"."orders" ALTER COLUMN "id" SET NOT NULL',
    ),
    "not unique": Case(
        schema="CREATE TABLE orders (id bigserial, note text, PRIMARY KEY (id, note))",
        finding="error unique: id is not unique: no unique index covers it alone",
        remedy='CREATE UNIQUE INDEX CONCURRENTLY ON "public"."orders" ("id")',
    ),
    "unique with the partition key": Case(
        schema="CREATE TABLE orders (id bigserial, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        finding="warning unique: id is unique only together with the partition key: PostgreSQL cannot enforce more",
        remedy="let all ids come from the sequence; then each is unique",
    ),
    "no default": Case(
        schema="CREATE TABLE orders (id bigint PRIMARY KEY)",
        finding="error ids: id is not drawn from a sequence but has no default",
        remedy="make it an identity column, or set `unsafe_ids: true` if nextval draws every id",
    ),
    "other default": Case(
        schema="CREATE SEQUENCE s; CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT nextval('s') * 10)",
        finding="error ids: id is not drawn from a sequence but has (nextval('s'::regclass) * 10)",
        remedy="make it an identity column, or set `unsafe_ids: true` if nextval draws every id",
    ),
    "other default of a partition": Case(
        schema=f"CREATE TABLE orders (id bigserial PRIMARY KEY) PARTITION BY RANGE (id);{PARTS} ALTER TABLE part ALTER id SET DEFAULT 7",
        finding="error ids: id is not drawn from a sequence but has 7",
        remedy="make it an identity column, or set `unsafe_ids: true` if nextval draws every id",
    ),
    "no default, overridden": Case(
        schema="CREATE TABLE orders (id bigint PRIMARY KEY)",
        options={"unsafe_ids": True},
        finding="warning ids: id is not drawn from a sequence but has no default",
        remedy="detection is exact only if the transaction that inserts a row draws its id by nextval",
    ),
    "several sequences": Case(
        schema=f"CREATE TABLE orders (id bigserial PRIMARY KEY) PARTITION BY RANGE (id);{PARTS} CREATE SEQUENCE other; ALTER TABLE part ALTER id SET DEFAULT nextval('other')",
        finding="error sequence: ids come from several sequences: orders_id_seq, other",
        remedy="let all partitions draw from one sequence",
    ),
    "cache": Case(
        schema=f"{GOOD} ALTER SEQUENCE orders_id_seq CACHE 20",
        finding="error sequence: orders_id_seq hands out ids in blocks: a session may use a low id long after others used higher ones",
        remedy="ALTER SEQUENCE orders_id_seq CACHE 1",
    ),
    "blocks of ids of the table above": Case(
        schema="CREATE TABLE above (id int NOT NULL GENERATED BY DEFAULT AS IDENTITY (CACHE 20), day int) PARTITION BY LIST (day);"
        "CREATE TABLE orders PARTITION OF above DEFAULT; CREATE UNIQUE INDEX ON orders (id)",
        finding="error sequence: above_id_seq hands out ids in blocks: a session may use a low id long after others used higher ones",
        remedy="ALTER SEQUENCE above_id_seq CACHE 1",
    ),
    "downwards": Case(
        schema="CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY (INCREMENT -1) PRIMARY KEY)",
        finding="error sequence: orders_id_seq counts downwards",
        remedy="ALTER SEQUENCE orders_id_seq INCREMENT 1",
    ),
    "cycle": Case(
        schema=f"{GOOD} ALTER SEQUENCE orders_id_seq CYCLE",
        finding="error sequence: orders_id_seq starts over from its minimum when it reaches its end",
        remedy="ALTER SEQUENCE orders_id_seq NO CYCLE",
    ),
    "steps": Case(
        schema=f"{GOOD} ALTER SEQUENCE orders_id_seq INCREMENT 50",
        finding="warning increment: orders_id_seq counts by 50: rows are lost if clients use the ids in between",
        remedy="ALTER SEQUENCE orders_id_seq INCREMENT 1, unless no client uses the ids in between",
    ),
    "unlogged": Case(
        schema="CREATE UNLOGGED TABLE orders (id bigserial PRIMARY KEY, note text);",
        finding="warning durability: public.orders is unlogged: a crash of its server empties it and may set its ids back, unnoticed by the watcher",
        remedy='ALTER TABLE "public"."orders" SET LOGGED',
    ),
    "no table": Case(
        schema='CREATE TABLE "Orders" ()',
        finding="error table: there is no table public.orders in this database",
        remedy="correct `table` (schema.table, upper and lower case as in the catalog) or the connection's database",
    ),
    "where with an unknown column": Case(
        schema=GOOD,
        options={"where": "prise > 3"},
        finding='error where: PostgreSQL refused: column "prise" does not exist (SQLSTATE 42703)',
        remedy="write a condition on one row of the table, as it may stand after WHERE",
    ),
    "where with an aggregate": Case(
        schema=GOOD,
        options={"where": "count(*) > 1"},
        finding="error where: PostgreSQL refused: aggregate functions are not allowed in WHERE (SQLSTATE 42803)",
        remedy="write a condition on one row of the table, as it may stand after WHERE",
    ),
    "where with a set": Case(
        schema=GOOD,
        options={"where": "generate_series(1, 2) = 1"},
        finding="error where: PostgreSQL refused: set-returning functions are not allowed in WHERE (SQLSTATE 0A000)",
        remedy="write a condition on one row of the table, as it may stand after WHERE",
    ),
    "where that is no condition": Case(
        schema=GOOD,
        options={"where": "id + 1"},
        finding="error where: PostgreSQL refused: argument of WHERE must be type boolean, not type bigint (SQLSTATE 42804)",
        remedy="write a condition on one row of the table, as it may stand after WHERE",
    ),
}

CHANGES = "error where: the answer of `where` about a row may change, because {}: a row that is skipped once is never reported"
ALONE = "write a condition on the row alone, or set `unsafe_where: true` if rows may be skipped for good"
WITH_TIMES = "CREATE TABLE orders (id bigserial PRIMARY KEY, note text, day date, at timestamptz, local timestamp);"
OF_THE_DATABASE = (
    f"{WITH_TIMES} CREATE TABLE flags (id bigint); CREATE SCHEMA far;"
    "CREATE FUNCTION wish(text) RETURNS boolean STABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';"
    "CREATE FUNCTION far.wish(text, int DEFAULT 1) RETURNS boolean STABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';"
    "CREATE FUNCTION dice(text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN true; END';"
    "CREATE FUNCTION pure(text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';"
    "CREATE FUNCTION plain(bigint) RETURNS boolean STABLE LANGUAGE sql AS 'SELECT $1 > 5';"
    "CREATE FUNCTION hidden(timestamptz) RETURNS boolean STABLE LANGUAGE sql AS 'SELECT $1 < now()';"
    "CREATE FUNCTION far.same(text, text) RETURNS boolean STABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';"
    "CREATE OPERATOR far.=== (FUNCTION = far.same, LEFTARG = text, RIGHTARG = text)"
)
CHANGING = {
    "at <= now()": "now() depends on the clock",
    "at <= transaction_timestamp() - interval '1 day'": "transaction_timestamp() depends on the clock",
    "at <= statement_timestamp()": "statement_timestamp() depends on the clock",
    "at <= clock_timestamp()": "clock_timestamp() depends on the clock",
    "day < CURRENT_DATE": "CURRENT_DATE depends on the clock",
    "at < current_timestamp(3)": "CURRENT_TIMESTAMP depends on the clock",
    "local < LOCALTIMESTAMP": "LOCALTIMESTAMP depends on the clock",
    "at::time < localtime": "LOCALTIME depends on the clock",
    "at::timetz < current_time": "CURRENT_TIME depends on the clock",
    "age(local) > '1 day'": "CURRENT_DATE depends on the clock",
    "age(orders.xmin) > 5": "age of one argument depends on the clock",
    "day = 'today'": "'today' depends on the clock",
    "at < 'now'::timestamptz": "'now' depends on the clock",
    "id IN (SELECT id FROM flags)": "it reads other rows",
    "EXISTS (SELECT FROM flags f WHERE f.id = orders.id)": "it reads other rows",
    "id > (SELECT max(id) FROM flags)": "it reads other rows",
    "random() < 0.5": "random() is volatile",
    "wish(note)": "wish() is not immutable",
    "far.wish(note)": "far.wish() is not immutable",
    "dice(note)": "dice() is volatile",
    "hidden(at)": "now() depends on the clock",
    "CASE WHEN id > 3 THEN ARRAY[note, 'a(b'] && ARRAY[CASE WHEN wish(note) THEN 'a' END] END": "wish() is not immutable",
    "note OPERATOR(far.===) 'a'": "operator far.=== is not immutable",
}
LASTING = (
    "note LIKE 'a%' AND coalesce(note, '') <> 'now()'",
    "note IN ('today', 'now', ' CURRENT_DATE ')",
    "to_char(at, 'YYYY') = '2026' AND extract(year FROM at) = 2026 AND date_trunc('day', at) < '2030-01-01'",
    "age(at, '2026-01-01'::timestamptz) > interval '1 day'",
    "(at AT TIME ZONE 'UTC')::date > '2026-01-01' AND day > '2026-01-01' AND at > day",
    "pure(note) AND plain(id)",
    "length(trim(both 'x' from note)) > 2 AND substring(note from 1 for 2) ~ '^[a-z(]' AND position('a' in note) > 0",
    "note::varchar(5)::numeric(10, 2) > 3 AND id::text::interval day to second(3) > '1 s' AND at::timestamp(0) > '2026-01-01'",
    "num_nonnulls(note, day, at) > 1 AND concat(note, id, day) <> '' AND format('%s', note) <> 'x'",
    "id % 2 = 0 AND -id < 0 AND id BETWEEN 0 AND 1000000 AND note IS DISTINCT FROM 'x' AND (orders).id > 0",
    "CURRENT_USER <> 'x' AND note SIMILAR TO 'a|b' AND id = ANY (ARRAY[1, 2]) AND note::json->>'a' = '1'",
)


@pytest.mark.parametrize("partitioned", [False, True])
async def test_a_condition_whose_answer_changes_is_refused(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection, *, partitioned: bool
) -> None:
    """With partitions the plan would leave those out that the condition excludes, and with them the condition."""
    schema = OF_THE_DATABASE.replace("bigserial PRIMARY KEY", "bigserial") if partitioned else OF_THE_DATABASE
    if partitioned:
        schema = schema.replace(
            "local timestamp);", "local timestamp, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);"
        )
        schema += "; CREATE TABLE old PARTITION OF orders FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')"
    await admin.execute(schema)
    async with PostgresConnection.model_validate({"dsn": postgres_database.dsn}).open() as client:

        async def judged(has_position: bool = False, **values: object) -> list[tuple[str, str]]:
            context = TriggerContext(watcher="orders_rows", has_position=has_position)
            findings = await NewRows(options(**values), client, context).check()
            return [spelled(one) for one in findings if one.check == "where" and one.level != "ok"]

        judgements = {where: await judged(where=where) for where in (*CHANGING, *LASTING)}
        expected = {where: [(CHANGES.format(reason), ALONE)] for where, reason in CHANGING.items()}
        assert judgements == expected | {where: [] for where in LASTING}
        # A watcher that has a position goes on for now, and says so.
        warning = CHANGES.replace("error", "warning", 1).format("now() depends on the clock")
        assert await judged(has_position=True, where="at <= now()") == [(warning, ALONE)]
        assert await judged(unsafe_where=True, where="at <= now()") == []


MOMENT = "updated_at timestamptz NOT NULL DEFAULT now()"
TOUCH = (
    "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at := now(); RETURN NEW; END';"
    "CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch();"
)
LOCAL = "updated_at timestamp UNIQUE NOT NULL DEFAULT (now() AT TIME ZONE '{}')"
WITHOUT_DAYLIGHT_SAVING = (
    "name a zone without daylight saving, such as UTC, and let all writers set the column to its time"
)
MUCH_EARLIER = "which may be much earlier than the transaction: such rows are lost"
DEFAULT_NOW = 'ALTER TABLE "public"."orders" ALTER COLUMN "updated_at" SET DEFAULT now()'
RIGHT_DEFAULTS = (
    "now()",
    "transaction_timestamp()",
    "clock_timestamp()",
    "statement_timestamp()",
    "CURRENT_TIMESTAMP",
    "CURRENT_TIMESTAMP(3)",
    "now()::timestamptz(0)",
)
BY_UPDATE = {
    "no time zone": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamp UNIQUE); {TOUCH}",
        finding="error column: updated_at is timestamp without time zone: its values do not say of which zone's clock they are",
        remedy="set `time_zone: UTC`, or the zone without daylight saving of whose clock all writers set the column",
    ),
    "a zone for moments": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, {MOMENT} UNIQUE); {TOUCH}",
        options={"time_zone": "UTC"},
        finding="error column: updated_at is timestamp with time zone: its values are moments, whatever the zone",
        remedy="remove `time_zone`",
    ),
    "no time": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at date UNIQUE); {TOUCH}",
        finding="error column: updated_at is date, not a time",
        remedy='ALTER TABLE "public"."orders" ALTER COLUMN "updated_at" TYPE timestamptz',
    ),
    "daylight saving": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, {LOCAL.format('Europe/Berlin')}); {TOUCH}",
        options={"time_zone": "Europe/Berlin"},
        finding="error time zone: Europe/Berlin has daylight saving: its clocks are set back once a year, and rows of the hour that"
        " comes twice would be lost",
        remedy=WITHOUT_DAYLIGHT_SAVING,
    ),
    "unknown zone": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, {LOCAL.format('Utopia')}); {TOUCH}",
        options={"time_zone": "Utopia"},
        finding='error time zone: PostgreSQL refused: time zone "Utopia" not recognized (SQLSTATE 22023)',
        remedy=WITHOUT_DAYLIGHT_SAVING,
    ),
    "default of the session's zone": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamp UNIQUE NOT NULL DEFAULT now()); {TOUCH}",
        options={"time_zone": "UTC"},
        finding="warning default: updated_at has the default now(): rows are lost where that is earlier than (now() AT TIME ZONE 'UTC')",
        remedy='ALTER TABLE "public"."orders" ALTER COLUMN "updated_at" SET DEFAULT (now() AT TIME ZONE \'UTC\')',
    ),
    "nullable": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz UNIQUE DEFAULT now()); {TOUCH}",
        finding="warning column: updated_at may be null: such rows are never found",
        remedy='ALTER TABLE "public"."orders" ALTER COLUMN "updated_at" SET NOT NULL',
    ),
    "no default": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz UNIQUE NOT NULL); {TOUCH}",
        finding="warning default: updated_at has no default: an INSERT may set the client's time",
        remedy='ALTER TABLE "public"."orders" ALTER COLUMN "updated_at" SET DEFAULT now()',
    ),
    "default that is rounded": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz UNIQUE NOT NULL DEFAULT date_trunc('minute', now())); {TOUCH}",
        finding=f"error default: updated_at has the default date_trunc('minute'::text, now()), {MUCH_EARLIER}",
        remedy=DEFAULT_NOW,
    ),
    "default that is a day": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz UNIQUE NOT NULL DEFAULT CURRENT_DATE); {TOUCH}",
        finding=f"error default: updated_at has the default CURRENT_DATE, {MUCH_EARLIER}",
        remedy=DEFAULT_NOW,
    ),
    "default cast to a day": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz UNIQUE NOT NULL DEFAULT now()::date); {TOUCH}",
        finding=f"error default: updated_at has the default (now())::date, {MUCH_EARLIER}",
        remedy=DEFAULT_NOW,
    ),
    "default that is a constant": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz UNIQUE NOT NULL DEFAULT '2026-01-01 00:00+00'); {TOUCH}",
        finding="error default: updated_at has the default '2026-01-01 00:00:00+00'::timestamp with time zone, which is the same time"
        " for all rows: such rows are lost",
        remedy=DEFAULT_NOW,
    ),
    "default of a partition": Case(
        schema="CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL DEFAULT now()) PARTITION BY RANGE (id);"
        f"CREATE INDEX ON orders (updated_at); {PARTS} ALTER TABLE part ALTER updated_at SET DEFAULT CURRENT_DATE; {TOUCH}",
        finding=f"error default: updated_at has the default CURRENT_DATE, {MUCH_EARLIER}",
        remedy=DEFAULT_NOW,
    ),
    "other default": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz UNIQUE NOT NULL DEFAULT now() - interval '1 h'); {TOUCH}",
        finding="warning default: updated_at has the default (now() - '01:00:00'::interval): rows are lost where that is earlier than now()",
        remedy=DEFAULT_NOW,
    ),
    "no trigger": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, {MOMENT} UNIQUE)",
        finding="warning trigger: no BEFORE UPDATE trigger sets updated_at: rows updated without it are not found",
        remedy="add a trigger that sets it to now()",
    ),
    "no trigger for inserts": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, {MOMENT} UNIQUE); {TOUCH}",
        options={"lateness": "90s"},
        finding="warning clock: no trigger sets updated_at at each write: rows of clocks over 90s behind the server's are lost",
        remedy="a BEFORE INSERT OR UPDATE trigger that sets it to now(), or a larger `lateness`",
    ),
    "no trigger for inserts of local times": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, {LOCAL.format('UTC')}); {TOUCH}",
        options={"time_zone": "UTC"},
        finding="warning clock: no trigger sets updated_at at each write: rows of clocks over 1m behind the server's are lost",
        remedy="a BEFORE INSERT OR UPDATE trigger that sets it to (now() AT TIME ZONE 'UTC'), or a larger `lateness`",
    ),
    "no primary key": Case(
        schema=f"CREATE TABLE orders (id int, {MOMENT} UNIQUE); {TOUCH}",
        finding="error primary key: public.orders has no primary key",
        remedy="add one: events name rows by it",
    ),
    "no index": Case(
        schema=f"CREATE TABLE orders (id int PRIMARY KEY, {MOMENT}); {TOUCH}",
        finding="error index: no valid btree index starts with updated_at: each poll would read the whole table",
        remedy='CREATE INDEX CONCURRENTLY ON "public"."orders" ("updated_at")',
    ),
}


@pytest.mark.parametrize("case", BY_UPDATE.values(), ids=BY_UPDATE)
async def test_a_check_names_what_breaks_mode_updated_at_and_its_remedy(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection, case: Case
) -> None:
    await admin.execute(case.schema)
    findings = await findings_of(postgres_database.dsn, mode="updated_at", **case.options)
    if not case.finding.startswith("warning clock"):
        findings = others_than_clock(findings)

    assert [spelled(finding) for finding in findings if finding.level != "ok"] == [(case.finding, case.remedy)]


def others_than_clock(findings: list[Finding]) -> list[Finding]:
    """Leave out what stands wherever no trigger sets the column at an INSERT."""
    return [finding for finding in findings if finding.check != "clock"]


async def test_a_default_of_the_server_s_clock_or_a_trigger_that_sets_the_timestamp_is_right(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection
) -> None:
    await admin.execute(f"CREATE TABLE orders (id int PRIMARY KEY, {MOMENT} UNIQUE); {TOUCH}")
    for default in RIGHT_DEFAULTS:
        await admin.execute(f"ALTER TABLE orders ALTER updated_at SET DEFAULT {default}")
        findings = others_than_clock(await findings_of(postgres_database.dsn, mode="updated_at"))
        assert {one.level for one in findings} == {"ok"}, default
    await admin.execute(
        f"{TOUCH.replace('UPDATE', 'INSERT OR UPDATE').replace('FUNCTION', 'OR REPLACE FUNCTION', 1).replace('CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER')}"
    )
    await admin.execute("ALTER TABLE orders ALTER updated_at SET DEFAULT CURRENT_DATE")
    assert {one.level for one in await findings_of(postgres_database.dsn, mode="updated_at")} == {"ok"}


@pytest.mark.parametrize("case", BY_ID.values(), ids=BY_ID)
async def test_a_check_names_what_breaks_mode_id_and_its_remedy(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection, case: Case
) -> None:
    await admin.execute(case.schema)
    findings = await findings_of(postgres_database.dsn, **case.options)

    assert [spelled(finding) for finding in findings if finding.level != "ok"] == [(case.finding, case.remedy)]


async def test_a_good_table_passes_every_check(postgres_database: PostgresDatabase, admin: asyncpg.Connection) -> None:
    await admin.execute(GOOD)
    findings = await findings_of(postgres_database.dsn, where="note <> ''")

    assert {finding.level for finding in findings} == {"ok"}
    assert {finding.check for finding in findings} >= {
        "primary",
        "version",
        "index",
        "unique",
        "ids",
        "sequence",
        "where",
    }


async def test_a_partitioned_table_passes_every_check(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection
) -> None:
    await admin.execute(
        f"CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY) PARTITION BY RANGE (id); {PARTS}"
    )
    findings = await findings_of(postgres_database.dsn)

    assert {finding.level for finding in findings} == {"ok"}


async def test_a_table_fed_by_a_subscription_is_refused(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection
) -> None:
    await admin.execute(GOOD)
    await admin.execute(
        "CREATE SUBSCRIPTION feed CONNECTION 'host=127.0.0.1' PUBLICATION p WITH (connect = false, slot_name = NONE)"
    )
    # Without a publisher the subscription knows no tables; this is the row that REFRESH PUBLICATION adds.
    await admin.execute(
        "SET allow_system_table_mods = on;"
        "INSERT INTO pg_subscription_rel SELECT oid, 'orders'::regclass, 'r', NULL FROM pg_subscription"
    )
    try:
        findings = await findings_of(postgres_database.dsn)
    finally:
        await admin.execute("DROP SUBSCRIPTION feed")

    assert [spelled(finding) for finding in findings if finding.level != "ok"] == [
        (
            "error subscription: public.orders is fed by a subscription: its ids were drawn on another server",
            "watch the table on the publishing server, or use mode: updated_at",
        )
    ]


async def test_a_server_with_too_few_sessions_is_a_warning(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection
) -> None:
    await admin.execute(GOOD)
    await admin.execute(f"ALTER DATABASE {postgres_database.name} CONNECTION LIMIT 5")
    [finding] = [one for one in await findings_of(postgres_database.dsn) if one.level != "ok"]

    allows = "but the server allows postgres only 5: polls fail when it refuses a session"
    assert spelled(finding) == (
        f"warning connections: the watchers of the connection open up to 7 sessions, {allows}",
        "lower the connection's `pool_size` by 2 or more, or raise max_connections",
    )


async def test_a_role_without_select_gets_the_grant_it_needs(
    postgres_database: PostgresDatabase, admin: asyncpg.Connection
) -> None:
    role = f"reader_{postgres_database.name}"
    await admin.execute(
        f"CREATE SCHEMA shop; CREATE TABLE shop.orders (id bigserial PRIMARY KEY); CREATE ROLE {role} LOGIN"
    )
    dsn = postgres_database.dsn.replace("postgres@", f"{role}@")
    try:
        [refused] = [one for one in await findings_of(dsn, table="shop.orders") if one.level == "error"]
        assert spelled(refused) == (
            "error select: PostgreSQL refused: permission denied for schema shop (SQLSTATE 42501)",
            (
                f'GRANT USAGE ON SCHEMA "shop" TO "{role}"; GRANT SELECT ON "shop"."orders" TO "{role}"; '
                f'GRANT SELECT ON SEQUENCE shop.orders_id_seq TO "{role}"'
            ),
        )

        await admin.execute(refused.remedy)
        assert {finding.level for finding in await findings_of(dsn, table="shop.orders")} == {"ok"}
    finally:
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_an_unknown_database_or_role_is_a_configuration_error(
    postgres_database: PostgresDatabase,
) -> None:
    remedy = (
        "correct the connection; its user must be allowed to sign in, and to execute any function that is named here"
    )

    [finding] = await findings_of(postgres_database.dsn.replace(postgres_database.name, "nowhere"))
    assert spelled(finding) == (
        'error connection: PostgreSQL refused: database "nowhere" does not exist (SQLSTATE 3D000)',
        remedy,
    )
    [finding] = await findings_of(postgres_database.dsn.replace("postgres@", "nobody@"))
    assert spelled(finding) == (
        'error connection: PostgreSQL refused: role "nobody" does not exist (SQLSTATE 28000)',
        remedy,
    )


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(SourceUnavailable, match="PostgreSQL did not answer"):
        await findings_of("postgresql://nobody@127.0.0.1:1/nowhere")


def spelled(finding: Finding) -> tuple[str, str]:
    return f"{finding.level} {finding.check}: {finding.message}", finding.remedy
