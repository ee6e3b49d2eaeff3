-- Mode updated_at with columns or a condition, once in every poll for which updated_at_places lists a row. $1 are the
-- oids of the partitions, $2 the places in them, $3 the xids that wrote the rows.
SELECT wanted.number, ( total > 0 ) IS TRUE AS keep, CASE WHEN ( total > 0 ) THEN (SELECT row_to_json(item)::text
  FROM (SELECT "id" AS "id", "updated_at" AS "updated_at") item) END AS row
FROM unnest($1::int8[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted(relation, place, xid, number)
JOIN "public"."orders" ON "public"."orders".ctid = wanted.place::tid AND "public"."orders".tableoid =
    wanted.relation::oid AND "public"."orders".xmin = wanted.xid::xid

-- Plan:
-- Nested Loop
--   Function Scan
--   Tid Scan on orders
--   Result (SubPlan)
