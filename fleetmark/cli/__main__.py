"""`python -m fleetmark.cli`: how one process of Fleetmark starts another."""

from fleetmark.cli import main

main()
