/*
doc = """
What residual each GPU usually has against its peers, and how large a change of it could be seen, per signal and
hour. The second witness: a chip that has always run a little slower than its neighbours, or does more work because of
its place in the pipeline, has a usual residual and is not blamed for it.

usual is the better quartile of the hours it rests on, so that a fault becomes usual only when it has lasted for three
quarters of them. The last two hours are left out. witness says which hours. job: those of the same attempt. elsewhere:
all jobs of the GPU; only for clocks and memory time per work, which belong to the chip, while activity and power
depend on the part it plays in a job. peers: no history; usual is 0 and the peers' own spread stands for the noise;
only for the same signals, and for compute time among GPUs of one stage. Where the history in the job is itself an
outlier, against the peers or against elsewhere, it is no witness: a fault may be older than the job. Nor is a history
that moves so much that it would find less than the peers do: three hours of which one was slow say little of what is
usual. NULL: no verdict is possible.

limit_ratio is what a deviation has to exceed. detectable_ratio is what a lasting change must be for its mean over 40
minutes to exceed the limit in 19 of 20 cases: the smallest that would have been found, if the job as a whole was calm
(gpu_deviation_5min).
"""
grain = ["cluster", "node", "gpu_uuid", "job_id", "attempt", "signal", "hour_ts"]
time = "hour_ts"
lookback = "7d"
sort = ["signal", "node", "gpu_uuid", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of it", unit = "s" }
signal = { type = "VARCHAR", doc = "column of gpu_job_5min" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
bad_sign = { type = "INTEGER", doc = "sign of a residual that harms: -1 low, 1 high" }
witness = { type = "VARCHAR", doc = "job, elsewhere or peers; NULL: cannot be judged" }
history_hour_count = { type = "BIGINT", doc = "hours that usual rests on", unit = "count" }
usual = { type = "DOUBLE", doc = "better quartile of the residuals of those hours; 0 for peers" }
usual_peer_value = { type = "DOUBLE", doc = "median of what the peers did in those hours, in the signal's unit; NULL for peers" }
noise = { type = "DOUBLE", doc = "standard deviation that a mean over 40 minutes has against usual: how far the hours lie apart (interquartile range over 1.349, or for signals of the chip twice the same of steps from hour to hour where that is less: a lasting change widens the range, not the steps) and how far windows within an hour do (over the root of eight), more by 2 / hours because few hours tell little; for peers their spread; at least the floor", unit = "ratio" }
limit_ratio = { type = "DOUBLE", doc = "deviation from usual that counts", unit = "ratio" }
detectable_ratio = { type = "DOUBLE", doc = "smallest lasting deviation that would be found", unit = "ratio" }

[params.min_history_hours]
default = 3
doc = "count; hours of the same attempt that make a history. With three the median survives one odd hour."
[params.min_elsewhere_hours]
default = 6
doc = "count; the same for hours in any job, which differ more."
[params.min_clock_ratio]
default = 0.03
doc = "ratio; least deviation of a clock that counts. 5 % must be found (docs/aims.toml); two clock steps of an A100 (15 of 1410 MHz) are 2 %."
[params.min_compute_ratio]
default = 0.03
doc = "ratio; least deviation of compute time. Largest ratio of a healthy rank on two public traces: 1.008 (ST) and 1.059 (SE, steps of 50), usual already taken off here."
[params.min_tensor_ratio]
default = 0.05
doc = "ratio; least deviation of work done. Own choice."
[params.min_dram_ratio]
default = 0.05
doc = "ratio; least deviation of memory time per work. Own choice."
[params.min_power_ratio]
default = 0.06
doc = "ratio; least deviation of power, which also moves with temperature and leakage. Own choice."
[params.noise_factor]
default = 5.0
doc = "a deviation must exceed this many times the noise. Own choice, for noise that is not quite normal."
[params.peer_factor]
default = 5.0
doc = "the same where the peers' spread stands for the noise: chips of one model differ (8 % on average, 22 % at most, over five clusters: Sinha et al., SC 2022, arXiv 2208.11035), so only an outlier among them counts."
[params.min_noise_ratio]
default = 0.005
doc = "ratio; floor of the noise. Half a clock step of an A100 or H100 (15 MHz)."
*/
WITH rule AS (
    FROM (VALUES
        ('sm_clock_mhz', -1, getvariable('min_clock_ratio'), true),
        ('memory_clock_mhz', -1, getvariable('min_clock_ratio'), true),
        ('tensor_rate_mhz', -1, getvariable('min_tensor_ratio'), false),
        ('dram_per_tensor_s', 1, getvariable('min_dram_ratio'), true),
        ('power_w', -1, getvariable('min_power_ratio'), false),
        ('compute_s', 1, getvariable('min_compute_ratio'), false)
    ) AS rule (signal, bad_sign, min_ratio, is_of_chip)
),
stepped AS (
    SELECT
        h.*, bad_sign, min_ratio, is_of_chip,
        is_of_chip OR (signal = 'compute_s' AND peer_basis = 'stage') AS is_comparable_alone,
        abs(residual - lag(residual) OVER (PARTITION BY cluster, gpu_uuid, signal ORDER BY hour_ts, job_id, attempt))
            AS step
    FROM gpu_residual_hour h
    JOIN rule USING (signal)
),
history AS (
    SELECT
        *,
        count(*) OVER in_job AS job_hours,
        quantile_cont(residual * bad_sign, [0.25, 0.5, 0.75]) OVER in_job AS job_quartiles,
        median(step) OVER in_job AS job_step,
        median(residual_spread) OVER in_job AS job_spread,
        median(peer_value) OVER in_job AS job_peer_value,
        count(*) OVER anywhere AS any_hours,
        quantile_cont(residual * bad_sign, [0.25, 0.5, 0.75]) OVER anywhere AS any_quartiles,
        median(step) OVER anywhere AS any_step,
        median(residual_spread) OVER anywhere AS any_spread,
        median(peer_value) OVER anywhere AS any_peer_value
    FROM stepped
    WINDOW
        in_job AS (
            PARTITION BY cluster, gpu_uuid, signal, job_id, attempt ORDER BY hour_ts
            RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND INTERVAL 2 HOUR PRECEDING
        ),
        anywhere AS (
            PARTITION BY cluster, gpu_uuid, signal ORDER BY hour_ts
            RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND INTERVAL 2 HOUR PRECEDING
        )
),
-- Quartiles are of harm: the first is the better one, the middle tells whether the history itself is an outlier.
trusted AS (
    SELECT
        *,
        greatest(2 * min_ratio, getvariable('peer_factor') * peer_spread) AS outlier_ratio,
        is_of_chip AND any_hours >= getvariable('min_elsewhere_hours') AND any_quartiles[2] <= outlier_ratio
            AS has_elsewhere,
        job_hours >= getvariable('min_history_hours')
            AND NOT (is_comparable_alone AND job_quartiles[2] > outlier_ratio)
            AND NOT (has_elsewhere AND job_quartiles[2] - any_quartiles[2] > 2 * min_ratio) AS has_job
    FROM history
),
-- The median size of a step of normal noise is 0.6745 * sqrt(2) standard deviations.
wandered AS (
    SELECT
        *,
        least(
            (job_quartiles[3] - job_quartiles[1]) / 1.349, if(is_of_chip, 2 * job_step / (0.6745 * sqrt(2)), NULL)
        ) AS job_hour_noise,
        least((any_quartiles[3] - any_quartiles[1]) / 1.349, 2 * any_step / (0.6745 * sqrt(2))) AS any_hour_noise,
        (1 + 2 / job_hours) * sqrt(job_hour_noise ** 2 + coalesce(job_spread, 0) ** 2 / 8) AS job_noise,
        (1 + 2 / any_hours) * sqrt(any_hour_noise ** 2 + coalesce(any_spread, 0) ** 2 / 8) AS any_noise,
        is_comparable_alone AND getvariable('noise_factor') * job_noise > outlier_ratio AS is_job_blunt,
        is_comparable_alone AND getvariable('noise_factor') * any_noise > outlier_ratio AS is_elsewhere_blunt
    FROM trusted
),
witnessed AS (
    SELECT
        *,
        CASE
            WHEN has_job AND NOT is_job_blunt THEN 'job'
            WHEN has_elsewhere AND NOT is_elsewhere_blunt THEN 'elsewhere'
            WHEN is_comparable_alone THEN 'peers'
            WHEN has_job THEN 'job'
        END AS witness,
        CASE witness WHEN 'job' THEN job_quartiles WHEN 'elsewhere' THEN any_quartiles END AS quartiles,
        CASE witness WHEN 'job' THEN job_spread WHEN 'elsewhere' THEN any_spread ELSE residual_spread END AS window_spread,
        CASE witness WHEN 'job' THEN job_hours WHEN 'elsewhere' THEN any_hours END AS hours,
        greatest(
            getvariable('min_noise_ratio'),
            CASE witness WHEN 'job' THEN job_noise WHEN 'elsewhere' THEN any_noise ELSE peer_spread END
        ) AS noise
    FROM wandered
)
SELECT
    cluster, node, gpu_uuid, job_id, attempt, signal, hour_ts, bad_sign::INTEGER AS bad_sign, witness,
    if(witness = 'peers', 0, hours) AS history_hour_count,
    if(witness = 'peers', 0, bad_sign * quartiles[1]) AS usual,
    CASE witness WHEN 'job' THEN job_peer_value WHEN 'elsewhere' THEN any_peer_value END AS usual_peer_value,
    if(witness IS NULL, NULL, noise) AS noise,
    CASE
        WHEN witness = 'peers' THEN outlier_ratio
        WHEN witness IS NOT NULL THEN greatest(min_ratio, getvariable('noise_factor') * noise)
    END AS limit_ratio,
    -- 19 of 20 means of eight windows of normal noise lie above the mean less 1.645 / sqrt(8) standard deviations.
    limit_ratio + 1.645 / sqrt(8) * greatest(getvariable('min_noise_ratio'), coalesce(window_spread, noise)) AS detectable_ratio
FROM witnessed
