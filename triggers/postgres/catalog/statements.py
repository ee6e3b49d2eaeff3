"""Statements on the catalog: what a watched table is, which sessions lock it, and whether it was altered."""

from __future__ import annotations

from typing import Final

ANY_SEQUENCE: Final = 0
"""Stands among relations for every sequence of the database."""

LOCKS: Final = f"""
SELECT pg_postmaster_start_time()::text AS boot,
       to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at,
       ARRAY(SELECT ROW(relation::int8, virtualtransaction, pid, is_sequence) FROM pg_locks
             CROSS JOIN LATERAL (SELECT {ANY_SEQUENCE} = ANY($1::oid[])
                 AND coalesce((SELECT relkind = 'S' FROM pg_class WHERE oid = relation), true) AS is_sequence) s
             WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND (relation = ANY($1::oid[]) OR is_sequence)) AS locks
"""  # noqa: S608
"""The transactions that write to the relations `$1` now; pid is null for a prepared transaction. A relation that is not visible yet
is taken for a sequence."""

LOCK_HOLDER: Final = """
SELECT l.pid, l.granted, a.application_name AS application, a.usename AS "user", coalesce(a.xact_start, p.prepared)::text AS since,
       upper(substring(a.query FROM '^\\s*(\\w+(\\s+[[:alpha:]]+)?)')) AS query_class,
       (SELECT json_build_object('pid', nullif(b.pid, 0), 'application', s.application_name, 'user', s.usename, 'since', s.xact_start::text,
                   'query_class', upper(substring(s.query FROM '^\\s*(\\w+(\\s+[[:alpha:]]+)?)')))::text
        FROM unnest(pg_blocking_pids(l.pid)) b(pid) LEFT JOIN pg_stat_activity s ON s.pid = b.pid
        WHERE NOT l.granted ORDER BY s.xact_start NULLS FIRST LIMIT 1) AS behind
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks x ON x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid' AND x.pid IS NULL
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (l.relation = ANY ($1::oid[]) OR l.relation IN (SELECT indexrelid FROM pg_index WHERE indrelid = ANY ($1::oid[]))
           OR l.relation IN (SELECT reltoastrelid FROM pg_class WHERE oid = ANY ($1::oid[])))
ORDER BY l.granted DESC, l.waitstart NULLS FIRST LIMIT 1
"""
"""The session that blocks readers of the relations `$1`. Only an ACCESS EXCLUSIVE lock does, granted or awaited. A session that awaits
one waits behind any lock, even a reader's; `behind` describes the session it waits for. Only the first words of queries are read,
because their texts may quote rows."""

RELATIONS: Final = """
WITH RECURSIVE tree(oid) AS (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid)
SELECT oid::int8 FROM tree
"""
"""The table `$1.$2` and its partitions. This statement needs no lock on them; `FACTS` waits for one where it shows expressions."""

HOLDER: Final = """
SELECT a.usename AS "user", a.application_name AS application, a.datname AS database, a.state, left(a.query, 200) AS query,
       coalesce(a.xact_start, p.prepared)::text AS started, p.gid AS prepared_as
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks x ON x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid' AND x.pid IS NULL
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.virtualtransaction = $1 LIMIT 1
"""
"""What may be known about one virtual transaction. For other users' sessions members are null without pg_read_all_stats."""

XID_HOLDER: Final = """
SELECT virtualtransaction AS transaction, pid FROM pg_locks
WHERE locktype = 'transactionid' AND transactionid = $1::text::xid AND mode = 'ExclusiveLock' AND granted
"""
"""The transaction with the xid `$1`, in any database; no row if it has ended."""

MARK: Final = """
CROSS JOIN LATERAL (SELECT (
    coalesce((SELECT sum(hashint8(c.oid::int8 << 32 | c.xmin::text::int8)::int8 + hashtext(c.relnamespace::regnamespace::text))
              FROM pg_class c WHERE c.oid = ANY (r.oids)), 0)
    + coalesce((SELECT sum(hashint8(attrelid::int8 << 32 | xmin::text::int8)::int8 + attnum)
                FROM pg_attribute WHERE attrelid = ANY (r.oids) AND attnum > 0), 0)
    + coalesce((SELECT sum(hashint8(indexrelid::int8 << 32 | xmin::text::int8)) FROM pg_index WHERE indrelid = ANY (r.oids)), 0)
    + coalesce((SELECT sum(hashint8(seqrelid::int8 << 32 | xmin::text::int8)) FROM pg_sequence WHERE seqrelid = ANY (r.oids)), 0)
    + coalesce((SELECT sum(hashint8(inhparent::int8 << 32 | inhrelid::int8)) FROM pg_inherits WHERE inhparent = ANY (r.oids)), 0)
    + coalesce((SELECT sum(hashint8(oid::int8 << 32 | xmin::text::int8)) FROM pg_policy WHERE polrelid = ANY (r.oids)), 0)
    + coalesce((SELECT sum(hashint8(oid::int8 << 32 | xmin::text::int8)) FROM pg_trigger
                WHERE tgrelid = ANY (r.oids) AND NOT tgisinternal), 0)
    + (SELECT count(*) FROM unnest(r.oids) o(oid) WHERE row_security_active(o.oid)))::int8
    & 9223372036854775807 AS mark) m
"""
"""A number, 0 or more, that changes when one of the relations `r.oids` is altered, because these catalog rows then have new
versions. It is read in the snapshot that shows the rows written after the change."""

FACTS: Final = """
WITH RECURSIVE
watched AS (SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2),
tree(oid) AS (SELECT oid FROM watched UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid),
cursors AS (SELECT a.attrelid, a.attnum, a.attidentity, d.oid AS default_oid, pg_get_expr(d.adbin, d.adrelid) AS default_expression
            FROM tree JOIN pg_attribute a ON a.attrelid = tree.oid AND a.attname = $3 AND a.attnum > 0 AND NOT a.attisdropped
            LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum),
sequences AS (SELECT DISTINCT s.* FROM cursors k
              JOIN pg_depend d ON (d.refclassid, d.refobjid, d.refobjsubid, d.classid)
                                = ('pg_class'::regclass, k.attrelid, k.attnum::int, 'pg_class'::regclass)
              JOIN pg_sequence s ON s.seqrelid = d.objid
              UNION
              SELECT s.* FROM watched w CROSS JOIN LATERAL pg_partition_ancestors(w.oid) up(relid)
              JOIN pg_attribute k ON k.attrelid = up.relid AND k.attname = $3 AND k.attidentity <> ''
              JOIN pg_depend d ON (d.refclassid, d.refobjid, d.refobjsubid, d.classid)
                                = ('pg_class'::regclass, k.attrelid, k.attnum::int, 'pg_class'::regclass)
              JOIN pg_sequence s ON s.seqrelid = d.objid
              UNION
              SELECT s.* FROM cursors k
              JOIN pg_depend d ON (d.classid, d.objid, d.refclassid) = ('pg_attrdef'::regclass, k.default_oid, 'pg_class'::regclass)
              JOIN pg_sequence s ON s.seqrelid = d.refobjid),
indexes AS (SELECT i.*, (i.indkey::int2[])[0] = k.attnum AS leads, i.indnkeyatts = 1 AS alone,
                   (i.indoption::int2[])[0] IN (0, 3) AS has_nulls_last,
                   k.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) AS includes
            FROM pg_index i JOIN cursors k ON k.attrelid = i.indrelid JOIN watched ON watched.oid = i.indrelid
            JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
            WHERE m.amname = 'btree' AND i.indisvalid AND i.indpred IS NULL)
SELECT w.oid::int8 AS table_oid, (SELECT oid::int8 FROM pg_database WHERE datname = current_database()) AS database_oid,
       current_database()::text AS database,
       current_setting('server_version_num')::int AS server_version, session_user AS role,
       least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
                 - coalesce(current_setting('reserved_connections', true)::int, 0),
             (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
             (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user)) AS most_sessions,
       w.relkind::text AS kind, row_security_active(w.oid) AND NOT EXISTS (
           SELECT FROM pg_policy WHERE polrelid = w.oid AND polpermissive AND polcmd IN ('r', '*') AND pg_get_expr(polqual, polrelid) = 'true'
           AND EXISTS (SELECT FROM unnest(polroles) o(oid) WHERE o.oid = 0 OR pg_has_role(o.oid, 'USAGE')))
       OR row_security_active(w.oid) AND EXISTS (
           SELECT FROM pg_policy WHERE polrelid = w.oid AND NOT polpermissive AND polcmd IN ('r', '*')) AS hides_rows, w.relpersistence::text AS persistence, a.attnotnull AS not_null, a.atttypid::regtype::text AS type,
       ARRAY(SELECT oid::int8 FROM tree) AS relations,
       (SELECT json_object_agg(c.oid::int8, json_build_object('name', concat(c.relnamespace::regnamespace, '.', c.relname), 'kind', c.relkind, 'file', c.relfilenode::int8))::text
        FROM pg_class c WHERE c.oid IN (SELECT oid FROM tree UNION ALL SELECT seqrelid FROM sequences)) AS stored,
       (SELECT count(*) FROM tree) - 1 AS children,
       EXISTS (SELECT FROM indexes WHERE leads) AS has_index,
       w.relkind = 'r' AND EXISTS (SELECT FROM indexes WHERE leads AND has_nulls_last) AS one_plan,
       EXISTS (SELECT FROM indexes WHERE indisunique AND alone AND leads) AS is_unique,
       EXISTS (SELECT FROM indexes WHERE indisunique AND includes) AS is_unique_per_partition,
       ARRAY(SELECT coalesce(default_expression, '') FROM cursors WHERE attidentity = '' AND (default_oid IS NOT NULL OR attrelid = w.oid)) AS defaults,
       EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid IN (SELECT oid FROM tree)) AS subscribed,
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = w.oid AND NOT tgisinternal AND tgenabled <> 'D'
               AND tgtype & 2 = 2 AND tgtype & 16 = 16) AS has_update_trigger,
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = w.oid AND NOT tgisinternal AND tgenabled <> 'D'
               AND tgtype & 7 = 7) AS has_insert_trigger,
       (SELECT coalesce(bool_or(tgtype & 4 = 4) AND bool_or(tgtype & 16 = 16), false) FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
        WHERE tgrelid = w.oid AND NOT tgisinternal AND tgenabled IN ('O', 'A') AND tgtype & 3 = 3 AND tgqual IS NULL AND tgattr::text = ''
            AND (lower(prosrc) ~ ('\\m' || regexp_replace(lower($3), '(\\W)', '\\\\\\1', 'g') || '\\M')
                 OR $3 = ANY (string_to_array(encode(tgargs, 'escape'), '\\000')))) AS is_set_by_trigger,
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = w.oid AND starts_with(tgname::text, 'asset_watcher_') AND tgenabled <> 'D') AS notifies,
       ARRAY(SELECT json_build_object('name', seqrelid::regclass::text, 'oid', seqrelid::int8, 'cache', seqcache,
             'increment', seqincrement, 'cycle', seqcycle, 'minimum', seqmin,
             'readable', has_sequence_privilege(seqrelid, 'SELECT'))::text FROM sequences ORDER BY seqrelid) AS sequences,
       ARRAY(SELECT k.attname::text FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY u(attnum, place)
             JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = u.attnum
             WHERE i.indrelid = w.oid AND i.indisprimary AND u.place <= i.indnkeyatts ORDER BY u.place) AS primary_key,
       (SELECT json_object_agg(attname, atttypid::regtype)::text FROM pg_attribute
        WHERE attrelid = w.oid AND attnum > 0 AND NOT attisdropped) AS columns,
       (SELECT hashtextextended(string_agg(c.oid::int8 || ':' || c.relfilenode::int8, ' ' ORDER BY c.oid), 0)
        FROM pg_class c WHERE c.oid IN (SELECT oid FROM tree)) AS files,
       (SELECT mark FROM (SELECT ARRAY(SELECT oid FROM tree UNION SELECT seqrelid FROM sequences) AS oids) r {mark}) AS mark
FROM watched w LEFT JOIN pg_attribute a ON a.attrelid = w.oid AND a.attname = $3 AND a.attnum > 0 AND NOT a.attisdropped
""".replace("{mark}", MARK)
"""What the catalog says about the table `$1.$2` and its column `$3`; no row if there is no such table."""

TYPES: Final = """
WITH RECURSIVE used(oid) AS (SELECT reltype FROM pg_class WHERE oid = $1::oid UNION
    SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typtype = 'b' AND t.typcategory = 'A' AND t.typelem <> 0
        UNION ALL SELECT atttypid FROM pg_attribute
                  WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) part(oid))
SELECT t.oid::int8 AS oid, t.oid = (SELECT reltype FROM pg_class WHERE oid = $1::oid) AS is_row,
       CASE WHEN t.typtype = 'd' THEN t.typbasetype::int8 END AS base,
       CASE WHEN t.typtype = 'b' AND t.typcategory = 'A' THEN nullif(t.typelem::int8, 0) END AS element,
       (SELECT json_object_agg(attname, atttypid::int8 ORDER BY attnum)::text FROM pg_attribute
        WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) AS fields
FROM used JOIN pg_type t ON t.oid = used.oid
"""
"""The row type of the table `$1`, and all types that its values consist of."""

MARKS: Final = """
SELECT r.number, mark
FROM (SELECT number, array_agg(oid) AS oids FROM unnest($1::int4[], $2::oid[]) u(number, oid) GROUP BY number) r {mark}
""".replace("{mark}", MARK)
"""The mark of each numbered set of relations: `$2` holds the oids, and `$1` the number of the set to which each belongs."""

MARK_OF_ALL: Final = f"SELECT mark FROM (SELECT $1::oid[] AS oids) r {MARK}"  # noqa: S608
"""The mark of the relations `$1` together."""


OFFSETS: Final = """
SELECT count(DISTINCT (moment AT TIME ZONE $1::text) - (moment AT TIME ZONE 'UTC')) AS offsets
FROM generate_series(now() - interval '1 year', now() + interval '10 years', interval '1 day') moment
"""
"""The number of different distances between the local time of the zone `$1` and UTC, in these years."""

PARTITION_BOUNDS: Final = "SELECT pg_get_partition_constraintdef($1::oid) AS bounds"
"""The bounds of the partition `$1` as an expression. It lets the planner find the partition: the role may read it only through the table."""

CHANGING: Final = """
SELECT DISTINCT name || CASE provolatile WHEN 'v' THEN ' is volatile' ELSE ' is not immutable' END AS reason
FROM (SELECT c.name || '()' AS name, p.provolatile, p.pronamespace
      FROM unnest($1::text[], $2::int4[]) c(name, arguments) CROSS JOIN parse_ident(c.name) n(part) JOIN pg_proc p
          ON p.proname = n.part[cardinality(n.part)] AND (p.pronargs = c.arguments OR p.provariadic <> 0)
         AND CASE cardinality(n.part) WHEN 1 THEN pg_function_is_visible(p.oid)
             ELSE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = n.part[1]) END
      UNION ALL
      SELECT 'operator ' || c.name, p.provolatile, p.pronamespace
      FROM unnest($3::text[]) c(name)
      CROSS JOIN (SELECT 'pg_catalog'::regnamespace AS oid) core
      CROSS JOIN LATERAL (SELECT substring(c.name FROM '[^.]*$') AS operator, substring(c.name FROM '^(.*)[.]') AS schema) n
      JOIN pg_operator o ON o.oprname = n.operator
         AND CASE WHEN n.schema IS NULL THEN pg_operator_is_visible(o.oid)
                  AND NOT EXISTS (SELECT FROM pg_operator b WHERE b.oprname = n.operator AND b.oprnamespace = core.oid)
             ELSE o.oprnamespace = (SELECT oid FROM pg_namespace WHERE nspname = (parse_ident(n.schema))[1]) END
      JOIN pg_proc p ON p.oid = o.oprcode) used
WHERE provolatile = 'v' OR provolatile = 's' AND pronamespace <> 'pg_catalog'::regnamespace
ORDER BY reason
"""
"""Why functions and operators may change their answer: `$1` are functions, `$2` the numbers of their arguments, `$3` operators. All are
named as PostgreSQL writes them, so a name without a schema is found along the session's search_path."""
