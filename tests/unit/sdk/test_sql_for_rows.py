from __future__ import annotations

from dataclasses import replace

import pytest

from asset_job.errors import AssetJobError, SourceFailed
from asset_job.sources.pgrows import Postgres
from asset_job.sources.postgres_sql import (
    TableColumn,
    address,
    jdbc,
    literal,
    predicates,
    queries,
)
from asset_job.sources.request import RowSelection
from asset_job.sources.s3_objects import s3_access
from asset_job.sources.table_names import table_sql


def column(name: str, kind: str, key_place: int = 0) -> TableColumn:
    return TableColumn(name=name, postgres=kind, base=kind, has_cast=False, key_place=key_place)


TOO_LATE = "'294247-01-10 04:00:54.775807+00' < {0} OR '-infinity' = {0}"
ODD_SHAPE = 'array_ndims("c") > 1 OR array_lower("c", 1) <> 1'


@pytest.mark.parametrize(
    ("kind", "value", "unrepresentable", "spark"),
    [
        ("bigint", '"c"', None, "bigint"),
        ("character varying(20)", '"c"::text', None, "string"),
        ("numeric(10,2)", '"c"::text', "\"c\" = 'NaN'", "decimal(10,2)"),
        ("numeric(50,2)", '"c"::text', None, "string"),
        ("numeric", '"c"::text', None, "string"),
        ("timestamp(3) with time zone", '"c"', TOO_LATE.format('"c"'), "timestamp"),
        ("date", '"c"', "'infinity' = \"c\" OR '-infinity' = \"c\"", "date"),
        ("integer[]", '"c"', ODD_SHAPE, "array<int>"),
        ("timestamp with time zone[]", '"c"', f"{ODD_SHAPE} OR {TOO_LATE}".format('ANY ("c")'), "array<timestamp>"),
        ("numeric(5,1)[]", '"c"::text', None, "string"),
        ("uuid", '"c"::text', None, "string"),
    ],
)
def test_types_are_mapped_to_sparks_or_to_text(kind, value, unrepresentable, spark):
    mapped = column("c", kind)
    assert (mapped.unrepresentable, mapped.spark) == (unrepresentable, spark)
    if unrepresentable:
        assert mapped.expression == f'CASE WHEN {unrepresentable} THEN NULL ELSE {value} END AS "c"'
    else:
        assert mapped.expression == (value if value == '"c"' else f'{value} AS "c"')
    as_text = replace(mapped, as_text=True)
    assert (as_text.expression, as_text.unrepresentable, as_text.spark) == ('"c"::text AS "c"', None, "string")


def test_a_type_with_a_cast_of_its_own_is_sent_as_it_is_written():
    inet = replace(column("c", "inet"), has_cast=True)
    assert inet.expression == """CASE WHEN "c" IS DISTINCT FROM NULL THEN format('%s', "c") END AS "c\""""


def test_ranges_become_conditions_on_the_index():
    one = RowSelection(table="public.orders", column="id", ranges=((5, 5), (1, 3)))
    columns = [column("id", "bigint", 1)]
    table = 'SELECT "id" FROM "public"."orders" WHERE "id" BETWEEN '
    several = "SELECT w.* FROM unnest('{}'::int8[], '{}'::int8[]) AS {}(low, high) CROSS JOIN LATERAL ({}) AS w"
    alias = "ranges_of_asset_watcher"
    inner = f"{table}{alias}.low AND {alias}.high"
    assert queries(one, columns, tasks=1) == [several.format("{1,5}", "{3,5}", alias, inner)]
    assert queries(one, columns, tasks=2) == [f"{table}1 AND 2", several.format("{3,5}", "{3,5}", alias, inner)]
    assert predicates(one, tasks=1) == ['"id" BETWEEN 1 AND 3 OR "id" = 5']


def test_keys_are_compared_in_their_own_types_and_selected_once():
    some = RowSelection(table="public.parts", column="updated_at", keys=((1, "it's"), (1, "it's")))
    [query] = queries(some, [column("part", "text", 2), column("id", "integer", 1), column("note", "text")], tasks=4)
    condition = (
        '("id", "part") IN (SELECT (k.value->>0)::integer, (k.value->>1)::text FROM json_array_elements({}) AS k)'
    )
    assert query.endswith(" WHERE " + condition.format("""E'[[1, "it''s"]]'::json"""))


def test_names_and_texts_are_quoted():
    assert table_sql('public.a"b') == '"public"."a""b"'
    assert table_sql("odd.name.with.dots") == '"odd"."name.with.dots"'
    assert table_sql("orders") == '"public"."orders"'
    assert table_sql('"a.b"."c""d"') == '"a.b"."c""d"'
    with pytest.raises(AssetJobError, match="as SQL quotes it"):
        table_sql('"a.b".c')
    assert literal("a'b\\") == "E'a''b\\\\'"


def test_addresses_of_connections():
    parts = {"host": "db", "port": 5433, "database": "shop", "user": "me@x", "password": "p:/w", "sslmode": "require"}
    uri = address(parts)
    assert uri == "postgresql://me%40x:p%3A%2Fw@db:5433/shop?sslmode=require"
    assert address({"dsn": "postgresql://h/d"}) == "postgresql://h/d"
    assert address({"host": "db"}) == "postgresql://db/"
    assert jdbc(uri) == ("jdbc:postgresql://db:5433/shop?sslmode=require", {"user": "me@x", "password": "p:/w"})


def test_objects_for_executors_show_no_secret():
    access = s3_access({"access_key_id": "AKIA", "secret_access_key": "hidden", "endpoint_url": "http://x"})
    assert dict(access.config)["secret_access_key"] == "hidden"
    assert "hidden" not in repr(access) + str(access)
    assert "hidden" not in repr(Postgres(uri="postgresql://me:hidden@db/shop"))


def test_an_invalid_address_does_not_show_its_password():
    with (
        pytest.raises(SourceFailed, match=r"PostgreSQL: .*invalid percent-encoded") as refused,
        Postgres(uri="postgresql://me:hidd%zz@127.0.0.1:1/shop").cursor("public.orders"),
    ):
        pass
    assert "hidd" not in str(refused.value)


@pytest.mark.parametrize(
    ("connection", "config"),
    [
        ({"anonymous": True}, {"skip_signature": "true", "virtual_hosted_style_request": "true"}),
        ({"endpoint_url": "http://x", "region": "r"}, {"endpoint": "http://x", "region": "r"}),
        (
            {"endpoint_url": "http://x", "addressing_style": "virtual", "requester_pays": True},
            {"endpoint": "http://x", "virtual_hosted_style_request": "true", "request_payer": "true"},
        ),
        (
            {"endpoint_url": "http://x", "addressing_style": "path"},
            {"endpoint": "http://x", "virtual_hosted_style_request": "false"},
        ),
    ],
)
def test_settings_of_a_connection_reach_the_client(connection, config):
    assert dict(s3_access(connection).config) == config
