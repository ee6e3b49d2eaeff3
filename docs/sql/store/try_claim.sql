-- The driver of a try claims it before it does anything. It runs once a try. It locks the rows of task_instance and
-- task_try (FOR NO KEY UPDATE).
SELECT locked.task_instance_id, locked.dag_id, locked.run_id, locked.task_id, locked.map_index, locked.try_number,
    locked.state, locked.nonce, locked.finish_state, locked.cancelled_at, locked.ended_at, NULL AS key_lock, NULL AS
    reserved
FROM (SELECT task_instance.id AS task_instance_id, task_instance.dag_id AS dag_id, task_instance.run_id AS run_id,
    task_instance.task_id AS task_id, task_instance.map_index AS map_index, task_instance.try_number AS try_number,
    task_instance.state AS state, task_try.nonce AS nonce, task_try.finish_state AS finish_state, task_try.cancelled_at
    AS cancelled_at, task_try.ended_at AS ended_at
  FROM task_instance
  JOIN task_try ON task_try.task_instance_id = task_instance.id AND task_try.try_number = $1::INTEGER
  WHERE task_instance.id = $2::VARCHAR
  FOR NO KEY UPDATE OF task_instance, task_try) AS locked;

-- Plan:
-- Subquery Scan
--   LockRows
--     Nested Loop
--       Index Scan using pk_task_instance on task_instance
--       Index Scan using pk_task_try on task_try

UPDATE task_try SET nonce=$1::VARCHAR, claimed_at=clock_timestamp() WHERE task_try.task_instance_id = $2::VARCHAR AND task_try.try_number = $3::INTEGER;

-- Plan:
-- Update on task_try
--   Index Scan using pk_task_try on task_try

UPDATE task_instance SET state=$1::VARCHAR, detail=$2::VARCHAR, start_date=clock_timestamp()
WHERE task_instance.id = $3::VARCHAR AND task_instance.try_number = $4::INTEGER AND task_instance.state = $5::VARCHAR;

-- Plan:
-- Update on task_instance
--   Index Scan using ix_task_instance_state on task_instance
