/*
doc = """
What each replica of an inference server produced per hour, and how much of it within the latency objective, as bounds:
histograms tell only how many requests lie below the bucket under the objective and the one over it, and not whether the
same requests met both objectives. Tokens are shared out as if requests within and beyond the objective generated equally
many. An increase counts in the hour in which it was seen.
"""
grain = ["cluster", "replica", "model", "hour_ts"]
time = "hour_ts"
lookback = "1d"
sort = ["replica", "model", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
replica = { type = "VARCHAR", doc = "one running server, as in serving_sample" }
model = { type = "VARCHAR", doc = "model it serves; of a server with several models each has a row, and its GPUs stand in each" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
server = { type = "VARCHAR", doc = "vllm, sglang, tgi or triton", null = false }
gpu_count = { type = "BIGINT", doc = "GPUs of the replica; NULL: not stated, and there is no figure per GPU", unit = "count" }
observed_s = { type = "DOUBLE", doc = "time between samples no more than max_gap_s apart", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "observed_s by the hour", unit = "ratio" }
request_count = { type = "BIGINT", doc = "requests finished", unit = "count" }
prompt_token_count = { type = "BIGINT", doc = "tokens of prompts", unit = "count" }
generation_token_count = { type = "BIGINT", doc = "tokens generated", unit = "count" }
ttft_within_lower_ratio = { type = "DOUBLE", doc = "share of requests whose first token came within ttft_s, at least; NULL: not exported, or no request", unit = "ratio" }
ttft_within_upper_ratio = { type = "DOUBLE", doc = "the same at most", unit = "ratio" }
tpot_within_lower_ratio = { type = "DOUBLE", doc = "share of requests with at most tpot_s per further token, at least (of servers that count per token: of tokens)", unit = "ratio" }
tpot_within_upper_ratio = { type = "DOUBLE", doc = "the same at most", unit = "ratio" }
within_lower_ratio = { type = "DOUBLE", doc = "share within both objectives, at least: what both shares must have in common; 0 where one is not known; NULL: neither is", unit = "ratio" }
within_upper_ratio = { type = "DOUBLE", doc = "the same at most: the smaller of the shares that are known", unit = "ratio" }
goodput_lower_tokens_per_gpu_s = { type = "DOUBLE", doc = "generated tokens within the objective per GPU-second observed, at least", unit = "1/s" }
goodput_upper_tokens_per_gpu_s = { type = "DOUBLE", doc = "the same at most", unit = "1/s" }
tokens_per_gpu_s = { type = "DOUBLE", doc = "generated tokens per GPU-second observed, objective or not", unit = "1/s" }
start_count = { type = "BIGINT", doc = "servers that began in the hour, by server_start_ts; NULL: not exported", unit = "count" }
startup_s = { type = "DOUBLE", doc = "longest time from start to ready that such a server states", unit = "s" }
weight_load_s = { type = "DOUBLE", doc = "of that loading weights", unit = "s" }

[params.ttft_s]
default = 2.0
doc = "s; objective for the time to the first token. MLPerf Inference asks 2 s of Llama 2 70B in the server scenario."
[params.tpot_s]
default = 0.2
doc = "s; objective for the time per further token. MLPerf Inference asks 200 ms of Llama 2 70B in the server scenario."
[params.max_gap_s]
default = 300
doc = "s; between samples further apart nothing is counted. Five times Prometheus' default interval of one minute."
*/
WITH placed AS (
    SELECT
        *,
        date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
        epoch(ts - lag(ts) OVER who) AS gap_s,
        lag(COLUMNS('^(request|prompt_token|generation_token)_count$')) OVER who AS 'before_\0'
    FROM serving_sample
    WINDOW who AS (PARTITION BY cluster, replica, model ORDER BY ts)
),
step AS (
    -- A counter that fell began again at 0.
    SELECT
        * EXCLUDE (request_count, prompt_token_count, generation_token_count),
        request_count - if(request_count < before_request_count, 0, before_request_count) AS requests,
        prompt_token_count - if(prompt_token_count < before_prompt_token_count, 0, before_prompt_token_count) AS prompt_tokens,
        generation_token_count - if(generation_token_count < before_generation_token_count, 0, before_generation_token_count)
            AS generation_tokens,
        coalesce(gap_s <= getvariable('max_gap_s'), false) AS is_observed
    FROM placed
),
produced AS (
    SELECT
        cluster, replica, model, hour_ts,
        arg_max(server, ts) AS server,
        max(gpu_count) AS gpu_count,
        coalesce(sum(gap_s) FILTER (is_observed), 0)::DOUBLE AS observed_s,
        (sum(requests) FILTER (is_observed))::BIGINT AS request_count,
        (sum(prompt_tokens) FILTER (is_observed))::BIGINT AS prompt_token_count,
        (sum(generation_tokens) FILTER (is_observed))::BIGINT AS generation_token_count,
        if(count(server_start_ts) > 0,
            count(DISTINCT server_start_ts) FILTER (date_trunc('hour', server_start_ts) = hour_ts), NULL) AS start_count,
        max(startup_s) AS startup_s,
        max(weight_load_s) AS weight_load_s
    FROM step
    GROUP BY ALL
),
bucket AS (
    SELECT
        cluster, replica, model, quantity, le_s,
        date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
        if(quantity = 'ttft', getvariable('ttft_s'), getvariable('tpot_s')) AS objective_s,
        within_count - if(total_count < lag(total_count) OVER who, 0, lag(within_count) OVER who) AS within,
        total_count - if(total_count < lag(total_count) OVER who, 0, lag(total_count) OVER who) AS total,
        epoch(ts - lag(ts) OVER who) <= getvariable('max_gap_s') AS is_observed
    FROM serving_latency
    WHERE quantity IN ('ttft', 'tpot')
    WINDOW who AS (PARTITION BY cluster, replica, model, quantity, le_s ORDER BY ts)
),
summed AS (
    SELECT
        cluster, replica, model, hour_ts, quantity, le_s, any_value(objective_s) AS objective_s,
        sum(within) AS within, sum(total) AS total
    FROM bucket
    WHERE is_observed
    GROUP BY cluster, replica, model, hour_ts, quantity, le_s
),
share AS (
    -- Below the lowest bucket nothing is known to lie, above the highest everything may.
    SELECT
        cluster, replica, model, hour_ts, quantity,
        coalesce(arg_max(within, le_s) FILTER (le_s <= objective_s), 0) / nullif(max(total), 0) AS lower_ratio,
        coalesce(arg_min(within, le_s) FILTER (le_s >= objective_s), max(total)) / nullif(max(total), 0) AS upper_ratio
    FROM summed
    GROUP BY ALL
),
objective AS (
    SELECT
        cluster, replica, model, hour_ts,
        max(lower_ratio) FILTER (quantity = 'ttft') AS ttft_within_lower_ratio,
        max(upper_ratio) FILTER (quantity = 'ttft') AS ttft_within_upper_ratio,
        max(lower_ratio) FILTER (quantity = 'tpot') AS tpot_within_lower_ratio,
        max(upper_ratio) FILTER (quantity = 'tpot') AS tpot_within_upper_ratio
    FROM share
    GROUP BY ALL
),
judged AS (
    SELECT
        *,
        if(ttft_within_upper_ratio IS NULL AND tpot_within_upper_ratio IS NULL, NULL,
            greatest(0, coalesce(ttft_within_lower_ratio, 0) + coalesce(tpot_within_lower_ratio, 0) - 1)) AS within_lower_ratio,
        least(ttft_within_upper_ratio, tpot_within_upper_ratio) AS within_upper_ratio,
        generation_token_count / nullif(gpu_count * observed_s, 0) AS tokens_per_gpu_s
    FROM produced
    LEFT JOIN objective USING (cluster, replica, model, hour_ts)
)
SELECT
    *,
    least(1, observed_s / 3600) AS coverage_ratio,
    tokens_per_gpu_s * within_lower_ratio AS goodput_lower_tokens_per_gpu_s,
    tokens_per_gpu_s * within_upper_ratio AS goodput_upper_tokens_per_gpu_s
FROM judged
