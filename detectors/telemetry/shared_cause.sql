/*
title = "Power, cooling or a switch troubles many nodes at once"
domain = "performance"
kind = "shared_cause"
severity = "high"
reviewed = "2026-11-30"
one_of = ["gpu_event", "gpu_sample"]
optional = ["gpu_identity", "job_attempt"]

flags = """
A rack in which half the nodes and at least three were slowed as a whole, by heat or the power brake, for
most of ten minutes, or had hardware errors, in one hour; a leaf switch, half of whose nodes and at least
three lost a link in one hour. One finding per place, cause and day. What one chassis has alone is told by
power_brake and thermal_throttle.
"""
why = """
Nodes of a rack that brake together are not that many sick nodes: the fault is the feed, the cooling loop or
the switch. Counting it once, at its place, gets the right people to the right part, and keeps good GPUs in
service.
"""
looks_like = """
A load test of a whole rack; a facility that pulls the brake to shed load; maintenance of a switch or a reboot of a rack, which
takes every link down once.
"""
misses = """
What the inventory does not place in a rack or at a switch. Causes that move from node to node over hours.
Heat that slows no GPU yet. Hosts, pumps and feeds themselves: only their effect on GPUs and links is seen.
"""
todo = """
Look at the place first: supply, cooling, switch. Do not drain or return the GPUs for it; node_health
ranks what is left once the place is well again.
"""
*/
WITH place_day AS (
    SELECT
        cluster, level, place, cause, shared_ts::DATE AS day,
        min(start_ts) AS start_ts, max(end_ts) AS end_ts, min(shared_ts) AS shared_ts,
        count(*) AS hour_count,
        list_sort(list_distinct(flatten(list(nodes)))) AS nodes,
        arg_max(common_cause, (node_count, gpu_count, hour_ts)) AS widest
    FROM common_cause
    WHERE level != 'chassis' AND (is_sustained OR cause IN ('link_down', 'gpu_errors'))
    GROUP BY ALL
)
SELECT
    concat_ws('/', cluster, level, place, cause, day) AS subject,
    least(1.0, widest.node_count / widest.node_expected_count::DOUBLE) AS score,
    start_ts,
    end_ts,
    shared_ts AS detected_at,
    [cluster] AS cluster,
    nodes AS node,
    json_object(
        'level', level,
        'place', place,
        'cause', cause,
        'hours', hour_count,
        'nodes', widest.node_count,
        'nodes_there', widest.node_expected_count,
        'gpus', widest.gpu_count
    )::VARCHAR AS evidence
FROM place_day
