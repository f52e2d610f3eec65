/*
doc = "The residuals of gpu_residual_5min per GPU, job, signal and hour: their middle and how much they move within the hour. The history that gpu_usual_hour takes what is usual from."
grain = ["cluster", "node", "gpu_uuid", "job_id", "attempt", "signal", "hour_ts"]
time = "hour_ts"
sort = ["signal", "node", "gpu_uuid", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of it", unit = "s" }
signal = { type = "VARCHAR", doc = "column of gpu_job_5min" }
peer_basis = { type = "VARCHAR", doc = "stage, or job if any window was compared with the whole job" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
window_count = { type = "BIGINT", doc = "five-minute windows compared, of twelve", unit = "count" }
residual = { type = "DOUBLE", doc = "median residual; for gpu_temp_c in degrees" }
residual_spread = { type = "DOUBLE", doc = "interquartile range of the residuals over 1.349; NULL under four windows" }
peer_value = { type = "DOUBLE", doc = "median of the peers' middle, in the signal's unit: what the job as a whole does" }
peer_spread = { type = "DOUBLE", doc = "median of how far the peers lie apart" }
peer_count = { type = "BIGINT", doc = "fewest peers", unit = "count" }
*/
SELECT
    cluster, node, gpu_uuid, job_id, attempt, signal,
    date_trunc('hour', window_ts)::TIMESTAMP AS hour_ts,
    min(peer_basis) AS peer_basis,
    count(*) AS window_count,
    median(residual) AS residual,
    if(count(*) >= 4, (quantile_cont(residual, 0.75) - quantile_cont(residual, 0.25)) / 1.349, NULL) AS residual_spread,
    median(peer_value) AS peer_value,
    median(peer_spread) AS peer_spread,
    min(peer_count) AS peer_count
FROM gpu_residual_5min
GROUP BY ALL
