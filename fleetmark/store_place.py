"""Where a store keeps its catalog and its data files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from fleetmark.table import literal

SQLITE = "catalog.sqlite"
POSTGRES = "postgres:"


@dataclass(frozen=True, slots=True)
class Place:
    """What is empty lies in the store's own folder: the catalog as a SQLite file, the data below `data/`.

    catalog    postgres:KEY=VALUE …, as libpq reads it, without the password
    data       another folder, the same on every machine that opens the store, or s3://BUCKET/PREFIX
    endpoint   address of an S3-compatible store; empty for Amazon's
    """

    catalog: str = ""
    password: str = field(default="", repr=False)
    data: str = ""
    endpoint: str = ""
    region: str = "us-east-1"
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)

    @property
    def remote(self) -> bool:
        """The data files are objects: no path of this machine leads to them."""
        return self.data.startswith("s3://")

    def name(self, root: Path) -> str:
        """What messages call the store."""
        return self.catalog or str(root)

    def data_path(self, root: Path) -> str:
        """What the paths of data files in the catalog are relative to; ends with a slash."""
        if self.remote:
            return self.data.rstrip("/") + "/"
        return str(Path(self.data or root / "data").resolve()) + "/"

    def folder(self, root: Path) -> Path:
        """Where processes of this machine find the data files, or copies of those that are objects."""
        return root.resolve() / "tmp" / "objects" if self.remote else Path(self.data_path(root))

    def extensions(self) -> tuple[str, ...]:
        """What DuckDB needs to open it."""
        catalog = "postgres_scanner" if self.catalog else "sqlite_scanner"
        return ("ducklake", catalog, *(["httpfs"] if self.remote else []))

    def secrets(self) -> list[str]:
        """Statements that give a connection what must not stand in a path, which errors repeat."""
        made = []
        if self.catalog:
            word = f", PASSWORD {literal(self.password)}" if self.password else ""
            made.append(f"CREATE SECRET fleetmark_catalog (TYPE postgres{word})")
        if self.remote:
            options = {
                "KEY_ID": self.access_key_id,
                "SECRET": self.secret_access_key,
                "REGION": self.region,
            }
            if self.endpoint:
                parts = urlsplit(self.endpoint)
                options |= {"ENDPOINT": parts.netloc, "URL_STYLE": "path"}
            given = [f"{key} {literal(value)}" for key, value in options.items() if value]
            plain = self.endpoint.startswith("http://")
            given.append(f"USE_SSL {str(not plain).lower()}")
            made.append(f"CREATE SECRET fleetmark_data (TYPE s3, {', '.join(given)})")
        return made
