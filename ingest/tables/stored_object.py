"""stored_object: what lies in a bucket or a directory, from listings and inventories."""

from fleetmark.table import Column, Table

STORED_OBJECT = Table(
    name="stored_object",
    doc="Objects as listings, inventories and index files name them, one row per object version. "
    "Which of them belong to a checkpoint says checkpoint_object.",
    grain=("cluster", "bucket", "object_key", "version_id"),
    latest=("listed_ts", "modified_ts"),
    sort=("bucket", "object_key"),
    columns=(
        Column("cluster", "VARCHAR", "cluster (or account) the listing belongs to"),
        Column("source", "VARCHAR", "format it was read from: object_listing, ...", null=False),
        Column("bucket", "VARCHAR", "bucket, container or file system"),
        Column("object_key", "VARCHAR", "key or path, not encoded"),
        Column("version_id", "VARCHAR", "version; '' where the listing names none"),
        Column("object_bytes", "BIGINT", "size; NULL: the listing does not tell", "bytes"),
        Column("etag", "VARCHAR", "the store's hash of the object"),
        Column("storage_class", "VARCHAR", "storage class or tier, as the store names it"),
        Column("is_latest", "BOOLEAN", "the current version; NULL: not told"),
        Column("is_delete_marker", "BOOLEAN", "a delete marker, not an object"),
        Column("encryption", "VARCHAR", "how it is encrypted, as the inventory says"),
        Column("replication_status", "VARCHAR", "as the inventory says"),
        Column("modified_ts", "TIMESTAMP", "when the object was last written"),
        Column("listed_ts", "TIMESTAMP", "when the listing was made, where it tells"),
    ),
)
