"""Where a secret stands, for settings that name one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from fleetmark.errors import SettingsError


class Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a secret stands: an environment variable or a file, never the settings themselves."""

    env: str = ""
    file: str = ""

    def read(self, environment: Mapping[str, str]) -> str:
        """The secret as it is now, so that a renewed one counts. Raises SettingsError."""
        if self.env:
            if value := environment.get(self.env, ""):
                return value
            raise SettingsError(f"the environment variable {self.env} is not set")
        try:
            if value := Path(self.file).read_text(encoding="utf-8").strip():
                return value
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            raise SettingsError(f"{self.file}: {reason}") from None
        raise SettingsError(f"{self.file}: is empty")
