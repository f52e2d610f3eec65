"""Alert rules for Grafana: what calls a person, as queries of the same data source.

Rules know no dashboard and so no variables: each looks at all clusters. Every rule returns one
number at the end of its range; Grafana reduces it and compares. No data is no alarm by itself: the
rule about silence is one of its own (`fleetmark-silent`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import yaml

from ._infinity import Query

DATASOURCE_UID = "fleetmark"
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: SQL of one time and one number, and the value from which it calls."""

    uid: str
    title: str
    sql: str
    kind: Literal["gt", "lt"]
    threshold: float
    range_s: int
    held: str
    severity: str
    summary: str

    def model(self) -> dict[str, object]:
        """The rule as Grafana's provisioning reads it."""
        over = {"from": self.range_s, "to": 0}
        condition = {"evaluator": {"type": self.kind, "params": [self.threshold]}}
        parts: list[tuple[str, str, dict[str, object]]] = [
            ("A", DATASOURCE_UID, Query(self.sql, "timeseries").model("A")),
            ("B", "__expr__", {"refId": "B", "type": "reduce", "expression": "A", "reducer": "last",
                               "settings": {"mode": "dropNN"}}),
            ("C", "__expr__", {"refId": "C", "type": "threshold", "expression": "B",
                               "conditions": [condition]}),
        ]  # fmt: skip
        return {
            "uid": self.uid,
            "title": self.title,
            "condition": "C",
            "for": self.held,
            "noDataState": "OK",
            "execErrState": "Error",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary},
            "data": [
                {"refId": ref, "datasourceUid": uid, "relativeTimeRange": over, "model": model}
                for ref, uid, model in parts
            ],
        }


RULES = (
    Rule(
        "fleetmark-severe", "High or critical finding",
        """SELECT make_timestamp(${__timeTo} * 1000) AS ts, count(*) AS findings FROM finding
WHERE severity IN ('critical', 'high') AND $time(detected_at)""",
        "gt", 0, DAY_S, "0s", "critical",
        "A detector found something high or critical in the last day; see the dashboard Fleetmark: fleet health.",
    ),
    Rule(
        "fleetmark-drain", "Node to act on",
        """SELECT make_timestamp(${__timeTo} * 1000) AS ts, count(*) AS nodes
FROM (FROM node_health WHERE $time(day_ts) QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster))
WHERE state = 'act'""",
        "gt", 0, 2 * DAY_S, "10m", "warning",
        "Nodes need a reset, a drain or a repair; see the dashboard Fleetmark: GPU and node degradation.",
    ),
    Rule(
        "fleetmark-goodput", "Goodput below 85 %",
        """SELECT day_ts, cluster, goodput_lower_ratio FROM goodput_day
WHERE goodput_lower_ratio IS NOT NULL AND coverage_ratio >= 0.5 AND $time(day_ts)
ORDER BY day_ts, cluster""",
        "lt", 0.85, 2 * DAY_S, "1h", "warning",
        "Less than 85 % of the newest day's GPU time was useful for certain, of days with half or more covered.",
    ),
    Rule(
        "fleetmark-unseen", "GPUs seen less than 95 % of the time",
        """SELECT day_ts, cluster, sum(minute_covered_count) / nullif(sum(minute_expected_count), 0) AS coverage_ratio
FROM coverage_gpu_day WHERE $time(day_ts)
GROUP BY ALL HAVING sum(minute_expected_count) > 0 ORDER BY day_ts, cluster""",
        "lt", 0.95, 2 * DAY_S, "1h", "warning",
        "Telemetry is missing: verdicts about these GPUs rest on less; see the dashboard Fleetmark: pipeline health.",
    ),
    Rule(
        "fleetmark-silent", "Nothing was read for an hour",
        """SELECT make_timestamp(${__timeTo} * 1000) AS ts, ${__timeTo} / 1000.0 - epoch(max(ingested_at)) AS age_s
FROM ingest_file""",
        "gt", 3600, 600, "10m", "critical",
        "No source was read for an hour: every other figure is as old as that.",
    ),
    Rule(
        "fleetmark-contracts", "Rows break their data contract",
        """SELECT make_timestamp(${__timeTo} * 1000) AS ts, count(*) AS unmet FROM contract_result
WHERE NOT success AND severity = 'error' AND $time(judged_at)""",
        "gt", 0, DAY_S, "0s", "warning",
        "Stored rows lack a required value or repeat a grain: the table contract_result says which; see the dashboard Fleetmark: pipeline health.",
    ),
)  # fmt: skip


def rules_text() -> str:
    """`provisioning/alerting/rules.yaml`.

    Grafana leaves `$` alone in the model of a query, and puts the environment in elsewhere.
    """
    group = {
        "orgId": 1,
        "name": "fleetmark",
        "folder": "Fleetmark",
        "interval": "1m",
        "rules": [rule.model() for rule in RULES],
    }
    document = {"apiVersion": 1, "groups": [group]}
    return "# Made by `python -m fleetmark.dashboards`; do not edit.\n" + yaml.safe_dump(
        document, sort_keys=False, width=100, allow_unicode=True
    )
