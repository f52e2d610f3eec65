"""manifest_object: the objects that make up a checkpoint, the denominator of every coverage."""

from fleetmark.table import Column, Table

MANIFEST_OBJECT = Table(
    name="manifest_object",
    doc="Objects of checkpoints: what a complete copy of one consists of, and its bytes.",
    grain=("cluster", "checkpoint", "bucket", "object_key", "version_id"),
    latest=("updated_ts",),
    sort=("checkpoint", "object_key"),
    columns=(
        Column("cluster", "VARCHAR", "cluster (or account) the manifest belongs to"),
        Column("checkpoint", "VARCHAR", "the checkpoint, as people call it"),
        Column("bucket", "VARCHAR", "bucket or container of the object"),
        Column("object_key", "VARCHAR", "key, not encoded"),
        Column("version_id", "VARCHAR", "version of the object; '' where the manifest names none"),
        Column("object_bytes", "BIGINT", "size of the object; NULL: unknown", "bytes"),
        Column("etag", "VARCHAR", "the store's hash of the object"),
        Column("role", "VARCHAR", "weights, index or other", null=False),
        Column("family", "VARCHAR", "model family: exports and quantisations share their parent's"),
        Column("sensitivity", "VARCHAR", "how secret the checkpoint is, in the owner's words"),
        Column("updated_ts", "TIMESTAMP", "when the entry was last true; the latest one stays"),
    ),
)
