-- A running job sets an entry of an asset's store. It runs once for each write of a job, by its Execution API request,
-- which carries an Idempotency-Key.
--
-- The first statement is the fence: it locks the rows of task_instance and task_try (FOR NO KEY UPDATE), then the
-- advisory lock of the entry's key, and reserves the kept answer. The second writes the entry and its history row.
WITH reservation AS (INSERT INTO execution_answer (task_instance_id, key, request, status, created_at)
  SELECT $5::VARCHAR AS anon_1, $6::VARCHAR AS anon_2, $7::VARCHAR AS anon_3, $8::INTEGER AS anon_4, clock_timestamp()
      AS anon_5
  FROM task_try
  WHERE task_try.task_instance_id = $5::VARCHAR AND task_try.try_number = $9::INTEGER
  ON CONFLICT DO NOTHING
  RETURNING execution_answer.key)
SELECT locked.task_instance_id, locked.dag_id, locked.run_id, locked.task_id, locked.map_index, locked.try_number,
    locked.state, locked.nonce, locked.finish_state, locked.cancelled_at, locked.ended_at, locked.asset_id,
    locked.asset_name, locked.asset_uri, locked.asset_active, locked.asset_declared,
    pg_advisory_xact_lock(hashtextextended($1::VARCHAR || CAST(locked.asset_id AS TEXT) || $2::VARCHAR || $3::VARCHAR,
    $4::INTEGER)) AS key_lock, (SELECT count(*) AS count_1
  FROM reservation) AS reserved
FROM (SELECT task_instance.id AS task_instance_id, task_instance.dag_id AS dag_id, task_instance.run_id AS run_id,
    task_instance.task_id AS task_id, task_instance.map_index AS map_index, task_instance.try_number AS try_number,
    task_instance.state AS state, task_try.nonce AS nonce, task_try.finish_state AS finish_state, task_try.cancelled_at
    AS cancelled_at, task_try.ended_at AS ended_at, asset.id AS asset_id, asset.name AS asset_name, asset.uri AS
    asset_uri, asset.active AS asset_active, asset.active AND ((EXISTS (SELECT *
        FROM job_inlet
        WHERE job_inlet.dag_id = task_instance.dag_id AND job_inlet.asset_id = asset.id)) OR (EXISTS (SELECT *
        FROM job_outlet
        WHERE job_outlet.dag_id = task_instance.dag_id AND job_outlet.asset_id = asset.id)) OR (EXISTS (SELECT *
        FROM job_inlet_alias, asset_alias_asset
        WHERE job_inlet_alias.dag_id = task_instance.dag_id AND job_inlet_alias.alias_id = asset_alias_asset.alias_id
            AND asset_alias_asset.asset_id = asset.id)) OR (EXISTS (SELECT *
        FROM job_outlet_alias, asset_alias_asset
        WHERE job_outlet_alias.dag_id = task_instance.dag_id AND job_outlet_alias.alias_id = asset_alias_asset.alias_id
            AND asset_alias_asset.asset_id = asset.id))) AS asset_declared
  FROM task_instance
  JOIN task_try ON task_try.task_instance_id = task_instance.id AND task_try.try_number = $9::INTEGER
  LEFT OUTER JOIN asset ON asset.uri = $10::VARCHAR
  WHERE task_instance.id = $5::VARCHAR
  FOR NO KEY UPDATE OF task_instance, task_try) AS locked;

-- Plan:
-- Subquery Scan
--   CTE reservation: Insert on execution_answer
--     Subquery Scan
--       Index Only Scan using pk_task_try on task_try
--   Aggregate (InitPlan)
--     CTE Scan on reservation
--   LockRows
--     Nested Loop
--       Nested Loop
--         Index Scan using pk_task_instance on task_instance
--         Index Scan using pk_task_try on task_try
--       Index Scan using uq_asset_uri on asset
--       Index Scan using ix_job_inlet_asset_id on job_inlet (SubPlan)
--       Index Scan using ix_job_outlet_asset_id on job_outlet (SubPlan)
--       Nested Loop (SubPlan)
--         Index Only Scan using pk_job_inlet_alias on job_inlet_alias
--         Index Only Scan using pk_asset_alias_asset on asset_alias_asset
--       Nested Loop (SubPlan)
--         Index Only Scan using pk_job_outlet_alias on job_outlet_alias
--         Index Only Scan using pk_asset_alias_asset on asset_alias_asset

WITH written AS (INSERT INTO asset_store (asset_id, key, value, is_ref, last_updated_by_kind, last_updated_by_dag_id,
    last_updated_by_run_id, last_updated_by_task_id, last_updated_by_map_index, last_updated_by_watcher,
    last_updated_by_actor, last_updated_by_write_id, version, updated_at)
  SELECT $1::BIGINT AS anon_16, $2::VARCHAR AS anon_17, $3::VARCHAR AS anon_18, $4::BOOLEAN AS anon_19, $5::VARCHAR AS
      anon_20, $6::VARCHAR AS anon_21, $7::VARCHAR AS anon_22, $8::VARCHAR AS anon_23, $9::INTEGER AS anon_24,
      $11::VARCHAR AS anon_25, $12::VARCHAR AS anon_26, $13::VARCHAR AS anon_27, coalesce((SELECT
      max(asset_store_history.version) AS max_1
      FROM asset_store_history
      WHERE asset_store_history.asset_id = $1::BIGINT AND asset_store_history.key = $2::VARCHAR), $14::INTEGER) +
          $15::BIGINT AS anon_28, clock_timestamp() AS anon_29
  WHERE $16::BIGINT IS NULL OR $16::BIGINT = coalesce((SELECT asset_store.version
      FROM asset_store
      WHERE asset_store.asset_id = $1::BIGINT AND asset_store.key = $2::VARCHAR), $17::INTEGER)
  ON CONFLICT (asset_id, key) DO UPDATE SET value = excluded.value, is_ref = excluded.is_ref, version =
      (asset_store.version + $18::BIGINT), updated_at = excluded.updated_at, last_updated_by_kind =
      excluded.last_updated_by_kind, last_updated_by_dag_id = excluded.last_updated_by_dag_id, last_updated_by_run_id =
      excluded.last_updated_by_run_id, last_updated_by_task_id = excluded.last_updated_by_task_id,
      last_updated_by_map_index = excluded.last_updated_by_map_index, last_updated_by_watcher =
      excluded.last_updated_by_watcher, last_updated_by_actor = excluded.last_updated_by_actor, last_updated_by_write_id
      = excluded.last_updated_by_write_id
  WHERE $16::BIGINT IS NULL OR $16::BIGINT = asset_store.version
  RETURNING asset_store.version, asset_store.asset_id, asset_store.key) INSERT INTO asset_store_history (asset_id, key,
      version, value, is_ref, deleted, written_at, kind, dag_id, run_id, task_id, map_index, try_number, watcher, actor,
      write_id)
SELECT $1::BIGINT AS anon_1, $2::VARCHAR AS anon_2, written.version, $3::VARCHAR AS anon_3, $4::BOOLEAN AS anon_4, false
    AS anon_5, clock_timestamp() AS anon_6, $5::VARCHAR AS anon_7, $6::VARCHAR AS anon_8, $7::VARCHAR AS anon_9,
    $8::VARCHAR AS anon_10, $9::INTEGER AS anon_11, $10::INTEGER AS anon_12, $11::VARCHAR AS anon_13, $12::VARCHAR AS
    anon_14, $13::VARCHAR AS anon_15
FROM written
RETURNING asset_store_history.version;

-- Plan:
-- Insert on asset_store_history
--   CTE written: Insert on asset_store
--     Subquery Scan
--       Result
--         Result (InitPlan)
--           Limit (InitPlan)
--             Index Only Scan using pk_asset_store_history on asset_store_history
--   Subquery Scan
--     CTE Scan on written
