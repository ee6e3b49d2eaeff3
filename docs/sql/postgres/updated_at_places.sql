-- Mode updated_at, once in every poll, after updated_at_open_transactions. $1 are the oids of the table and its
-- partitions, $2 is the floor, $3 the xmin of the last snapshot, $4 are the xids handled since. $5 to $7 are where the
-- last part ended, if more than one batch is waiting.
WITH s AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
SELECT pg_snapshot_xmin(s.snapshot)::text::int8 AS snapshot_xmin, pg_snapshot_xmax(s.snapshot)::text::int8 AS
    snapshot_xmax, (SELECT hashtextextended(string_agg(c.oid::int8 || ':' || c.relfilenode::int8, ' '
      ORDER BY c.oid), 0)
  FROM pg_class c
  WHERE c.oid = ANY($1::oid[])) AS files, r.*
FROM s
LEFT JOIN LATERAL (SELECT xid, written_by, relation, place, key, fingerprint, deleted, parts, size
  FROM (SELECT "public"."orders".xmin::text::int8 AS xid, age("public"."orders".xmin) AS age, ("public"."orders".xmin =
      $5::text::xid) IS TRUE AS is_rest, "public"."orders".xmin::text::int8 AS written_by,
      "public"."orders".tableoid::int8 AS relation, "public"."orders".ctid AS place, to_json("id")::text AS key,
      xidsend("public"."orders".xmin) || coalesce(timestamptz_send("public"."orders"."updated_at"::timestamp with time
      zone), '\x0000000000000000') AS fingerprint, false AS deleted, NULL::text[] AS parts, (0)::int8 AS size
    FROM "public"."orders"
    WHERE "public"."orders"."updated_at" > $2::text::timestamptz AND age("public"."orders".xmin) BETWEEN 1 AND
        age($3::text::xid) AND "public"."orders".xmin NOT IN (SELECT unnest($4::text[]::xid[])) AND
        ("public"."orders".xmin = $5::text::xid AND ("public"."orders".tableoid, "public"."orders".ctid) <=
        ($6::int8::oid, $7::text::tid)) IS NOT TRUE
    ORDER BY "public"."orders"."updated_at") new
  ORDER BY is_rest DESC, age DESC, relation, place LIMIT 20000) r ON true

-- Plan:
-- Nested Loop
--   CTE s: Result
--   Aggregate (InitPlan)
--     Scan on pg_class
--   CTE Scan on s
--   Limit
--     Sort
--       Subquery Scan
--         Index Scan using orders_updated_at on orders
--           ProjectSet (SubPlan)
--             Result
