"""The evidence ledger: what was asked, answered and told, in an order that nobody can change unseen.

ledger   append, verify, export: a chain of hashes in one SQLite file
"""

from fleetmark.evidence.ledger import Entry, Fault, Head, Ledger, canonical

__all__ = ["Entry", "Fault", "Head", "Ledger", "canonical"]
