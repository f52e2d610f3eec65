"""Live operation: `fleetmark run` watches what the settings name and keeps the store up to date.

Parts, each of them a process of its own under one supervisor:

    inputs     follows files and spooled webhooks, those whose time has come together
    pull:X     asks the service or object store X
    kafka:X    consumes the topics of the input X
    receive    takes webhooks, answers /metrics, /healthz and /readyz
    compute    builds models, runs detectors, delivers alerts, tends the store

A part that ends is started again, ever later while it keeps ending. All of them write through
the same transactions as `fleetmark ingest`, so that a kill at any moment loses and doubles nothing.
"""
