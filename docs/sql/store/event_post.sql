-- POST /api/v2/assets/events: events of people and tools, each with its entry in the audit. Requests that wait at the
-- same time share a transaction.
--
-- The first statement takes the configuration's advisory lock (shared) and stores events and audit entries; their
-- foreign keys lock the assets (FOR KEY SHARE). The second makes queue rows, reads which features are interested in the
-- assets, and locks the edges of jobs (FOR KEY SHARE).
WITH posted_asset AS (SELECT asset.id AS id, asset.name AS name, asset.uri AS uri, asset."group" AS "group", asset.extra
    AS extra, asset.active AS active
  FROM asset
  WHERE asset.id IN (SELECT anon_1.asset_id
    FROM unnest($5::BIGINT[], $6::TEXT[], $7::VARCHAR(32)[], $8::VARCHAR(64)[], $9::VARCHAR(250)[], $10::VARCHAR(250)[],
        $11::VARCHAR(250)[], $12::VARCHAR(250)[], $13::INTEGER[], $14::VARCHAR(250)[], $15::VARCHAR(250)[],
        $16::BIGINT[], $17::BIGINT[], $18::BIGINT[], $19::BIGINT[], $20::VARCHAR(64)[]) WITH ORDINALITY AS
        anon_1(asset_id, extra, trace_id, event_id, source_watcher, source_dag_id, source_run_id, source_task_id,
        source_map_index, source_actor, partition_key, sketch_low, sketch_high, sketch_bits, sketch_more_bits, write_id,
        place))),
event AS (INSERT INTO asset_event (asset_id, extra, trace_id, event_id, source_watcher, source_dag_id, source_run_id,
    source_task_id, source_map_index, source_actor, partition_key, sketch_low, sketch_high, sketch_bits,
    sketch_more_bits, timestamp)
  SELECT anon_1.asset_id AS asset_id, anon_1.extra AS extra, anon_1.trace_id AS trace_id, anon_1.event_id AS event_id,
      anon_1.source_watcher AS source_watcher, anon_1.source_dag_id AS source_dag_id, anon_1.source_run_id AS
      source_run_id, anon_1.source_task_id AS source_task_id, anon_1.source_map_index AS source_map_index,
      anon_1.source_actor AS source_actor, anon_1.partition_key AS partition_key, anon_1.sketch_low AS sketch_low,
      anon_1.sketch_high AS sketch_high, anon_1.sketch_bits AS sketch_bits, anon_1.sketch_more_bits AS sketch_more_bits,
      clock_timestamp() AS anon_4
  FROM unnest($5::BIGINT[], $6::TEXT[], $7::VARCHAR(32)[], $8::VARCHAR(64)[], $9::VARCHAR(250)[], $10::VARCHAR(250)[],
      $11::VARCHAR(250)[], $12::VARCHAR(250)[], $13::INTEGER[], $14::VARCHAR(250)[], $15::VARCHAR(250)[], $16::BIGINT[],
      $17::BIGINT[], $18::BIGINT[], $19::BIGINT[], $20::VARCHAR(64)[]) WITH ORDINALITY AS anon_1(asset_id, extra,
      trace_id, event_id, source_watcher, source_dag_id, source_run_id, source_task_id, source_map_index, source_actor,
      partition_key, sketch_low, sketch_high, sketch_bits, sketch_more_bits, write_id, place)
  WHERE (SELECT pg_advisory_xact_lock_shared($21::BIGINT) AS pg_advisory_xact_lock_shared_1) IS NOT NULL AND
      anon_1.asset_id IN (SELECT posted_asset.id
    FROM posted_asset
    WHERE posted_asset.active)
  ORDER BY anon_1.place
  RETURNING asset_event.id, asset_event.timestamp, asset_event.asset_id, asset_event.trace_id),
recorded AS (INSERT INTO audit (actor, action, target, write_id, detail, at)
  SELECT anon_1.source_actor AS source_actor, $1::VARCHAR AS anon_2, posted_asset.name AS name, anon_1.write_id AS
      write_id, concat($2::VARCHAR, event.id, $3::VARCHAR, event.trace_id, $4::VARCHAR) AS concat_1, clock_timestamp()
      AS anon_3
  FROM event
  JOIN unnest($5::BIGINT[], $6::TEXT[], $7::VARCHAR(32)[], $8::VARCHAR(64)[], $9::VARCHAR(250)[], $10::VARCHAR(250)[],
      $11::VARCHAR(250)[], $12::VARCHAR(250)[], $13::INTEGER[], $14::VARCHAR(250)[], $15::VARCHAR(250)[], $16::BIGINT[],
      $17::BIGINT[], $18::BIGINT[], $19::BIGINT[], $20::VARCHAR(64)[]) WITH ORDINALITY AS anon_1(asset_id, extra,
      trace_id, event_id, source_watcher, source_dag_id, source_run_id, source_task_id, source_map_index, source_actor,
      partition_key, sketch_low, sketch_high, sketch_bits, sketch_more_bits, write_id, place) ON event.trace_id =
      anon_1.trace_id
  JOIN posted_asset ON posted_asset.id = event.asset_id
  ORDER BY event.id)
SELECT posted_asset.id, posted_asset.name, posted_asset.uri, posted_asset."group", posted_asset.extra,
    posted_asset.active, event.id AS event_id, event.timestamp, event.trace_id
FROM posted_asset
LEFT OUTER JOIN event ON event.asset_id = posted_asset.id;

-- Plan:
-- Nested Loop
--   CTE posted_asset: Nested Loop
--     Aggregate
--       Function Scan
--     Index Scan using pk_asset on asset
--   CTE event: Insert on asset_event
--     Subquery Scan
--       Result
--         Result (InitPlan)
--         Nested Loop
--           Function Scan
--           CTE Scan on posted_asset
--   CTE recorded: Insert on audit
--     Subquery Scan
--       Result
--         Sort
--           Nested Loop
--             Nested Loop
--               CTE Scan on event
--               Function Scan
--             CTE Scan on posted_asset
--   CTE Scan on posted_asset
--   CTE Scan on event

WITH queued AS (INSERT INTO queued_event (dag_id, event_id, asset_id, created_at, partition_key, satisfies)
  SELECT anon_1.dag_id AS dag_id, anon_1.id AS id, anon_1.asset_id AS asset_id, anon_1.timestamp AS timestamp,
      anon_1.partition_key AS partition_key, anon_1.satisfies AS satisfies
  FROM (SELECT job_schedule_asset.dag_id AS dag_id, asset_event.id AS id, asset_event.asset_id AS asset_id,
      asset_event.timestamp AS timestamp, asset_event.partition_key AS partition_key, CASE WHEN
      job_schedule_asset.filtered THEN $2::VARCHAR ELSE $3::VARCHAR END AS satisfies
    FROM asset_event
    JOIN job_schedule_asset ON job_schedule_asset.asset_id = asset_event.asset_id
    WHERE asset_event.id = any($4::BIGINT[])
    ORDER BY job_schedule_asset.dag_id, job_schedule_asset.asset_id
    FOR KEY SHARE OF job_schedule_asset) AS anon_1 UNION SELECT anon_2.dag_id AS dag_id, anon_2.id AS id,
        anon_2.asset_id AS asset_id, anon_2.timestamp AS timestamp, anon_2.partition_key AS partition_key,
        anon_2.satisfies AS satisfies
  FROM (SELECT job_schedule_alias.dag_id AS dag_id, asset_event.id AS id, asset_event.asset_id AS asset_id,
      asset_event.timestamp AS timestamp, asset_event.partition_key AS partition_key, CASE WHEN
      job_schedule_alias.filtered THEN $5::VARCHAR ELSE $6::VARCHAR END AS satisfies
    FROM asset_event
    JOIN asset_alias_asset ON asset_alias_asset.asset_id = asset_event.asset_id
    JOIN job_schedule_alias ON job_schedule_alias.alias_id = asset_alias_asset.alias_id
    WHERE asset_event.id = any($4::BIGINT[])
    ORDER BY job_schedule_alias.dag_id, job_schedule_alias.alias_id
    FOR KEY SHARE OF job_schedule_alias) AS anon_2
  RETURNING queued_event.dag_id, queued_event.asset_id, queued_event.satisfies)
SELECT queued.dag_id, queued.satisfies, interested.pairs
FROM (SELECT CAST(json_agg(json_build_array(asset_interest.asset_id, asset_interest.feature)) AS TEXT) AS pairs
  FROM asset_interest
  WHERE asset_interest.asset_id = any($1::BIGINT[])) AS interested
LEFT OUTER JOIN queued ON true;

-- Plan:
-- Nested Loop
--   CTE queued: Insert on queued_event
--     Subquery Scan
--       Unique
--         Sort
--           Append
--             Subquery Scan
--               LockRows
--                 Sort
--                   Nested Loop
--                     Index Scan using pk_asset_event on asset_event
--                     Index Scan using ix_job_schedule_asset_asset_id on job_schedule_asset
--             Subquery Scan
--               LockRows
--                 Sort
--                   Nested Loop
--                     Nested Loop
--                       Index Scan using pk_asset_event on asset_event
--                       Index Scan using ix_asset_alias_asset_asset_id on asset_alias_asset
--                     Index Scan using ix_job_schedule_alias_alias_id on job_schedule_alias
--   Aggregate
--     Index Only Scan using pk_asset_interest on asset_interest
--   CTE Scan on queued
