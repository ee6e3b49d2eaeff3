"""The statements that read a log (pure). They only read, or concern the watcher's own slot."""

from __future__ import annotations

from typing import Final

SLOT: Final = """
SELECT pg_current_wal_flush_lsn()::text AS flushed, pg_current_wal_insert_lsn()::text AS inserted,
       current_database()::text AS here, s.slot_name IS NOT NULL AS is_there, s.plugin::text AS plugin, s.database::text AS database,
       s.active_pid, s.wal_status, s.confirmed_flush_lsn::text AS confirmed,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), s.restart_lsn)::int8 AS retained, to_json(s) ->> 'invalidation_reason' AS reason
FROM (SELECT $1::text AS name) n LEFT JOIN pg_replication_slots s ON s.slot_name = n.name
"""
"""The server's LSNs and the slot `$1`. What was committed at `flushed` or before is handed out by a later statement."""

PEEK: Final = """
SELECT lsn::text AS lsn, data FROM pg_logical_slot_peek_binary_changes($1::text::name, $2::text::pg_lsn, $3::int4,
                                                      'proto_version', '1', 'publication_names', $4::text)
"""
"""The messages of whole transactions of the slot `$1`, until one reaches the LSN `$2` or the number of messages `$3`."""

ADVANCE: Final = "SELECT end_lsn::text FROM pg_replication_slot_advance($1::text::name, $2::text::pg_lsn)"
DROP: Final = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1::text"
CREATE: Final = (
    "SELECT lsn::text AS lsn FROM pg_create_logical_replication_slot($1::text::name, 'pgoutput', false, false)"
)
CREATE_WITH_FAILOVER: Final = CREATE.replace("false, false", "false, false, true")

OPEN_TRANSACTIONS: Final = """
SELECT l.pid, p.gid FROM pg_locks l LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid
WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY age(l.transactionid) DESC LIMIT 20
"""
"""The oldest transactions with an xid, of all databases: a slot begins when those that are open have ended."""

PUBLISHED: Final = """
SELECT current_setting('wal_level') AS wal_level, p.oid IS NOT NULL AS is_there, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate,
       p.pubviaroot, t.pubname IS NOT NULL AS has_table, to_json(t) ->> 'rowfilter' AS filter,
       ARRAY(SELECT json_array_elements_text(nullif(to_json(t) ->> 'attnames', '')::json)) AS columns,
       current_setting('synchronized_standby_slots', true) AS standbys,
       (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = session_user) OR EXISTS (
           SELECT FROM pg_roles WHERE rolname = 'rds_replication' AND pg_has_role(session_user, oid, 'MEMBER')) AS may_replicate
FROM (SELECT $1::text AS publication) n LEFT JOIN pg_publication p ON p.pubname = n.publication
LEFT JOIN pg_publication_tables t ON (t.pubname, t.schemaname, t.tablename) = (p.pubname, $2::text, $3::text)
"""
"""The publication `$1` and what it says about the table `$2.$3`."""

IDENTITIES: Final = """
SELECT c.oid::regclass::text AS name, c.relreplident::text AS identity,
       ARRAY(SELECT a.attname::text FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY u(attnum, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum
             WHERE i.indrelid = c.oid AND u.place <= i.indnkeyatts
               AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END) AS columns
FROM pg_class c WHERE c.oid = ANY ($1::oid[]) AND c.relkind = 'r' ORDER BY 1
"""
"""The replica identities of the relations `$1`: of a partitioned table each partition has its own."""

TYPES_OF_VALUES: Final = """
WITH RECURSIVE used(oid) AS (SELECT unnest($1::oid[]) UNION
    SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typtype = 'b' AND t.typcategory = 'A' AND t.typelem <> 0
        UNION ALL SELECT atttypid FROM pg_attribute
                  WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) part(oid))
SELECT t.oid::int8 AS oid, format_type(t.oid, -1) AS name,
       CASE WHEN t.typtype = 'd' THEN t.typbasetype::int8 END AS base,
       CASE WHEN t.typtype = 'b' AND t.typcategory = 'A' THEN nullif(t.typelem::int8, 0) END AS element,
       (SELECT json_object_agg(attname, atttypid::int8 ORDER BY attnum)::text FROM pg_attribute
        WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) AS fields
FROM used JOIN pg_type t ON t.oid = used.oid
"""

THERE: Final = "SELECT slot_name::text AS name FROM pg_replication_slots WHERE slot_name = ANY ($1::text[])"
"""Those of the slots `$1` that the server has."""
