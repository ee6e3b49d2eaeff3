-- The scheduler decides on the queues of jobs, up to 100 in a transaction, and makes runs of them. It runs on the
-- leader for the jobs that got events, by a hint right after their commit.
--
-- The first statement locks the jobs' rows by name (FOR NO KEY UPDATE), which keeps other schedulers out and nobody who
-- adds events. The second probes an index for each queued asset, however many events are queued. The others run when a
-- condition is met: the oldest events, the runs, their task instances, what they consume, and the queue rows that go.
SELECT job.dag_id, job.task_id, job.definition, job.cron, job.clock, job.next_tick, job.rest_to, job.rest_completed_by, job.paused
FROM job
WHERE job.dag_id IN ($2::VARCHAR) AND job.active AND (NOT job.paused OR (SELECT open_step.feature
FROM open_step
WHERE open_step.dag_id = job.dag_id AND open_step.while_paused
 LIMIT $1::INTEGER) IS NOT NULL) ORDER BY job.dag_id FOR NO KEY UPDATE;

-- Plan:
-- LockRows
--   Index Scan using pk_job on job
--     Limit (SubPlan)
--       Index Scan using pk_open_step on open_step

WITH RECURSIVE queued_first(dag_id, event_id) AS (SELECT job.dag_id AS dag_id, (SELECT queued_event.event_id
    FROM queued_event
    WHERE queued_event.dag_id = job.dag_id
    ORDER BY queued_event.asset_id, queued_event.satisfies, queued_event.event_id LIMIT $1::INTEGER) AS event_id
  FROM job
  WHERE job.dag_id IN ($6::VARCHAR)
  UNION ALL SELECT queued_first.dag_id AS dag_id, coalesce((SELECT queued_event.event_id
      FROM queued_event
      WHERE queued_event.dag_id = previous.dag_id AND queued_event.asset_id = previous.asset_id AND
          queued_event.satisfies > previous.satisfies
      ORDER BY queued_event.asset_id, queued_event.satisfies, queued_event.event_id LIMIT $2::INTEGER), (SELECT
          queued_event.event_id
      FROM queued_event
      WHERE queued_event.dag_id = previous.dag_id AND queued_event.asset_id > previous.asset_id
      ORDER BY queued_event.asset_id, queued_event.satisfies, queued_event.event_id LIMIT $3::INTEGER)) AS coalesce_1
  FROM queued_first
  JOIN queued_event AS previous ON previous.dag_id = queued_first.dag_id AND previous.event_id = queued_first.event_id)
SELECT queued_first.dag_id, queued_first.event_id, asset.name, asset.partition_parts, queued_event.satisfies,
    queued_event.asset_id, (SELECT count(run.id) AS count_1
  FROM run
  WHERE run.dag_id = queued_first.dag_id AND run.state IN ($4::VARCHAR, $5::VARCHAR)) AS runs, (SELECT
      string_agg(open_step.feature, ',') AS aggregate_strings_1
  FROM open_step
  WHERE open_step.dag_id = queued_first.dag_id AND (open_step.while_paused OR (queued_first.dag_id NOT IN (NULL) OR (1 =
      1)))) AS steps, clock_timestamp() AS now
FROM queued_first
LEFT OUTER JOIN queued_event ON queued_event.dag_id = queued_first.dag_id AND queued_event.event_id =
    queued_first.event_id
LEFT OUTER JOIN asset ON asset.id = queued_event.asset_id;

-- Plan:
-- Nested Loop
--   CTE queued_first: Recursive Union
--     Index Only Scan using pk_job on job
--       Limit (SubPlan)
--         Index Only Scan using ix_queued_event_first on queued_event
--     Nested Loop
--       WorkTable Scan on queued_first
--       Index Only Scan using ix_queued_event_first on queued_event
--       Limit (SubPlan)
--         Index Only Scan using ix_queued_event_first on queued_event
--       Limit (SubPlan)
--         Index Only Scan using ix_queued_event_first on queued_event
--   Nested Loop
--     CTE Scan on queued_first
--     Index Only Scan using ix_queued_event_first on queued_event
--   Index Scan using pk_asset on asset
--   Aggregate (SubPlan)
--     Index Only Scan using ix_run_state_dag_id_id on run
--   Aggregate (SubPlan)
--     Index Only Scan using pk_open_step on open_step

SELECT queued_event.event_id, queued_event.partition_key
FROM queued_event
WHERE queued_event.dag_id = $1::VARCHAR ORDER BY queued_event.event_id
 LIMIT $2::INTEGER;

-- Plan:
-- Limit
--   Index Scan using pk_queued_event on queued_event

INSERT INTO run (dag_id, run_id, run_type, triggered_by, state, trace_id, logical_date, data_interval_start,
    data_interval_end, run_after, queued_at, partition_key, of_feature)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR, $5::VARCHAR, coalesce((SELECT asset_event.trace_id
      FROM asset_event
      WHERE asset_event.id = $6::BIGINT), $7::VARCHAR), $8::TIMESTAMP WITH TIME ZONE, $9::TIMESTAMP WITH TIME ZONE,
          $10::TIMESTAMP WITH TIME ZONE, coalesce($11::TIMESTAMP WITH TIME ZONE, clock_timestamp()), clock_timestamp(),
          $12::VARCHAR, $13::VARCHAR)
RETURNING run.dag_id, run.run_id, run.trace_id;

-- Plan:
-- Insert on run
--   Index Scan using pk_asset_event on asset_event (InitPlan)
--   Result

INSERT INTO task_instance (id, dag_id, run_id, task_id, map_index, state) VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR, $5::INTEGER, $6::VARCHAR);

-- Plan:
-- Insert on task_instance
--   Result

INSERT INTO run_asset_event (dag_id, event_id, run_id, completed) VALUES ($1::VARCHAR, $2::BIGINT, $3::VARCHAR, $4::BOOLEAN);

-- Plan:
-- Insert on run_asset_event
--   Result

DELETE FROM queued_event WHERE queued_event.dag_id = $1::VARCHAR AND queued_event.event_id IN ($2::BIGINT);

-- Plan:
-- Delete on queued_event
--   Index Scan using ix_queued_event_first on queued_event
