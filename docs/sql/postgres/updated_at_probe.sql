-- Mode updated_at, once in every interval while the watcher waits for nothing but new rows, instead of a poll. It has
-- one such expression for each of up to 100 tables. $1 are the xmins of the last snapshots, $2 the floors.
SELECT array_remove(ARRAY[(SELECT 0
    FROM "public"."orders"
    WHERE age(($1[1] % 4294967296)::text::xid) > 0 AND "public"."orders"."updated_at" > $2[1]::timestamptz AND
        age("public"."orders".xmin) BETWEEN 1 AND age(($1[1] % 4294967296)::text::xid)
    ORDER BY "public"."orders"."updated_at" LIMIT 1)]::int4[], NULL) AS news
FROM (SELECT $1::int8[], $2::text[]) types

-- Plan:
-- Result
--   Limit (InitPlan)
--     Result
--       Index Scan using orders_updated_at on orders
