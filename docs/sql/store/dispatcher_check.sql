-- The dispatcher checks what may start, what is running, and when the next retry is due. It runs in every process that
-- starts runs, every 5 seconds and after each change that it is notified of. It locks nothing.
WITH RECURSIVE queued_job(dag_id) AS (SELECT (SELECT run.dag_id
    FROM run
    WHERE run.state = $1::VARCHAR
    ORDER BY run.dag_id LIMIT $6::INTEGER) AS dag_id
  UNION ALL SELECT (SELECT run.dag_id
    FROM run
    WHERE run.state = $1::VARCHAR AND run.dag_id > queued_job.dag_id
    ORDER BY run.dag_id LIMIT $7::INTEGER) AS anon_1
  FROM queued_job
  WHERE queued_job.dag_id IS NOT NULL), head AS MATERIALIZED (SELECT (SELECT run.id
    FROM run
    WHERE run.state = $1::VARCHAR AND run.dag_id = job.dag_id AND (run.id NOT IN (SELECT coalesce((SELECT run.id
            FROM run
            WHERE task_instance.dag_id = run.dag_id AND task_instance.run_id = run.run_id AND task_instance.origin =
                $2::VARCHAR), $3::INTEGER) AS coalesce_1
        FROM task_try
        JOIN task_instance ON task_instance.id = task_try.task_instance_id
        WHERE task_try.ended_at IS NULL AND task_try.try_number = task_instance.try_number)) AND (NOT job.partitioned OR
            NOT (EXISTS (SELECT other_run.id
          FROM run AS other_run
          WHERE other_run.dag_id = run.dag_id AND other_run.partition_key IS NOT DISTINCT
          FROM run.partition_key AND other_run.state = $4::VARCHAR)))
    ORDER BY run.id LIMIT $5::INTEGER) AS id
  FROM queued_job
  JOIN job ON job.dag_id = queued_job.dag_id
  WHERE job.active AND NOT job.paused AND ((SELECT count(running_run.id) AS count_1
      FROM run AS running_run
      WHERE running_run.dag_id = job.dag_id AND running_run.state = $8::VARCHAR) = $9::INTEGER OR (SELECT
          count(running_run.id) AS count_1
      FROM run AS running_run
      WHERE running_run.dag_id = job.dag_id AND running_run.state = $8::VARCHAR) < coalesce((job.definition::json ->>
          $10::VARCHAR)::integer, $11::INTEGER)))
SELECT run.id AS number, task_instance.id, task_instance.dag_id, task_instance.run_id, task_instance.task_id,
    task_instance.map_index, task_instance.try_number, run.state AS run_state, run.trace_id, job.definition
FROM (SELECT candidate.id AS id
  FROM (SELECT head.id AS id
    FROM head
    UNION ALL SELECT run.id AS id
    FROM run
    JOIN task_instance ON task_instance.dag_id = run.dag_id AND task_instance.run_id = run.run_id AND
        task_instance.origin = $2::VARCHAR
    JOIN job ON job.dag_id = run.dag_id
    WHERE run.state = $12::VARCHAR AND job.active AND NOT job.paused AND (task_instance.state = $13::VARCHAR OR
        task_instance.state = $14::VARCHAR AND task_instance.not_before <= clock_timestamp()) AND NOT (EXISTS (SELECT *
        FROM task_try
        WHERE task_try.task_instance_id = task_instance.id AND task_try.try_number = task_instance.try_number AND
            task_try.ended_at IS NULL))) AS candidate
  WHERE candidate.id > $15::BIGINT
  ORDER BY candidate.id LIMIT $16::INTEGER) AS page
JOIN run ON run.id = page.id
JOIN task_instance ON task_instance.dag_id = run.dag_id AND task_instance.run_id = run.run_id AND task_instance.origin =
    $2::VARCHAR
JOIN job ON job.dag_id = run.dag_id
WHERE CASE WHEN ((task_instance.state = $17::VARCHAR OR task_instance.state = $18::VARCHAR AND task_instance.not_before
    <= clock_timestamp()) AND NOT (EXISTS (SELECT *
      FROM task_try
      WHERE task_try.task_instance_id = task_instance.id AND task_try.try_number = task_instance.try_number AND
          task_try.ended_at IS NULL))) THEN $19::INTEGER ELSE $20::INTEGER END = $21::INTEGER
ORDER BY run.id;

-- Plan:
-- Nested Loop
--   CTE queued_job: Recursive Union
--     Result
--       Limit (InitPlan)
--         Index Only Scan using ix_run_state_dag_id_id on run
--     WorkTable Scan on queued_job
--   CTE head: Nested Loop
--     CTE Scan on queued_job
--     Materialize
--       Index Scan using pk_job on job
--         Aggregate (SubPlan)
--           Index Only Scan using ix_run_state_dag_id_id on run
--         Aggregate (SubPlan)
--           Index Only Scan using ix_run_state_dag_id_id on run
--     Limit (SubPlan)
--       Index Scan using ix_run_state_dag_id_id on run
--         Nested Loop (SubPlan)
--           Index Scan using ix_task_try_open on task_try
--           Index Scan using pk_task_instance on task_instance
--           Result (SubPlan)
--             Index Scan using uq_run_dag_id_run_id on run
--         Index Scan using ix_run_state_dag_id_id on run (SubPlan)
--   Nested Loop
--     Nested Loop
--       Limit
--         Sort
--           Append
--             CTE Scan on head
--             Nested Loop
--               Nested Loop
--                 Nested Loop
--                   Index Scan using ix_run_state_dag_id_id on run
--                   Index Scan using pk_job on job
--                 Index Scan using uq_task_instance_dag_id_run_id_task_id_map_index on task_instance
--               Index Scan using ix_task_try_open on task_try
--       Memoize
--         Index Scan using pk_run on run
--     Index Scan using uq_task_instance_dag_id_run_id_task_id_map_index on task_instance
--       Index Scan using ix_task_try_open on task_try (SubPlan)
--   Index Scan using pk_job on job

SELECT run.dag_id, count(*) AS runs
FROM run
WHERE run.state = $1::VARCHAR GROUP BY run.dag_id;

-- Plan:
-- Aggregate
--   Index Only Scan using ix_run_state_dag_id_id on run

SELECT min(task_instance.not_before) AS min_1, clock_timestamp() AS anon_1
FROM task_instance
WHERE task_instance.state = $1::VARCHAR AND task_instance.not_before > clock_timestamp();

-- Plan:
-- Aggregate
--   Index Scan using ix_task_instance_state on task_instance

SELECT task_try.task_instance_id, task_instance.dag_id, task_instance.run_id, task_instance.task_id,
    task_instance.map_index, task_try.try_number, task_try.tag, task_try.submitter, task_try.handle, task_try.home_id,
    task_try.nonce IS NOT NULL AS claimed, task_try.cancelled_at IS NOT NULL AS cancelled, task_try.finish_state,
    task_try.is_final, task_try.message, job.definition, run.trace_id, task_try.submitted_at, clock_timestamp() AS now
FROM task_try
JOIN task_instance ON task_instance.id = task_try.task_instance_id
JOIN run ON run.dag_id = task_instance.dag_id AND run.run_id = task_instance.run_id
JOIN job ON job.dag_id = task_instance.dag_id
WHERE task_try.home_id = $1::VARCHAR AND task_try.ended_at IS NULL
ORDER BY task_try.intent_at;

-- Plan:
-- Result
--   Sort
--     Nested Loop
--       Nested Loop
--         Nested Loop
--           Index Scan using ix_task_try_open on task_try
--           Index Scan using pk_task_instance on task_instance
--         Index Scan using uq_run_dag_id_run_id on run
--       Index Scan using pk_job on job
