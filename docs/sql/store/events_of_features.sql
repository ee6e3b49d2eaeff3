-- What features add to the transaction of new events, for assets in which they are interested: a message to Airflow for
-- each event of an asset that is forwarded, and a row for each event of a watcher with `clean_source`, with the jobs
-- that got it. Each statement runs once a transaction, after those of the kernel, and locks nothing but what it
-- inserts.
INSERT INTO outbox (destination, lane, asset_event_id, message_id, created_at)
SELECT $1::VARCHAR AS anon_1, CAST(asset_event.asset_id AS TEXT) AS asset_id, asset_event.id, asset_event.event_id,
    clock_timestamp() AS anon_2
FROM asset_event
JOIN asset_forward ON asset_forward.asset_id = asset_event.asset_id
WHERE asset_event.id IN ($2::BIGINT)
ORDER BY asset_event.id;

-- Plan:
-- Insert on outbox
--   Subquery Scan
--     Nested Loop
--       Index Scan using pk_asset_event on asset_event
--       Index Only Scan using pk_asset_forward on asset_forward

INSERT INTO cleaning (event_id, watcher, owed, state, due_at)
SELECT asset_event.id, asset_event.source_watcher, coalesce((SELECT CAST(json_agg(queued_event.dag_id) AS TEXT) AS
    json_agg_1
    FROM queued_event
    WHERE queued_event.event_id = asset_event.id), $1::VARCHAR) AS coalesce_1, $2::VARCHAR AS anon_1, (clock_timestamp()
        + make_interval(secs => cleaned_watcher.after_seconds)) AS anon_2
FROM asset_event
JOIN cleaned_watcher ON cleaned_watcher.watcher = asset_event.source_watcher
WHERE asset_event.id IN ($3::BIGINT);

-- Plan:
-- Insert on cleaning
--   Subquery Scan
--     Nested Loop
--       Index Scan using pk_asset_event on asset_event
--       Index Scan using pk_cleaned_watcher on cleaned_watcher
--       Aggregate (SubPlan)
--         Index Scan using ix_queued_event_event_id on queued_event
