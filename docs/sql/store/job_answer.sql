-- The body of the answer to a job's write is kept for a day, for a request that is repeated. It runs after those writes
-- whose answer has a body, in their transaction. It locks the row of execution_answer.
UPDATE execution_answer SET status=$1::INTEGER, body=$2::VARCHAR WHERE execution_answer.task_instance_id = $3::VARCHAR AND execution_answer.key = $4::VARCHAR

-- Plan:
-- Update on execution_answer
--   Index Scan using pk_execution_answer on execution_answer
