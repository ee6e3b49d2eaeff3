-- Mode id, once in every poll while ids are missing below the highest one, instead of id_new_rows. The last three
-- arguments are the lowest and the highest id of each gap, and the most rows read from each gap.
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
UNION ALL (SELECT gaps.*
  FROM unnest($3::int8[], $4::int8[]) AS gap(low, high)
  CROSS JOIN LATERAL (SELECT "public"."orders"."id"::int8 AS id, ( total > 0 ) IS TRUE AS keep, CASE WHEN ( total > 0 )
      THEN (SELECT row_to_json(item)::text
      FROM (SELECT "id" AS "id", "updated_at" AS "updated_at") item) END AS row, xidsend("public"."orders".xmin) ||
          coalesce(int8send(hashtextextended(ROW("public"."orders"."id", "public"."orders"."note",
          "public"."orders"."total", "public"."orders"."updated_at")::text, 0)), '\x0000000000000000') AS fingerprint,
          (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8) AS snapshot_xmin, NULL::int AS note
    FROM "public"."orders"
    WHERE "public"."orders"."id" >= gap.low AND "public"."orders"."id" <= gap.high
    ORDER BY "public"."orders"."id" LIMIT $5::int8) gaps)

-- Plan:
-- Append
--   CTE drawn: Seq Scan on orders_id_seq
--   CTE Scan on drawn
--   Limit
--     Result (InitPlan)
--     CTE Scan on drawn (InitPlan)
--     Index Scan using orders_pkey on orders
--       Result (SubPlan)
--   Nested Loop
--     Function Scan
--     Limit
--       Result (InitPlan)
--       Index Scan using orders_pkey on orders
--         Result (SubPlan)
