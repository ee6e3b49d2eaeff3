-- The scheduler decides on one job's queue, and makes a run of it. It runs on the leader for each job that got events,
-- by a hint right after their commit.
--
-- The first statement locks the job's row (FOR NO KEY UPDATE), which keeps other schedulers out and nobody who adds
-- events. The second probes an index for each queued asset, however many events are queued. The others run when the
-- condition is met: the oldest events, the run, its task instance, what it consumes, and the queue rows that go.
SELECT job.task_id, job.definition, job.cron, job.clock, job.next_tick, job.rest_to, job.rest_completed_by
FROM job
WHERE job.dag_id = $1::VARCHAR AND job.active AND NOT job.paused FOR NO KEY UPDATE;

-- Plan:
-- LockRows
--   Index Scan using pk_job on job

WITH RECURSIVE queued_asset(asset_id) AS
(SELECT (SELECT queued_event.asset_id
FROM queued_event
WHERE queued_event.dag_id = $1::VARCHAR ORDER BY queued_event.asset_id, queued_event.event_id
 LIMIT $3::INTEGER) AS asset_id UNION ALL SELECT (SELECT queued_event.asset_id
FROM queued_event
WHERE queued_event.dag_id = $1::VARCHAR AND queued_event.asset_id > queued_asset.asset_id ORDER BY queued_event.asset_id, queued_event.event_id
 LIMIT $4::INTEGER) AS anon_1
FROM queued_asset
WHERE queued_asset.asset_id IS NOT NULL)
 SELECT asset.name, (SELECT queued_event.event_id
FROM queued_event
WHERE queued_event.dag_id = $1::VARCHAR AND queued_event.asset_id >= queued_asset.asset_id ORDER BY queued_event.asset_id, queued_event.event_id
 LIMIT $2::INTEGER) AS first_event, (SELECT count(run.id) AS count_1
FROM run
WHERE run.dag_id = $1::VARCHAR AND run.state IN ($5::VARCHAR, $6::VARCHAR)) AS runs, clock_timestamp() AS now
FROM queued_asset LEFT OUTER JOIN asset ON asset.id = queued_asset.asset_id;

-- Plan:
-- Nested Loop
--   CTE queued_asset: Recursive Union
--     Result
--       Limit (InitPlan)
--         Index Only Scan using ix_queued_event_dag_id_asset_id_event_id on queued_event
--     WorkTable Scan on queued_asset
--   Aggregate (InitPlan)
--     Index Only Scan using ix_run_state_dag_id_id on run
--   CTE Scan on queued_asset
--   Index Scan using pk_asset on asset
--   Limit (SubPlan)
--     Index Only Scan using ix_queued_event_dag_id_asset_id_event_id on queued_event

SELECT queued_event.event_id
FROM queued_event
WHERE queued_event.dag_id = $1::VARCHAR ORDER BY queued_event.event_id
 LIMIT $2::INTEGER;

-- Plan:
-- Limit
--   Index Only Scan using pk_queued_event on queued_event

INSERT INTO run (dag_id, run_id, run_type, triggered_by, state, trace_id, run_after, queued_at)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR, $5::VARCHAR, (SELECT asset_event.trace_id
    FROM asset_event
    WHERE asset_event.id = $6::BIGINT), clock_timestamp(), clock_timestamp())
RETURNING run.trace_id;

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
--   Index Scan using ix_queued_event_dag_id_asset_id_event_id on queued_event
