/*
title = "The same nodes move data slower than in the two weeks before"
domain = "performance"
kind = "busbw_regression"
severity = "medium"
reviewed = "2026-11-30"

flags = """
Nodes whose median bus bandwidth of a day, for one function, size and number of ranks, is below 0.9 of
their own median of the 14 days before and more than three robust spreads below it. Kind
`busbw_regression` when other nodes of the same shape kept theirs, or too few are there to compare;
`code_change` when most fell alike: then one finding stands for all of the cluster, function and day.
"""
why = """
Bandwidth erodes in silence: a driver, firmware or library update, a cable that fell back to half
width, a fabric that filled up. Each job only notices that it is slower than the owner remembers.
"""
looks_like = """
Another algorithm or protocol chosen by a new version (both lists are in the evidence). A new tenant on
the same switches. A change of the job's placement shows as another node set, hence as no history.
"""
misses = """
Slow from the first day on: there is no better history (see slow_link). Node sets seen on fewer than
three days. A decline of less than 10 % in 14 days, however long it goes on.
"""
todo = """
Compare library, driver and firmware versions and NCCL settings of that day and before. For one node set
alone: nccl-tests on these nodes against the stored baseline (collective_bench), then link state and
error counters. For all: the change log of fabric and images.
"""
*/
WITH regressed AS (
    SELECT
        *,
        verdict = 'regressed_everywhere' AS is_everywhere,
        if(is_everywhere, function || ' everywhere', node_set) AS who
    FROM busbw_change
    WHERE starts_with(verdict, 'regressed')
)

SELECT
    concat_ws('/', cluster, who, day_ts::DATE) AS subject,
    1 - min(ratio) AS score,
    if(is_everywhere, 'code_change', 'busbw_regression') AS kind,
    min(first_ts) AS start_ts,
    max(last_ts) AS end_ts,
    max(last_ts) AS detected_at,
    [cluster] AS cluster,
    list_sort(list_distinct(flatten(list(nodes)))) AS node,
    list_sort(list_distinct(flatten(list(job_id)))) AS job_id,
    min(ratio) AS lower,
    max(ratio) AS upper,
    json_object(
        'quantity', 'bus bandwidth of the day over the median of the 14 days before',
        'ratio', round(median(ratio), 4),
        'peer_ratio', round(median(peer_ratio), 4),
        'peers_known', bool_and(verdict <> 'regressed_alone_unknown'),
        'shapes', to_json(list(
            {'function': function, 'size_bytes': size_bytes, 'n_ranks': n_ranks,
             'ratio': round(ratio, 4), 'busbw_gb_per_s': round(busbw_bytes_per_s / 1e9, 3),
             'usual_busbw_gb_per_s': round(usual_busbw_bytes_per_s / 1e9, 3),
             'history_day_count': history_day_count, 'algorithm': algorithm,
             'usual_algorithm': usual_algorithm}
            ORDER BY ratio, function, size_bytes, n_ranks, node_set
        )[:10]),
        'shape_count', count(*)
    )::VARCHAR AS evidence
FROM regressed
GROUP BY cluster, day_ts, who, is_everywhere
