-- The clean-up removes events past their retention, a batch in a transaction, until none is left. Events stay that a
-- queue or a kept run refers to, and those that features need, here: events that were not sent yet, and those that new
-- jobs with `catchup` have not got. Each of these is asked about one event at a time, by an index. It locks the events
-- that it removes; locked ones are left for the next time.
DELETE FROM asset_event WHERE ctid = any(array((SELECT ctid
FROM asset_event
WHERE asset_event.timestamp < $1::TIMESTAMP WITH TIME ZONE AND NOT (EXISTS (SELECT *
FROM queued_event
WHERE queued_event.event_id = asset_event.id)) AND NOT (EXISTS (SELECT *
FROM run_asset_event
WHERE run_asset_event.event_id = asset_event.id)) AND NOT (EXISTS (SELECT *
FROM (SELECT outbox.asset_event_id AS asset_event_id
FROM outbox) AS kept_0
WHERE kept_0.asset_event_id = asset_event.id)) AND NOT (EXISTS (SELECT *
FROM (SELECT lacking.id AS id
FROM asset_event AS lacking
WHERE lacking.id > (SELECT min(catchup.at_event) AS min_1
FROM catchup)) AS kept_1
WHERE kept_1.id = asset_event.id)) ORDER BY asset_event.timestamp
 LIMIT $2::INTEGER FOR UPDATE SKIP LOCKED))) AND asset_event.timestamp < $1::TIMESTAMP WITH TIME ZONE AND NOT (EXISTS (SELECT *
FROM queued_event
WHERE queued_event.event_id = asset_event.id)) AND NOT (EXISTS (SELECT *
FROM run_asset_event
WHERE run_asset_event.event_id = asset_event.id)) AND NOT (EXISTS (SELECT *
FROM (SELECT outbox.asset_event_id AS asset_event_id
FROM outbox) AS kept_0
WHERE kept_0.asset_event_id = asset_event.id)) AND NOT (EXISTS (SELECT *
FROM (SELECT lacking.id AS id
FROM asset_event AS lacking
WHERE lacking.id > (SELECT min(catchup.at_event) AS min_1
FROM catchup)) AS kept_1
WHERE kept_1.id = asset_event.id)) RETURNING asset_event.timestamp, $3::INTEGER AS anon_1

-- Plan:
-- Delete on asset_event
--   Limit (InitPlan)
--     Aggregate (InitPlan)
--       Seq Scan on catchup
--     LockRows
--       Nested Loop
--         Nested Loop
--           Nested Loop
--             Nested Loop
--               Index Scan using ix_asset_event_timestamp on asset_event
--               Index Scan using ix_outbox_asset_event_id on outbox
--             Index Scan using ix_queued_event_event_id on queued_event
--           Index Scan using ix_run_asset_event_event_id on run_asset_event
--         Index Scan using pk_asset_event on asset_event
--   Aggregate (InitPlan)
--     Seq Scan on catchup
--   Nested Loop
--     Nested Loop
--       Nested Loop
--         Nested Loop
--           Index Scan using ix_asset_event_timestamp on asset_event
--           Index Scan using ix_outbox_asset_event_id on outbox
--         Index Scan using ix_queued_event_event_id on queued_event
--       Index Scan using ix_run_asset_event_event_id on run_asset_event
--     Index Scan using pk_asset_event on asset_event
