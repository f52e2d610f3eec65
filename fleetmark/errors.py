"""The error tree. A user's mistake is always one of these, never a traceback.

FleetmarkError
├── DefinitionError   a source, model or detector file is wrong      (its author fixes it)
├── ContractError     data does not fit its table                    (table, column, sample rows)
├── InputError        a file or a path cannot be read as asked       (file, line, remedy)
├── SettingsError     a setting is missing, unknown or malformed     (key, where it was looked for)
├── QueryError        a caller's SQL cannot be run                   (becomes a 4xx)
├── ServiceError      a service that is asked for data refuses or cannot be reached
└── StoreError        the store cannot be opened, read or written
Retryable             mix-in: trying again may help
"""

from __future__ import annotations


class FleetmarkError(Exception):
    """Base of everything Fleetmark raises on purpose; its text is written for the user."""


class Retryable(Exception):  # noqa: N818 - a marker mixed into errors, not an error by itself
    """Mix-in: the same call may succeed when it is tried again."""


class DefinitionError(FleetmarkError):
    """A source, model or detector file breaks the rules of docs/adding.md."""


class ContractError(FleetmarkError):
    """Rows do not fit the contract of the table they are written to."""


class InputError(FleetmarkError):
    """A file or path that the user named cannot be used."""


class SettingsError(FleetmarkError):
    """A setting is missing, unknown or malformed."""


class QueryError(FleetmarkError):
    """A caller's SQL is refused or fails.

    reason     "invalid" (does not parse or bind, or fails on the data), "refused" (asks for what is
               not offered), "limit" (time, memory or size of the answer)
    position   character of the SQL, from 0, that the message is about, where known
    """

    def __init__(
        self, message: str, *, reason: str = "invalid", position: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.position = position


class QueryBusyError(QueryError, Retryable):
    """Every query worker is taken."""


class ServiceError(FleetmarkError):
    """A service that is asked for data refuses; its text says what to change."""


class ServiceUnreachableError(ServiceError, Retryable):
    """The service does not answer, or is too busy to."""


class StoreError(FleetmarkError):
    """The store cannot be opened, read or written."""


class StoreBusyError(StoreError, Retryable):
    """Another writer committed first and retries were used up."""


class SupersededError(StoreError, Retryable):
    """Another ingest has read the same file meanwhile: it must be looked up again."""
