-- The dispatcher checks what may start, what is running, and when the next retry is due. It runs in every process that
-- starts runs, every 5 seconds and after each change that it is notified of. It locks nothing.
SELECT task_instance.id, task_instance.dag_id, task_instance.run_id, task_instance.task_id, task_instance.map_index,
    task_instance.try_number, run.state AS run_state, run.trace_id, job.definition
FROM task_instance
JOIN run ON run.dag_id = task_instance.dag_id AND run.run_id = task_instance.run_id
JOIN job ON job.dag_id = task_instance.dag_id
WHERE task_instance.origin = $1::VARCHAR AND run.state IN ($4::VARCHAR, $5::VARCHAR) AND job.active AND NOT job.paused
    AND (task_instance.state = $2::VARCHAR OR task_instance.state = $3::VARCHAR AND task_instance.not_before <=
    clock_timestamp()) AND NOT (EXISTS (SELECT *
    FROM task_try
    WHERE task_try.task_instance_id = task_instance.id AND task_try.try_number = task_instance.try_number AND
        task_try.ended_at IS NULL))
ORDER BY run.id;

-- Plan:
-- Sort
--   Nested Loop
--     Nested Loop
--       Nested Loop
--         Index Scan using ix_run_state_dag_id on run
--         Memoize
--           Index Scan using pk_job on job
--       Index Scan using uq_task_instance_dag_id_run_id_task_id_map_index on task_instance
--     Index Scan using ix_task_try_home_id_ended_at on task_try

SELECT run.dag_id, count(*) AS runs
FROM run
WHERE run.state = $1::VARCHAR GROUP BY run.dag_id;

-- Plan:
-- Aggregate
--   Index Only Scan using ix_run_state_dag_id on run

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
--           Index Scan using ix_task_try_home_id_ended_at on task_try
--           Index Scan using pk_task_instance on task_instance
--         Index Scan using uq_run_dag_id_run_id on run
--       Index Scan using pk_job on job
