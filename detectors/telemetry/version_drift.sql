/*
title = "One job runs on differing driver, firmware or library versions"
domain = "performance"
kind = "version_drift"
severity = "low"
reviewed = "2026-11-30"
window = "all"
one_of = ["gpu_identity", "collective", "gpu_event"]
optional = ["job_attempt"]

flags = """
A running attempt whose nodes, GPUs of one model, or ranks are not of one version of the driver, GSP
firmware, VBIOS, InfoROM or communication library. One finding per attempt and component, from the first
day on which it is known; medium for the communication library. `score` is the share of its members whose
version is known. `lower` is the number of members known to be odd.
"""
why = """
A half-finished upgrade or a swapped board makes a few GPUs of a job behave unlike the rest: other clock
and power tables, other bugs, at worst another numerical result. It explains what no sensor shows.
"""
looks_like = """
A rolling upgrade in progress: jobs that span the line between old and new. A mixed fleet: models are
compared apart for VBIOS and InfoROM, but a driver that differs by model on purpose is flagged.
"""
misses = """
Members whose version nobody read: see coverage. Versions of user software (CUDA, frameworks, containers),
NIC firmware and BIOS. On shared nodes, GPUs of other jobs count too.
"""
todo = """
Finish the upgrade on `node`, or keep the odd ones out of this job's partition. If the job was slow or
failed, compare the odd members' step times and errors with the rest first.
"""
*/
SELECT
    concat_ws('/', cluster, job_id, attempt, component, gpu_model) AS subject,
    arg_min(coalesce(coverage_ratio, 1), day_ts) AS score,
    if(component = 'comm_lib', 'medium', 'low') AS severity,
    min(known_ts) AS start_ts,
    max(known_ts) AS end_ts,
    min(known_ts) AS detected_at,
    [cluster] AS cluster,
    arg_max(odd_nodes, day_ts) AS node,
    arg_max(odd_gpu_uuids, day_ts) AS gpu_uuid,
    [job_id] AS job_id,
    arg_max(member_count - member_counts[1], day_ts)::DOUBLE AS lower,
    arg_max(coalesce(expected_count, member_count) - member_counts[1], day_ts)::DOUBLE AS upper,
    json_object(
        'quantity', 'members not of the usual version',
        'component', component,
        'gpu_model', nullif(gpu_model, ''),
        'versions', arg_max(versions, day_ts),
        'member_counts', arg_max(member_counts, day_ts),
        'odd_members', arg_max(odd_members, day_ts),
        'coverage_ratio', round(arg_max(coverage_ratio, day_ts), 4),
        'days', count(*)
    )::VARCHAR AS evidence
FROM job_version_day
WHERE is_drift
GROUP BY cluster, job_id, attempt, component, gpu_model
