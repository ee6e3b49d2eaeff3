-- Mode id, once in every poll while ids are missing, ahead of id_new_and_late_rows; watchers of one connection that
-- poll at the same time share it. $1 are the oids of the tables, their partitions and sequences.
SELECT pg_postmaster_start_time()::text AS boot,
       to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at,
       ARRAY(SELECT ROW(relation::int8, virtualtransaction, pid, is_sequence) FROM pg_locks
             CROSS JOIN LATERAL (SELECT 0 = ANY($1::oid[])
                 AND coalesce((SELECT relkind = 'S' FROM pg_class WHERE oid = relation), true) AS is_sequence) s
             WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND (relation = ANY($1::oid[]) OR is_sequence)) AS locks
