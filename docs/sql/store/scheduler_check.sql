-- The scheduler checks which jobs have queued events or a tick that is due. It runs on the leader, every 30 seconds and
-- when a tick or the end of a batch is due. It locks nothing.
SELECT job.dag_id
FROM job
WHERE job.active AND (NOT job.paused AND ((SELECT min(queued_event.event_id) AS min_1
      FROM queued_event
      WHERE queued_event.dag_id = job.dag_id) IS NOT NULL OR job.cron IS NOT NULL AND (job.clock IS DISTINCT
      FROM job.cron OR job.next_tick <= clock_timestamp())) OR (EXISTS (SELECT open_step.dag_id
      FROM open_step
      WHERE open_step.dag_id = job.dag_id AND (NOT job.paused OR open_step.while_paused))))
ORDER BY (SELECT min(queued_event.event_id) AS min_1
  FROM queued_event
  WHERE queued_event.dag_id = job.dag_id) NULLS LAST, job.dag_id;

-- Plan:
-- Sort
--   Seq Scan on job
--     Result (SubPlan)
--       Limit (InitPlan)
--         Index Only Scan using pk_queued_event on queued_event
--     Result (SubPlan)
--       Limit (InitPlan)
--         Index Only Scan using pk_queued_event on queued_event
--     Index Scan using pk_open_step on open_step (SubPlan)

SELECT min(job.next_tick) AS min_1, clock_timestamp() AS anon_1
FROM job
WHERE job.active AND NOT job.paused AND job.cron IS NOT NULL AND (NOT job.joint OR job.next_tick > clock_timestamp());

-- Plan:
-- Aggregate
--   Seq Scan on job
