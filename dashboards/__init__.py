"""Dashboards as code: typed builders in, Grafana JSON out.

One module a dashboard, with a function `build`; modules that begin with an underscore hold what they
share. `python -m fleetmark.dashboards` writes `json/`, with `--check` it compares. `provisioning/`
is for Grafana's folder of that name.
"""
