-- Signs of life: of a triggerer, of a dispatcher, and of the leader. Each runs by itself, as a transaction of its own
-- on a reserved session: a triggerer's at `settings.triggerer.heartbeat`, the others at a third of the lease. Each
-- locks the one row that it updates.
INSERT INTO triggerer (id, host, pid, capacity, started_at, heartbeat_at, expires_at)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::INTEGER, $4::INTEGER, clock_timestamp(), clock_timestamp(), (clock_timestamp() +
    make_interval(secs => $5::FLOAT)))
ON CONFLICT (id) DO UPDATE SET capacity = $6::INTEGER, heartbeat_at = clock_timestamp(), expires_at = (clock_timestamp()
    + make_interval(secs => $5::FLOAT));

-- Plan:
-- Insert on triggerer
--   Result

INSERT INTO dispatcher (home_id, host, pid, configuration, heartbeat_at, expires_at)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::INTEGER, $4::VARCHAR, clock_timestamp(), (clock_timestamp() + make_interval(secs
    => $5::FLOAT)))
ON CONFLICT (home_id) DO UPDATE SET host = $6::VARCHAR, pid = $7::INTEGER, configuration = $8::VARCHAR, heartbeat_at =
    clock_timestamp(), expires_at = (clock_timestamp() + make_interval(secs => $5::FLOAT));

-- Plan:
-- Insert on dispatcher
--   Result

UPDATE leader SET expires_at=(clock_timestamp() + make_interval(secs => $1::FLOAT)) WHERE leader.epoch = $2::BIGINT RETURNING leader.epoch;

-- Plan:
-- Update on leader
--   Seq Scan on leader
