/*
doc = """
What most likely made a rank slow, a link slow, or a job stand still: one row per incident, with all
evidence in order of strength, what was looked at and found well, and what nobody recorded.

strength = directness times explained_ratio. Directness is a fixed number per kind of incident and
evidence (the table `directness` in the query): 0.9 and more for what was measured or reported of the very
GPU, host or NIC and brings about just this; 0.4 to 0.8 for faults that may; less for what merely was so.
The strongest is the cause if it reaches min_strength. Where none does, the verdict is no_evidence_found,
and unknown if less than min_coverage_ratio of it was recorded: what is unknown is not healthy.
"""
grain = ["incident_id"]
time = "day_ts"
sort = ["cluster", "job_id", "rank"]

[columns]
incident_id = { type = "VARCHAR", doc = "incident.incident_id" }
cluster = { type = "VARCHAR", doc = "cluster", null = false }
day_ts = { type = "TIMESTAMP", doc = "incident.day_ts" }
kind = { type = "VARCHAR", doc = "straggler, slow_link or hang", null = false }
job_id = { type = "VARCHAR", doc = "the job, if it is one" }
attempt = { type = "BIGINT", doc = "its attempt, where the records say" }
accused = { type = "VARCHAR", doc = "who: incident.accused", null = false }
rank = { type = "INTEGER", doc = "global rank accused" }
node = { type = "VARCHAR", doc = "node accused" }
gpu_uuid = { type = "VARCHAR", doc = "GPU accused" }
start_ts = { type = "TIMESTAMP", doc = "start of the incident", null = false }
end_ts = { type = "TIMESTAMP", doc = "its end", null = false }
effect_ratio = { type = "DOUBLE", doc = "how much longer than the peers' its work takes; NULL for hangs", unit = "ratio" }
verdict = { type = "VARCHAR", doc = "found, no_evidence_found or unknown", null = false }
cause = { type = "VARCHAR", doc = "the strongest, in the words of finding.kind; NULL unless found" }
evidence_kind = { type = "VARCHAR", doc = "what it rests on; NULL unless found" }
strength = { type = "DOUBLE", doc = "of the cause, 0 to 1; NULL unless found", unit = "ratio" }
other_causes = { type = "VARCHAR[]", doc = "other causes that evidence points to, strongest first", null = false }
unknown_kinds = { type = "VARCHAR[]", doc = "kinds of evidence of which nothing was recorded", null = false }
coverage_ratio = { type = "DOUBLE", doc = "kinds of evidence that were recorded, of those asked for", unit = "ratio" }
evidence = { type = "VARCHAR", doc = "JSON list of all recorded evidence, strongest first", null = false }
summary = { type = "VARCHAR", doc = "the same in a sentence", null = false }

[params.min_strength]
default = 0.3
doc = "strength that makes a cause; a node shared with another job alone stays below. Own choice."

[params.min_coverage_ratio]
default = 0.5
doc = "ratio of the kinds of evidence asked for; with fewer recorded, finding nothing says nothing. Own choice."
*/
WITH directness AS (
    FROM (VALUES
        ('straggler', 'throttle', 0.95), ('straggler', 'power_limit', 0.92),
        ('straggler', 'host_data', 0.9),
        ('straggler', 'host_launch', 0.9), ('straggler', 'host_checkpoint', 0.9),
        ('straggler', 'deviation', 0.9), ('straggler', 'clock', 0.85),
        ('straggler', 'gpu_event', 0.8),
        ('straggler', 'gpu_memory', 0.6), ('straggler', 'gpu_link', 0.6),
        ('straggler', 'host_other', 0.6), ('straggler', 'whole_node', 0.5),
        ('straggler', 'network', 0.35), ('straggler', 'transport', 0.3),
        ('straggler', 'shared_node', 0.25),
        ('slow_link', 'transport', 0.95), ('slow_link', 'network', 0.9),
        ('slow_link', 'gpu_link', 0.9), ('slow_link', 'gpu_event', 0.8),
        ('slow_link', 'shared_node', 0.25), ('slow_link', 'throttle', 0.3),
        ('slow_link', 'clock', 0.2), ('slow_link', 'deviation', 0.2),
        ('slow_link', 'gpu_memory', 0.2), ('slow_link', 'power_limit', 0.2),
        ('hang', 'gpu_event', 1.0), ('hang', 'telemetry_loss', 0.9),
        ('hang', 'transport', 0.6), ('hang', 'network', 0.6), ('hang', 'gpu_memory', 0.6),
        ('hang', 'gpu_link', 0.5), ('hang', 'throttle', 0.2), ('hang', 'clock', 0.1),
        ('hang', 'deviation', 0.1), ('hang', 'power_limit', 0.1),
        ('hang', 'shared_node', 0.2)
    ) AS t(kind, evidence_kind, directness)
),

piece AS (
    SELECT incident_id, evidence_kind, cause, is_known, is_found, explained_ratio, figures,
        true AS is_own_gpu
    FROM cause_evidence_gpu
    UNION ALL
    SELECT incident_id, evidence_kind, cause, is_known, is_found, explained_ratio, figures, true
    FROM cause_evidence_host
    UNION ALL
    SELECT incident_id, evidence_kind, cause, is_known, is_found, explained_ratio, figures,
        coalesce(is_own_gpu, false)
    FROM cause_evidence_node
),

weighed AS (
    SELECT
        p.*,
        -- A fault of the node's of which no GPU is named is half as likely to be this one's.
        if(
            is_found,
            directness::DOUBLE * explained_ratio
                * if(evidence_kind = 'gpu_event' AND NOT is_own_gpu AND i.gpu_uuid IS NOT NULL, 0.6, 1),
            NULL
        ) AS strength
    FROM piece AS p
    JOIN incident AS i USING (incident_id)
    JOIN directness USING (kind, evidence_kind)
),

gathered AS (
    SELECT
        incident_id,
        list({'cause': cause, 'kind': evidence_kind, 'strength': strength}
            ORDER BY strength DESC, evidence_kind) FILTER (is_found) AS found,
        list(evidence_kind ORDER BY evidence_kind) FILTER (NOT is_known) AS unknown_kinds,
        count(*) FILTER (is_known) / count(*) AS coverage_ratio,
        to_json(list(
            {'evidence': evidence_kind, 'cause': cause, 'strength': round(strength, 4),
             'explained_ratio': round(explained_ratio, 4), 'figures': figures::JSON}
            ORDER BY strength DESC NULLS LAST, evidence_kind
        ) FILTER (is_known))::VARCHAR AS evidence
    FROM weighed
    GROUP BY incident_id
),

concluded AS (
    SELECT
        *,
        CASE
            WHEN found[1].strength >= getvariable('min_strength') THEN 'found'
            WHEN coverage_ratio >= getvariable('min_coverage_ratio') THEN 'no_evidence_found'
            ELSE 'unknown'
        END AS verdict,
        verdict = 'found' AS is_found,
        list_transform(coalesce(found, []), lambda f: f.cause) AS causes
    FROM gathered
)

SELECT
    incident_id, cluster, day_ts, kind, job_id, attempt, accused, rank, node, gpu_uuid, start_ts,
    end_ts, effect_ratio, verdict,
    if(is_found, found[1].cause, NULL) AS cause,
    if(is_found, found[1].kind, NULL) AS evidence_kind,
    if(is_found, round(found[1].strength, 6), NULL)::DOUBLE AS strength,
    list_filter(
        causes, lambda c, n: list_position(causes, c) = n AND c IS DISTINCT FROM if(is_found, causes[1], NULL)
    ) AS other_causes,
    coalesce(unknown_kinds, []) AS unknown_kinds,
    coverage_ratio,
    coalesce(evidence, '[]') AS evidence,
    CASE verdict
        WHEN 'found' THEN format('{} ({}, strength {:.2f})', found[1].cause, found[1].kind,
                                 found[1].strength::DOUBLE)
        WHEN 'no_evidence_found' THEN 'no evidence found'
        ELSE 'unknown'
    END
    || if(len(unknown_kinds) > 0,
          '; not recorded: ' || array_to_string(unknown_kinds, ', '), '') AS summary
FROM concluded
JOIN incident USING (incident_id)
