"""Alerts: which findings are told, with what, and through what.

pages    one theft is one page; supporting evidence, budget
outbox   each page once to each channel, over kills and refusals
"""

from fleetmark.alerts.outbox import Delivery, deliver

__all__ = ["Delivery", "deliver"]
