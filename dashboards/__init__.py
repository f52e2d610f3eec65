"""Dashboards as code: typed builders in, Grafana JSON out."""
