-- Mode updated_at, once at the beginning of every poll. The floor of later polls follows the oldest of these
-- transactions.
SELECT pg_postmaster_start_time()::text AS boot,
       to_char((statement_timestamp() - interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS moment,
       ARRAY(SELECT ROW(virtualtransaction, pid) FROM pg_locks
             WHERE locktype = 'virtualxid' AND virtualxid = virtualtransaction AND pid <> pg_backend_pid()
               AND pid IN (SELECT a.pid FROM pg_stat_get_activity(NULL) a
                           WHERE a.datid = (SELECT oid FROM pg_database WHERE datname = current_database()))
                OR locktype = 'transactionid' AND pid IS NULL) AS alive,
       (SELECT ROW(to_char((query_start - interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), pid)
        FROM pg_stat_get_activity(NULL) WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state = 'active'
            AND coalesce(xact_start <= query_start, query_start IS NOT NULL) ORDER BY query_start LIMIT 1) AS earliest
