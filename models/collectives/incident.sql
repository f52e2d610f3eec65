/*
doc = "Ranks and nodes that a verdict accuses (step_straggler, link_suspect, hang_rank, comm_stall), one row per accusation and node, with the time to look for causes in. Causes are looked for where the accused ran; where rank_identity or gpu_place says which GPU a rank held, that is filled in."
grain = ["incident_id"]
time = "day_ts"
sort = ["cluster", "node"]

[columns]
incident_id = { type = "VARCHAR", doc = "kind, cluster, job and attempt, who is accused, day" }
cluster = { type = "VARCHAR", doc = "cluster", null = false }
day_ts = { type = "TIMESTAMP", doc = "UTC day of the verdict: that on which it began, or, of a standstill seen by a monitor, on which it was first certain" }
kind = { type = "VARCHAR", doc = "straggler, slow_link or hang", null = false }
job_id = { type = "VARCHAR", doc = "the job, if it is one" }
attempt = { type = "BIGINT", doc = "its attempt, where the records say" }
accused = { type = "VARCHAR", doc = "who, in the words of the verdict: `rank N`, node/pid, or scope, kind and name of an element of the network", null = false }
rank = { type = "INTEGER", doc = "global rank" }
node = { type = "VARCHAR", doc = "node; NULL where nobody says" }
gpu_uuid = { type = "VARCHAR", doc = "GPU; NULL where nobody says, or a whole node is accused" }
start_ts = { type = "TIMESTAMP", doc = "start of the slow steps, transfers, or standstill", null = false }
end_ts = { type = "TIMESTAMP", doc = "end, at most that of the day", null = false }
is_timed = { type = "BOOLEAN", doc = "its times are clock times: false for records of which only order and lengths hold; no other record can be laid beside them", null = false }
effect_ratio = { type = "DOUBLE", doc = "how much longer than the peers' its work takes; NULL for hangs" }
detail = { type = "VARCHAR", doc = "straggler: what it was compared with; slow_link: scope and element; hang: hang_rank.cause" }
*/
WITH place AS (
    SELECT
        m.cluster, job_id, attempt, rank,
        if(min(m.node) = max(m.node), min(m.node), NULL) AS node,
        if(
            min(coalesce(m.gpu_uuid, p.gpu_uuid)) = max(coalesce(m.gpu_uuid, p.gpu_uuid)),
            min(coalesce(m.gpu_uuid, p.gpu_uuid)),
            NULL
        ) AS gpu_uuid
    FROM rank_identity AS m
    -- It writes PCI domains with four digits, gpu_place with eight.
    LEFT JOIN gpu_place AS p
        ON m.cluster = p.cluster AND m.node = p.node AND m.pci_bus_id = substr(p.pci_bus_id, 5)
    WHERE rank IS NOT NULL
    GROUP BY ALL
),

straggler AS (
    SELECT
        'straggler' AS kind, s.day_ts, s.cluster, s.job_id, s.attempt, s.rank,
        coalesce(s.node, p.node) AS node,
        coalesce(s.gpu_uuid, p.gpu_uuid) AS gpu_uuid,
        coalesce(slow_start_ts, start_ts) AS start_ts,
        coalesce(slow_end_ts, end_ts) AS end_ts,
        time_basis <> 'relative' AS is_timed,
        ratio AS effect_ratio,
        basis AS detail,
        'rank ' || s.rank AS accused
    FROM step_straggler AS s
    LEFT JOIN place AS p USING (cluster, job_id, attempt, rank)
    WHERE verdict = 'slow'
),

slow_link AS (
    SELECT
        'slow_link' AS kind, day_ts, cluster,
        if(len(job_id) = 1, job_id[1], NULL) AS job_id,
        NULL::BIGINT AS attempt,
        rank,
        unnest(if(len(node) = 0, [NULL], node)) AS node,
        gpu_uuid,
        first_ts AS start_ts, last_ts AS end_ts,
        true AS is_timed,
        1 / ratio AS effect_ratio,
        concat_ws(' ', scope, element_kind) AS detail,
        concat_ws(' ', scope, element_kind, element) AS accused
    FROM link_suspect
),

hang AS (
    SELECT
        'hang' AS kind, date_trunc('day', start_ts) AS day_ts, h.cluster, h.job_id, h.attempt, h.rank, p.node, p.gpu_uuid,
        start_ts, evidence_ts AS end_ts, true AS is_timed, NULL::DOUBLE AS effect_ratio,
        cause AS detail, 'rank ' || h.rank AS accused
    FROM hang_rank AS h
    LEFT JOIN place AS p USING (cluster, job_id, attempt, rank)
    WHERE verdict = 'culprit' AND cause <> 'collective_mismatch' AND start_ts IS NOT NULL
    UNION ALL
    SELECT
        'hang', date_trunc('day', ts), cluster, job_id, attempt, rank, node, gpu_uuid, since_ts, ts, true, NULL, cause,
        process
    FROM comm_stall
    WHERE verdict = 'culprit'
),

verdict AS (
    SELECT * FROM straggler
    UNION ALL SELECT * FROM slow_link
    UNION ALL SELECT * FROM hang
)

SELECT
    concat_ws('/', kind, cluster, job_id, attempt, accused,
              if(kind = 'slow_link', node, NULL),
              if(kind = 'hang', start_ts::VARCHAR, start_ts::DATE::VARCHAR)) AS incident_id,
    cluster,
    day_ts,
    kind, job_id, attempt, accused, rank, node, gpu_uuid, start_ts,
    least(
        greatest(start_ts, end_ts),
        day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND
    ) AS end_ts,
    is_timed, effect_ratio, detail
FROM verdict
