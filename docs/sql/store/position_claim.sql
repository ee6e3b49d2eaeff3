-- A triggerer takes over watchers that no living triggerer owns, and reads their positions. It runs when watchers are
-- assigned anew: at the start, after a reload, and when another triggerer ended.
--
-- The first statement locks the rows of watcher_position that it claims, in order of name. The others read large sets
-- and rejected items.
INSERT INTO watcher_position (watcher, owner, epoch, format)
SELECT asked.key, $1::VARCHAR AS anon_1, $2::INTEGER AS anon_2, CAST(asked.value AS INTEGER) AS value
FROM json_each_text(CAST($3::VARCHAR AS JSON)) AS asked
WHERE NOT (EXISTS (SELECT *
    FROM watcher_position
    WHERE watcher_position.watcher = asked.key AND (watcher_position.owner IS NOT NULL AND watcher_position.owner !=
        $4::VARCHAR AND (EXISTS (SELECT *
          FROM triggerer
          WHERE triggerer.id = watcher_position.owner AND triggerer.expires_at > clock_timestamp())) OR
              watcher_position.state IS NOT NULL AND watcher_position.format > CAST(asked.value AS INTEGER))))
ORDER BY asked.key
ON CONFLICT (watcher) DO UPDATE SET owner = $5::VARCHAR, epoch = (watcher_position.epoch + $6::BIGINT)
WHERE NOT (watcher_position.owner IS NOT NULL AND watcher_position.owner != $7::VARCHAR AND (EXISTS (SELECT *
      FROM triggerer
      WHERE triggerer.id = watcher_position.owner AND triggerer.expires_at > clock_timestamp())) OR
          watcher_position.state IS NOT NULL AND watcher_position.format > excluded.format)
RETURNING watcher_position.watcher, watcher_position.epoch, watcher_position.version, watcher_position.source_identity,
    watcher_position.state, watcher_position.previous;

-- Plan:
-- Insert on watcher_position
--   Subquery Scan
--     Sort
--       Function Scan
--         Index Scan using pk_watcher_position on watcher_position (SubPlan)
--           Index Scan using pk_triggerer on triggerer (SubPlan)
--   Index Scan using pk_triggerer on triggerer (SubPlan)

SELECT watcher_position_row.watcher, watcher_position_row.member, watcher_position_row.value
FROM watcher_position_row
WHERE watcher_position_row.watcher IN ($1::VARCHAR);

-- Plan:
-- Index Scan using ix_watcher_position_row_watcher_value on watcher_position_row

SELECT watcher_position_chunk.watcher, watcher_position_chunk.number, watcher_position_chunk.data
FROM watcher_position_chunk
WHERE watcher_position_chunk.watcher IN ($1::VARCHAR) ORDER BY watcher_position_chunk.watcher, watcher_position_chunk.number;

-- Plan:
-- Index Scan using pk_watcher_position_chunk on watcher_position_chunk

SELECT rejected_item.watcher, rejected_item.key, rejected_item.version, rejected_item.column_name, rejected_item.code,
    rejected_item.reason, rejected_item.retry_at IS NOT NULL AS is_retried
FROM rejected_item
WHERE rejected_item.watcher IN ($1::VARCHAR)
ORDER BY rejected_item.rejected_at, rejected_item.digest;

-- Plan:
-- Sort
--   Index Scan using pk_rejected_item on rejected_item
