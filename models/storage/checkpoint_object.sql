/*
doc = "Objects that make up checkpoints: what manifests state, and what listings and writes show by the layouts of Megatron, torch DCP, DeepSpeed, Orbax and Hugging Face."
grain = ["cluster", "bucket", "object_key", "version_id"]
window = "all"

[columns]
cluster = { type = "VARCHAR", doc = "cluster (or account)" }
bucket = { type = "VARCHAR", doc = "bucket, container or file system" }
object_key = { type = "VARCHAR", doc = "key" }
version_id = { type = "VARCHAR", doc = "version; '' where none is named" }
checkpoint = { type = "VARCHAR", doc = "the manifest's name, otherwise bucket and folder of the checkpoint" }
family = { type = "VARCHAR", doc = "the manifest's family, otherwise bucket and folder above the steps" }
sensitivity = { type = "VARCHAR", doc = "as the manifest states it; NULL where none does" }
role = { type = "VARCHAR", doc = "weights, index or other" }
layout = { type = "VARCHAR", doc = "hf_sharded, megatron, dcp, deepspeed, orbax, single or manifest (stated, and of no known layout)" }
step = { type = "BIGINT", doc = "training step in the folder's name; NULL: none" }
shard = { type = "BIGINT", doc = "number of the shard, or rank, in the name" }
shard_count = { type = "BIGINT", doc = "how many shards the name says there are", unit = "count" }
object_bytes = { type = "BIGINT", doc = "size: the manifest's, otherwise the listing's, otherwise the last write's", unit = "bytes" }
origin = { type = "VARCHAR", doc = "manifest, listing or write: the strongest that names it" }
written_ts = { type = "TIMESTAMP", doc = "last write that a log or a listing shows" }
principal = { type = "VARCHAR", doc = "who wrote it last, where a log shows" }
*/
WITH written AS (
    SELECT
        cluster, bucket, object_key,
        arg_max(version_id, last_ts) AS version_id,
        arg_max(object_bytes, last_ts) AS object_bytes,
        arg_max(principal, last_ts) AS principal,
        max(last_ts) AS written_ts
    FROM object_written_day
    GROUP BY ALL
),

listed AS (
    SELECT cluster, bucket, object_key, version_id, object_bytes, modified_ts
    FROM stored_object
    WHERE NOT coalesce(is_delete_marker, false)
),

known AS (
    SELECT
        cluster, bucket, object_key, version_id, object_bytes, checkpoint, family, sensitivity, role,
        'manifest' AS origin, 1 AS strength, NULL::TIMESTAMP AS written_ts, NULL AS principal
    FROM manifest_object
    -- One object may be stated in two manifests: the name first in the alphabet stays.
    QUALIFY row_number() OVER (PARTITION BY cluster, bucket, object_key, version_id ORDER BY checkpoint) = 1
    UNION ALL
    SELECT cluster, bucket, object_key, version_id, object_bytes, NULL, NULL, NULL, NULL, 'listing', 2, modified_ts, NULL
    FROM listed
    UNION ALL
    SELECT cluster, bucket, object_key, version_id, object_bytes, NULL, NULL, NULL, NULL, 'write', 3, written_ts, principal
    FROM written
),

strongest AS (
    SELECT * FROM known
    QUALIFY strength = min(strength) OVER (PARTITION BY cluster, bucket, object_key)
),

sizes AS (
    SELECT
        cluster, bucket, object_key,
        arg_min(object_bytes, strength) FILTER (object_bytes IS NOT NULL) AS known_bytes,
        max(written_ts) AS last_written_ts,
        any_value(principal) AS writer
    FROM known
    GROUP BY ALL
),

named AS (
    SELECT
        *,
        regexp_extract(object_key, '^(.*)/[^/]*$', 1) AS folder,
        lower(regexp_extract(object_key, '([^/]*)$', 1)) AS name
    FROM strongest
),

-- Paths of Megatron-LM and torch.distributed.checkpoint, DeepSpeed, Orbax (OCDBT and Zarr), transformers.
laid_out AS (
    SELECT
        *,
        CASE
            WHEN regexp_matches(object_key, '(?:^|/)iter_\d{7}/mp_rank_\d+(?:_\d+)*/[^/]+\.pt$') THEN 'megatron'
            WHEN regexp_matches(name, '^__\d+_\d+\.distcp$') OR name = '.metadata' THEN 'dcp'
            WHEN regexp_matches(object_key, '(?:^|/)global_step\d+/[^/]*(?:mp_rank|pp_rank|zero|layer)[^/]*\.pt$') THEN 'deepspeed'
            WHEN regexp_matches(name, '-\d{5}-of-\d{5}\.(?:safetensors|bin|pt|gguf)$') THEN 'hf_sharded'
            WHEN regexp_matches(object_key, '(?:^|/)ocdbt\.process_\d+/|(?:^|/)manifest\.ocdbt$|/d/[0-9a-f]{32}$|(?:^|/)(?:_METADATA|_CHECKPOINT_METADATA|commit_success\.txt)$') THEN 'orbax'
            WHEN regexp_matches(name, '\.(?:safetensors|gguf|ckpt|pth|pt|bin|h5|npz|nemo|distcp)$') OR regexp_matches(name, '\.index\.json$') THEN 'single'
        END AS found_layout
    FROM named
),

parsed AS (
    SELECT
        *,
        CASE found_layout
            WHEN 'megatron' THEN regexp_extract(object_key, '^(.*?iter_\d{7})/', 1)
            WHEN 'orbax' THEN coalesce(
                nullif(regexp_extract(object_key, '^(.*?(?:^|/)(?:checkpoint_|step_)?\d+)/', 1), ''), folder
            )
            ELSE folder
        END AS home,
        CASE
            WHEN regexp_matches(name, '\.index\.json$|^\.metadata$|^config\.json$|^manifest\.ocdbt$|^_.*metadata$') THEN 'index'
            WHEN found_layout IS NOT NULL AND name <> 'commit_success.txt' THEN 'weights'
            ELSE 'other'
        END AS found_role
    FROM laid_out
)

SELECT
    p.cluster, p.bucket, p.object_key, p.version_id,
    coalesce(p.checkpoint, rtrim(concat(p.bucket, '/', p.home), '/')) AS checkpoint,
    coalesce(
        p.family,
        rtrim(concat(p.bucket, '/', regexp_replace(
            p.home, '(?:^|/)(?:iter|step|global_step|checkpoint|epoch)?[_-]?\d+(?:/.*)?$', ''
        )), '/')
    ) AS family,
    p.sensitivity,
    coalesce(p.role, p.found_role) AS role,
    coalesce(p.found_layout, 'manifest') AS layout,
    try_cast(nullif(regexp_extract(p.home, '(?:^|/)(?:iter|step|global_step|checkpoint|epoch)?[_-]?(\d{1,18})$', 1), '') AS BIGINT) AS step,
    try_cast(nullif(coalesce(
        nullif(regexp_extract(p.name, '-(\d{5})-of-\d{5}\.', 1), ''),
        nullif(regexp_extract(p.name, '^__(\d+)_\d+\.distcp$', 1), ''),
        nullif(regexp_extract(p.object_key, '/mp_rank_(\d+)', 1), ''),
        regexp_extract(p.object_key, 'ocdbt\.process_(\d+)', 1)
    ), '') AS BIGINT) AS shard,
    try_cast(nullif(regexp_extract(p.name, '-\d{5}-of-(\d{5})\.', 1), '') AS BIGINT) AS shard_count,
    coalesce(p.object_bytes, s.known_bytes) AS object_bytes,
    p.origin,
    s.last_written_ts AS written_ts,
    s.writer AS principal
FROM parsed p
JOIN sizes s ON p.cluster = s.cluster AND p.bucket = s.bucket AND p.object_key = s.object_key
WHERE p.found_layout IS NOT NULL OR p.origin = 'manifest'
