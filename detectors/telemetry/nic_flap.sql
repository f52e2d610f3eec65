/*
title = "A network link flaps"
domain = "performance"
kind = "slow_nic"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A network interface that within 12 hours went down for 25 seconds or more and came up again three times
(gpud), or lost its link five times within 24 hours (azurehpc-health-checks). `high` when it is down at the
end of the day.
"""
why = """
Every loss stalls the collectives that use the port until they time out or move to another; jobs fail or
crawl, and the log of the job says only that a peer did not answer.
"""
looks_like = """
A reboot or a driver reload takes links down on purpose: what lies between a loss and a boot is not counted.
Work on a switch takes many nodes' links down at once: look for findings at the same time behind one leaf
switch.
"""
misses = """
A link that goes down once and stays down. Links that are up and lose packets or run at a lower rate: kernel
logs do not say so. Nodes whose kernel log is not collected. Maintenance that reloads the network driver
without a boot.
"""
todo = """
Compare with the switch's own log of that port; clean or swap the cable or transceiver first, then the port,
then the card. Take the node out until it has been quiet for a day.
"""
*/
SELECT
    concat_ws('/', cluster, node, device, day_ts::DATE) AS subject,
    1 - 1 / greatest(2, most_down_24h_count, most_cycle_12h_count) AS score,
    if(is_down_at_end, 'high', 'medium') AS severity,
    coalesce(first_down_ts, flapping_ts) AS start_ts,
    last_event_ts AS end_ts,
    flapping_ts AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    most_down_24h_count AS lower,
    most_down_24h_count AS upper,
    json_object(
        'quantity', 'losses of the link within 24 h',
        'device', device,
        'most_down_24h_count', most_down_24h_count,
        'most_cycle_12h_count', most_cycle_12h_count,
        'down_count', down_count,
        'down_s', round(down_s, 1),
        'is_down_at_end', is_down_at_end
    )::VARCHAR AS evidence
FROM nic_link_day
WHERE flapping_ts IS NOT NULL
