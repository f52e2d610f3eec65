"""Commands about access: API keys and the evidence ledger."""

from __future__ import annotations

from pathlib import Path

import click

from fleetmark.cli.shell import (
    command,
    config_option,
    json_option,
    log,
    now,
    settings_of,
    show,
    store_option,
)
from fleetmark.errors import InputError


@click.group()
def key() -> None:
    """Make, list and revoke keys of the API. From the first key on it answers nobody without."""


@command
@click.argument("name")
@click.option("--role", required=True, type=click.Choice(["viewer", "planner", "security", "admin"]),
              help="What it may see: docs/api.md.")  # fmt: skip
@click.option("--team", help="Only rows of this team ([auth.teams.TEAM] of the settings).")
@click.option("--days", type=click.IntRange(1), help="Days until it expires. Default: never.")
@store_option
@config_option
def create(
    name: str, role: str, team: str | None, days: int | None, store: Path | None,
    config: Path | None,
) -> None:  # fmt: skip
    """Make a key for NAME and print it, for the only time."""
    from fleetmark.access.keys import KeyRing
    from fleetmark.access.rules import ROLES, rules_of

    rules = rules_of(settings_of(config, store))
    if team is not None and team not in rules.teams:
        raise InputError(f"--team {team}: the settings have no [auth.teams.{team}]")
    chosen = ROLES[ROLES.index(role)]
    click.echo(KeyRing(rules.keys).create(name, chosen, now(), team=team, days=days))
    log(f"{role} key of {name}: keep it, {rules.keys} holds only its hash")


@command
@store_option
@config_option
@json_option
def listed(store: Path | None, config: Path | None, json: bool) -> None:
    """List the keys, without what proves them."""
    from fleetmark.access.keys import KeyRing
    from fleetmark.access.rules import rules_of

    names = ("id", "name", "role", "team", "created_at", "expires_at", "revoked_at")
    keys = KeyRing(rules_of(settings_of(config, store)).keys).all()
    show(names, [[getattr(k, name) for name in names] for k in keys], json=json)


@command
@click.argument("number", metavar="ID")
@store_option
@config_option
def revoke(number: str, store: Path | None, config: Path | None) -> None:
    """Make the key ID worthless, at once."""
    from fleetmark.access.keys import KeyRing
    from fleetmark.access.rules import rules_of

    revoked = KeyRing(rules_of(settings_of(config, store)).keys).revoke(number, now())
    log(f"key {revoked.id} of {revoked.name} is revoked")


@click.group()
def evidence() -> None:
    """The ledger of what was asked and told: verify its chain, export it."""


@command
@click.option("--noted", metavar="NUMBER:HASH", help="A head kept elsewhere: finds a cut end.")
@store_option
@config_option
def verify(noted: str | None, store: Path | None, config: Path | None) -> int:
    """Find any edit, cut or reorder. Exit code 1 when there is one."""
    from fleetmark.evidence import Head, Ledger

    kept = None
    if noted is not None:
        number, sign, digest = noted.partition(":")
        if not sign or not number.isdigit():
            raise InputError(f"--noted {noted}: write NUMBER:HASH, as `evidence head` prints it")
        kept = Head(int(number), digest)
    with Ledger.existing(settings_of(config, store), now) as ledger:
        faults = ledger.verify(kept)
        count = ledger.head().number
    for fault in faults:
        log(f"entry {fault.number}: {fault.what}" if fault.number else fault.what)
    if not faults:
        click.echo(f"{count} entries, unbroken")
    return 1 if faults else 0


@command
@store_option
@config_option
def head(store: Path | None, config: Path | None) -> None:
    """Print where the chain ends, to be noted elsewhere."""
    from fleetmark.evidence import Ledger

    with Ledger.existing(settings_of(config, store), now) as ledger:
        end = ledger.head()
    click.echo(f"{end.number}:{end.hash}")


@command
@click.option("--after", default=0, show_default=True, help="Entries with a greater number.")
@click.option("--kind", help="Only entries of this kind: request, alert, suppression, verdict, ….")
@store_option
@config_option
def export(after: int, kind: str | None, store: Path | None, config: Path | None) -> None:
    """Print the entries, one JSON object a line."""
    from fleetmark.evidence import Ledger

    with Ledger.existing(settings_of(config, store), now) as ledger:
        for entry in ledger.entries(after=after, kind=kind):
            click.echo(entry.line())


key.add_command(create)
key.add_command(listed, "list")
key.add_command(revoke)
evidence.add_command(verify)
evidence.add_command(head)
evidence.add_command(export)
