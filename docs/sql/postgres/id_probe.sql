-- Mode id, once in every interval while the watcher waits for nothing but new rows, instead of a poll. It has one such
-- expression for each of up to 100 tables. $1 are the highest ids of the positions.
SELECT array_remove(ARRAY[coalesce((SELECT 0
      FROM "public"."orders"
      WHERE "public"."orders"."id" > $1[1]
      ORDER BY "public"."orders"."id" LIMIT 1), (SELECT 0
      FROM (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END AS last
        FROM orders_id_seq) drawn
      WHERE last < $1[1]))]::int4[], NULL) AS news
FROM (SELECT $1::int8[], $2::text[]) types

-- Plan:
-- Result
--   Limit (InitPlan)
--     Index Only Scan using orders_pkey on orders
--   Seq Scan on orders_id_seq (InitPlan)
