-- Mode id, once in every poll while no id is missing. $1 is the highest id of the position, $2 the largest batch. The
-- sequence tells ids that it has handed out from ids given by hand (note -2), and shows when it was set back (note -1).
-- If a configured column has values of any size, the same statement with sizes in place of rows is sent first.
WITH drawn AS MATERIALIZED (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END AS last
  FROM orders_id_seq) (SELECT last AS id, NULL AS keep, NULL AS row, NULL AS fingerprint, NULL AS snapshot_xmin, -1 AS
      note
  FROM drawn
  WHERE last < $1::int8)
UNION ALL (SELECT "public"."orders"."id"::int8 AS id, ( total > 0 ) IS TRUE AS keep, CASE WHEN ( total > 0 ) THEN
    (SELECT row_to_json(item)::text
    FROM (SELECT "id" AS "id", "updated_at" AS "updated_at") item) END AS row, xidsend("public"."orders".xmin) ||
        coalesce(int8send(hashtextextended(ROW("public"."orders"."id", "public"."orders"."note",
        "public"."orders"."total", "public"."orders"."updated_at")::text, 0)), '\x0000000000000000') AS fingerprint,
        (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8) AS snapshot_xmin, CASE WHEN "public"."orders"."id"
        > (SELECT last
    FROM drawn) THEN -2 END AS note
  FROM "public"."orders"
  WHERE "public"."orders"."id" > $1::int8
  ORDER BY "public"."orders"."id" LIMIT $2::int8)

-- Plan:
-- Append
--   CTE drawn: Seq Scan on orders_id_seq
--   CTE Scan on drawn
--   Limit
--     Result (InitPlan)
--     CTE Scan on drawn (InitPlan)
--     Index Scan using orders_pkey on orders
--       Result (SubPlan)
