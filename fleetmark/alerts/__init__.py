"""Alerts: which findings are told, with what, and through what.

pages     one theft is one page; supporting evidence, budget
content   who, what, when, how much, why, what would explain it, what to do first
channels  JSON, OCSF, Alertmanager, or people through Apprise
outbox    each page once to each channel, over kills and refusals
record    what was told, held and judged, in the evidence ledger
"""

from fleetmark.alerts.outbox import Delivery, deliver

__all__ = ["Delivery", "deliver"]
