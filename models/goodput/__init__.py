"""The goodput ledger: who owns each second of an allocation, and what that adds up to."""
