-- Both modes, once in every poll that read a row, gives a gap up or writes a position. A part of it is sent every ten
-- seconds for all tables that are probed together. $1 are the oids of the tables, their partitions and sequences. The
-- mark changes when one of them is altered. The positions in the WAL tell later whether the history of the server went
-- back.
SELECT mark, (pg_current_wal_insert_lsn() - '0/0')::int8 AS inserted, (pg_current_wal_flush_lsn() - '0/0')::int8 AS
    flushed, pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS xmax
FROM (SELECT $1::oid[] AS oids) r
CROSS JOIN LATERAL (SELECT ( coalesce((SELECT sum(hashint8(c.oid::int8 << 32 | c.xmin::text::int8)::int8 +
    hashtext(c.relnamespace::regnamespace::text))
        FROM pg_class c
        WHERE c.oid = ANY (r.oids)), 0) + coalesce((SELECT sum(hashint8(attrelid::int8 << 32 | xmin::text::int8)::int8 +
            attnum)
        FROM pg_attribute
        WHERE attrelid = ANY (r.oids) AND attnum > 0), 0) + coalesce((SELECT sum(hashint8(indexrelid::int8 << 32 |
            xmin::text::int8))
        FROM pg_index
        WHERE indrelid = ANY (r.oids)), 0) + coalesce((SELECT sum(hashint8(seqrelid::int8 << 32 | xmin::text::int8))
        FROM pg_sequence
        WHERE seqrelid = ANY (r.oids)), 0) + coalesce((SELECT sum(hashint8(inhparent::int8 << 32 | inhrelid::int8))
        FROM pg_inherits
        WHERE inhparent = ANY (r.oids)), 0) + coalesce((SELECT sum(hashint8(oid::int8 << 32 | xmin::text::int8))
        FROM pg_policy
        WHERE polrelid = ANY (r.oids)), 0) + coalesce((SELECT sum(hashint8(oid::int8 << 32 | xmin::text::int8))
        FROM pg_trigger
        WHERE tgrelid = ANY (r.oids) AND NOT tgisinternal), 0) + (SELECT count(*)
      FROM unnest(r.oids) o(oid)
      WHERE row_security_active(o.oid)))::int8 & 9223372036854775807 AS mark) m
