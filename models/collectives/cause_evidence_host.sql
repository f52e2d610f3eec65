/*
doc = """
Whether a slow rank waited for its host: its data, launch, checkpoint and other time per step against the
other ranks of its stage, in the slow steps. One row per straggler and kind, also where it says nothing
(is_found false) or where nobody recorded it (is_known false). explained_ratio is the part of what the
rank takes longer than its peers that this wait is.
"""
grain = ["incident_id", "evidence_kind"]
time = "day_ts"
sort = ["incident_id"]

[columns]
incident_id = { type = "VARCHAR", doc = "incident.incident_id" }
day_ts = { type = "TIMESTAMP", doc = "incident.day_ts" }
evidence_kind = { type = "VARCHAR", doc = "host_data, host_launch, host_checkpoint or host_other" }
cause = { type = "VARCHAR", doc = "data_stall, host_launch, slow_checkpoint or host_other; NULL unless found" }
is_known = { type = "BOOLEAN", doc = "the rank and its peers recorded it", null = false }
is_found = { type = "BOOLEAN", doc = "the rank waits longer than its peers", null = false }
explained_ratio = { type = "DOUBLE", doc = "part of the rank's excess; NULL unless found", unit = "ratio" }
figures = { type = "VARCHAR", doc = "JSON object: the figures it rests on; NULL where not known" }

[params.min_explained_ratio]
default = 0.25
doc = "ratio of the excess; a smaller part is no explanation. Own choice."
*/
WITH suspect AS (
    SELECT * FROM incident WHERE kind = 'straggler'
),

wait AS (
    SELECT
        cluster, job_id, attempt, rank, step, ts, pp_stage, step_s,
        coalesce(compute_s, step_s) AS work_s,
        unnest(['host_data', 'host_launch', 'host_checkpoint', 'host_other']) AS evidence_kind,
        unnest([data_s, launch_s, checkpoint_s, other_s]) AS wait_s
    FROM step_sample
),

step AS (
    SELECT
        i.incident_id, w.evidence_kind, w.step,
        max(w.wait_s) FILTER (w.rank = i.rank) AS own_s,
        median(w.wait_s) FILTER (w.rank <> i.rank) AS peer_s,
        max(w.work_s) FILTER (w.rank = i.rank) AS own_work_s,
        max(w.pp_stage) FILTER (w.rank = i.rank) AS own_stage,
        w.pp_stage
    FROM suspect AS i
    JOIN wait AS w USING (cluster, job_id, attempt)
    WHERE w.ts BETWEEN i.start_ts AND i.end_ts
    GROUP BY i.incident_id, w.evidence_kind, w.step, w.pp_stage
),

compared AS (
    SELECT
        incident_id, evidence_kind,
        median(own_s) AS own_s,
        median(peer_s) AS peer_s,
        median(own_s - peer_s) AS excess_s,
        median(own_work_s) AS work_s,
        count(*) AS step_count
    FROM step
    WHERE own_s IS NOT NULL AND peer_s IS NOT NULL
    GROUP BY ALL
),

measured AS (
    SELECT
        *,
        excess_s / nullif(work_s * (1 - 1 / effect_ratio), 0) AS explained
    FROM compared
    JOIN suspect USING (incident_id)
),

asked AS (
    SELECT incident_id, day_ts,
        unnest(['host_data', 'host_launch', 'host_checkpoint', 'host_other']) AS evidence_kind
    FROM suspect
)

SELECT
    q.incident_id, q.day_ts, q.evidence_kind,
    if(
        explained >= getvariable('min_explained_ratio'),
        CASE q.evidence_kind
            WHEN 'host_data' THEN 'data_stall'
            WHEN 'host_checkpoint' THEN 'slow_checkpoint'
            ELSE q.evidence_kind
        END,
        NULL
    ) AS cause,
    step_count IS NOT NULL AS is_known,
    coalesce(explained >= getvariable('min_explained_ratio'), false) AS is_found,
    if(explained >= getvariable('min_explained_ratio'), least(1, explained), NULL) AS explained_ratio,
    if(
        step_count IS NULL, NULL,
        json_object('wait_s', round(own_s, 6), 'peer_wait_s', round(peer_s, 6),
                    'step_count', step_count)::VARCHAR
    ) AS figures
FROM asked AS q
LEFT JOIN measured AS m USING (incident_id, evidence_kind)
