-- The commit of a detection, or of a group of them: the new positions of watchers with their events, in one
-- transaction. It runs whenever a watcher detected something or its position moves, at most about once a poll and
-- watcher; watchers that are due together share a transaction.
--
-- The first statement moves the positions that are still held (epoch and version: the fence), and stores the events. It
-- locks, in this order, the rows of watcher_position by name, the configuration's advisory lock (shared), the assets
-- (FOR KEY SHARE), and the advisory locks of the watermarks' keys. It waits for positions that others have locked.
--
-- The second statement, which sees what these waits let through, makes the queue rows of the jobs, the watermarks'
-- entries with their history, and notes when each watcher had its last event. It locks the edges of jobs (FOR KEY
-- SHARE), then the rows of watcher. It also reads which features are interested in the events' assets; what these send
-- then is in events_of_features.sql.
WITH locked AS (SELECT anon_1.watcher AS watcher, anon_1.epoch AS epoch, anon_1.version AS version,
    anon_1.source_identity AS source_identity, anon_1.format AS format, anon_1.state AS state, anon_1.watermark AS
    watermark, anon_1.asset_id AS asset_id, anon_1.key AS key, anon_1.place AS place
  FROM watcher_position
  JOIN unnest($5::VARCHAR(250)[], $6::BIGINT[], $7::BIGINT[], $8::TEXT[], $9::INTEGER[], $10::TEXT[], $11::TEXT[],
      $12::BIGINT[], $13::VARCHAR(512)[]) WITH ORDINALITY AS anon_1(watcher, epoch, version, source_identity, format,
      state, watermark, asset_id, key, place) ON watcher_position.watcher = anon_1.watcher AND watcher_position.epoch =
      anon_1.epoch AND watcher_position.version = anon_1.version
  ORDER BY watcher_position.watcher
  FOR UPDATE OF watcher_position),
fenced AS (UPDATE watcher_position SET source_identity=locked.source_identity, version=(watcher_position.version +
    $4::BIGINT), watermark=locked.watermark, format=locked.format, state=locked.state, updated_at=clock_timestamp()
  FROM locked
  WHERE watcher_position.watcher = locked.watcher
  RETURNING locked.watcher, locked.asset_id, locked.key, watcher_position.version),
moved AS (SELECT fenced.watcher AS watcher, fenced.asset_id AS asset_id, fenced.key AS key, fenced.version AS version
  FROM fenced
  WHERE pg_advisory_xact_lock_shared($14::BIGINT) IS NOT NULL),
locked_asset AS (SELECT moved.watcher AS watcher, moved.asset_id AS asset_id, moved.key AS key
  FROM moved
  JOIN asset ON asset.id = moved.asset_id
  ORDER BY moved.asset_id, moved.key
  FOR KEY SHARE OF asset),
locked_key AS (SELECT locked_asset.watcher AS watcher, pg_advisory_xact_lock(hashtextextended($1::VARCHAR ||
    CAST(locked_asset.asset_id AS TEXT) || $2::VARCHAR || locked_asset.key, $3::INTEGER)) AS lock
  FROM locked_asset),
event AS (INSERT INTO asset_event (asset_id, extra, trace_id, event_id, source_watcher, source_dag_id, source_run_id,
    source_task_id, source_map_index, source_actor, partition_key, sketch_low, sketch_high, sketch_bits,
    sketch_more_bits, timestamp)
  SELECT anon_2.asset_id AS asset_id, anon_2.extra AS extra, anon_2.trace_id AS trace_id, anon_2.event_id AS event_id,
      anon_2.source_watcher AS source_watcher, anon_2.source_dag_id AS source_dag_id, anon_2.source_run_id AS
      source_run_id, anon_2.source_task_id AS source_task_id, anon_2.source_map_index AS source_map_index,
      anon_2.source_actor AS source_actor, anon_2.partition_key AS partition_key, anon_2.sketch_low AS sketch_low,
      anon_2.sketch_high AS sketch_high, anon_2.sketch_bits AS sketch_bits, anon_2.sketch_more_bits AS sketch_more_bits,
      clock_timestamp() AS anon_3
  FROM unnest($15::BIGINT[], $16::TEXT[], $17::VARCHAR(32)[], $18::VARCHAR(64)[], $19::VARCHAR(250)[],
      $20::VARCHAR(250)[], $21::VARCHAR(250)[], $22::VARCHAR(250)[], $23::INTEGER[], $24::VARCHAR(250)[],
      $25::VARCHAR(250)[], $26::BIGINT[], $27::BIGINT[], $28::BIGINT[], $29::BIGINT[], $30::VARCHAR(250)[]) WITH
      ORDINALITY AS anon_2(asset_id, extra, trace_id, event_id, source_watcher, source_dag_id, source_run_id,
      source_task_id, source_map_index, source_actor, partition_key, sketch_low, sketch_high, sketch_bits,
      sketch_more_bits, detected_by, place), locked_key
  WHERE anon_2.detected_by = locked_key.watcher
  ORDER BY anon_2.place
  RETURNING asset_event.id, asset_event.timestamp, asset_event.asset_id)
SELECT array_agg(moved.watcher) AS watchers, array_agg(moved.version) AS versions, (SELECT array_agg(locked_key.watcher)
    AS array_agg_1
  FROM locked_key) AS waited, (SELECT array_agg(event.id) AS array_agg_2
  FROM event) AS ids
FROM moved;

-- Plan:
-- Aggregate
--   CTE locked: LockRows
--     Sort
--       Nested Loop
--         Function Scan
--         Index Scan using pk_watcher_position on watcher_position
--   CTE fenced: Update on watcher_position
--     Nested Loop
--       CTE Scan on locked
--       Index Scan using pk_watcher_position on watcher_position
--   CTE moved: CTE Scan on fenced
--   CTE locked_asset: LockRows
--     Sort
--       Nested Loop
--         CTE Scan on moved
--         Index Scan using pk_asset on asset
--   CTE locked_key: CTE Scan on locked_asset
--   CTE event: Insert on asset_event
--     Subquery Scan
--       Nested Loop
--         Function Scan
--         CTE Scan on locked_key
--   Aggregate (InitPlan)
--     CTE Scan on locked_key
--   Aggregate (InitPlan)
--     CTE Scan on event
--   CTE Scan on moved

WITH entry AS (INSERT INTO asset_store (asset_id, key, value, is_ref, last_updated_by_kind, last_updated_by_dag_id,
    last_updated_by_run_id, last_updated_by_task_id, last_updated_by_map_index, last_updated_by_watcher,
    last_updated_by_actor, last_updated_by_write_id, version, updated_at)
  SELECT anon_1.asset_id AS asset_id, anon_1.key AS key, anon_1.value AS value, false AS anon_2, $1::VARCHAR AS anon_3,
      CAST(NULL AS VARCHAR(250)) AS anon_4, CAST(NULL AS VARCHAR(250)) AS anon__1, CAST(NULL AS VARCHAR(250)) AS
      anon__2, CAST(NULL AS INTEGER) AS anon__3, anon_1.watcher AS watcher, CAST(NULL AS VARCHAR(250)) AS anon__4,
      anon_1.write_id AS write_id, coalesce((SELECT max(asset_store_history.version) AS max_1
      FROM asset_store_history
      WHERE asset_store_history.asset_id = anon_1.asset_id AND asset_store_history.key = anon_1.key), $2::INTEGER) +
          $3::BIGINT AS anon_5, clock_timestamp() AS anon_6
  FROM unnest($4::BIGINT[], $5::VARCHAR(512)[], $6::TEXT[], $7::VARCHAR(250)[], $8::VARCHAR(64)[]) WITH ORDINALITY AS
      anon_1(asset_id, key, value, watcher, write_id, place)
  ORDER BY anon_1.asset_id, anon_1.key
  ON CONFLICT (asset_id, key) DO UPDATE SET value = excluded.value, is_ref = excluded.is_ref, version =
      (asset_store.version + $9::BIGINT), updated_at = excluded.updated_at, last_updated_by_kind =
      excluded.last_updated_by_kind, last_updated_by_dag_id = excluded.last_updated_by_dag_id, last_updated_by_run_id =
      excluded.last_updated_by_run_id, last_updated_by_task_id = excluded.last_updated_by_task_id,
      last_updated_by_map_index = excluded.last_updated_by_map_index, last_updated_by_watcher =
      excluded.last_updated_by_watcher, last_updated_by_actor = excluded.last_updated_by_actor, last_updated_by_write_id
      = excluded.last_updated_by_write_id
  RETURNING asset_store.version, asset_store.asset_id, asset_store.key, asset_store.value, asset_store.updated_at,
      asset_store.last_updated_by_kind, asset_store.last_updated_by_dag_id, asset_store.last_updated_by_run_id,
      asset_store.last_updated_by_task_id, asset_store.last_updated_by_map_index, asset_store.last_updated_by_watcher,
      asset_store.last_updated_by_actor, asset_store.last_updated_by_write_id),
history AS (INSERT INTO asset_store_history (asset_id, key, version, value, kind, dag_id, run_id, task_id, map_index,
    watcher, actor, write_id, written_at)
  SELECT entry.asset_id AS asset_id, entry.key AS key, entry.version AS version, entry.value AS value,
      entry.last_updated_by_kind AS last_updated_by_kind, entry.last_updated_by_dag_id AS last_updated_by_dag_id,
      entry.last_updated_by_run_id AS last_updated_by_run_id, entry.last_updated_by_task_id AS last_updated_by_task_id,
      entry.last_updated_by_map_index AS last_updated_by_map_index, entry.last_updated_by_watcher AS
      last_updated_by_watcher, entry.last_updated_by_actor AS last_updated_by_actor, entry.last_updated_by_write_id AS
      last_updated_by_write_id, entry.updated_at AS updated_at
  FROM entry),
queued AS (INSERT INTO queued_event (dag_id, event_id, asset_id, created_at, partition_key, satisfies)
  SELECT anon_7.dag_id AS dag_id, anon_7.id AS id, anon_7.asset_id AS asset_id, anon_7.timestamp AS timestamp,
      anon_7.partition_key AS partition_key, anon_7.satisfies AS satisfies
  FROM (SELECT job_schedule_asset.dag_id AS dag_id, asset_event.id AS id, asset_event.asset_id AS asset_id,
      asset_event.timestamp AS timestamp, asset_event.partition_key AS partition_key, CASE WHEN
      job_schedule_asset.filtered THEN $12::VARCHAR ELSE $13::VARCHAR END AS satisfies
    FROM asset_event
    JOIN job_schedule_asset ON job_schedule_asset.asset_id = asset_event.asset_id
    WHERE asset_event.id = any($14::BIGINT[])
    ORDER BY job_schedule_asset.dag_id, job_schedule_asset.asset_id
    FOR KEY SHARE OF job_schedule_asset) AS anon_7 UNION SELECT anon_8.dag_id AS dag_id, anon_8.id AS id,
        anon_8.asset_id AS asset_id, anon_8.timestamp AS timestamp, anon_8.partition_key AS partition_key,
        anon_8.satisfies AS satisfies
  FROM (SELECT job_schedule_alias.dag_id AS dag_id, asset_event.id AS id, asset_event.asset_id AS asset_id,
      asset_event.timestamp AS timestamp, asset_event.partition_key AS partition_key, CASE WHEN
      job_schedule_alias.filtered THEN $15::VARCHAR ELSE $16::VARCHAR END AS satisfies
    FROM asset_event
    JOIN asset_alias_asset ON asset_alias_asset.asset_id = asset_event.asset_id
    JOIN job_schedule_alias ON job_schedule_alias.alias_id = asset_alias_asset.alias_id
    WHERE asset_event.id = any($14::BIGINT[])
    ORDER BY job_schedule_alias.dag_id, job_schedule_alias.alias_id
    FOR KEY SHARE OF job_schedule_alias) AS anon_8
  RETURNING queued_event.dag_id, queued_event.asset_id, queued_event.satisfies),
woken AS (SELECT queued.asset_id AS asset_id, array_agg(DISTINCT queued.dag_id) FILTER (WHERE queued.satisfies !=
    $11::VARCHAR) AS dag_ids, bool_or(queued.satisfies = $11::VARCHAR) AS filtered
  FROM queued GROUP BY queued.asset_id),
mine AS (SELECT watcher.name AS name, watcher.asset_id AS asset_id
  FROM watcher
  WHERE watcher.name = any($10::TEXT[]) AND (SELECT count(*) AS count_1
    FROM woken) >= $17::INTEGER
  ORDER BY watcher.name
  FOR NO KEY UPDATE),
seen AS (UPDATE watcher SET last_event_at=clock_timestamp()
  FROM mine
  WHERE watcher.name = mine.name)
SELECT woken.asset_id, woken.dag_ids, woken.filtered, interested.pairs, anon_9.watchers, anon_9.asset_ids
FROM (SELECT CAST(json_agg(json_build_array(asset_interest.asset_id, asset_interest.feature)) AS TEXT) AS pairs
  FROM asset_interest
  WHERE asset_interest.asset_id = any($18::BIGINT[])) AS interested
JOIN (SELECT array_agg(mine.name) AS watchers, array_agg(mine.asset_id) AS asset_ids
  FROM mine) AS anon_9 ON true
LEFT OUTER JOIN woken ON true;

-- Plan:
-- Nested Loop
--   CTE entry: Insert on asset_store
--     Subquery Scan
--       Result
--         Sort
--           Function Scan
--         Result (SubPlan)
--           Limit (InitPlan)
--             Index Only Scan using pk_asset_store_history on asset_store_history
--   CTE history: Insert on asset_store_history
--     CTE Scan on entry
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
--   CTE woken: Aggregate
--     Sort
--       CTE Scan on queued
--   CTE mine: LockRows
--     Aggregate (InitPlan)
--       CTE Scan on woken
--     Result
--       Index Scan using pk_watcher on watcher
--   CTE seen: Update on watcher
--     Nested Loop
--       CTE Scan on mine
--       Index Scan using pk_watcher on watcher
--   Nested Loop
--     Aggregate
--       Index Only Scan using pk_asset_interest on asset_interest
--     Aggregate
--       CTE Scan on mine
--   CTE Scan on woken
