"""To whom an AWS call gives access, and where what it sets up sends data.

Python per event of the few classes that can give access: 11,000 a CPU second with all else that
cloudtrail does. Policies are parsed as JSON, never searched as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_POLICIES = ("bucketPolicy", "policy", "policyDocument", "assumeRolePolicyDocument", "Policy")
_PUBLIC_ACLS = {
    "public-read": "*",
    "public-read-write": "*",
    "authenticated-read": "AuthenticatedUsers",
}
_ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
# Members that name who receives, wherever they stand: shares, grants, access control lists.
_RECEIVERS = (
    "userId", "group", "granteePrincipal", "retiringPrincipal", "organizationArn",
    "organizationalUnitArn", "ID", "URI", "EmailAddress", "principals", "valuesToAdd", "grantee",
)  # fmt: skip
_DESTINATIONS = (
    "Bucket", "bucket", "TargetBucket", "targetBucket", "s3BucketName", "S3BucketName", "Topic", "Queue",
    "CloudFunction", "LambdaFunctionArn", "QueueArn", "TopicArn", "LogDestination", "s3BucketArn",
    "destinationBucket",
)  # fmt: skip
_ACCOUNTS = ("Account", "AccountId", "accountId")
_DEEPEST = 12
_ACCOUNT = re.compile(r"^(?:arn:[^:]*:[^:]*:[^:]*:)?([0-9]{12})(?:$|:)")

Json = dict[str, Any] | list[Any] | str | float | None


def loaded(text: str | None) -> dict[str, Any]:
    """A request's parameters; what cannot be read gives none."""
    try:
        found = json.loads(text or "null")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def granted_to(request: dict[str, Any]) -> list[str] | None:
    """Principals, accounts or `*` that policies, lists and shares in a request name, sorted."""
    names = {name for policy in _POLICIES for name in _of_policy(request.get(policy))}
    for header in ("x-amz-acl", "accessControlList"):
        acl = request.get(header)
        for word in acl if isinstance(acl, list) else [acl]:
            if isinstance(word, str) and word in _PUBLIC_ACLS:
                names.add(_PUBLIC_ACLS[word])
    for key, value in request.items():
        if key.lower().startswith("x-amz-grant-") and isinstance(value, str):
            names |= set(re.findall(r'(?:id|uri|emailAddress)="?([^",]+)', value))
    shares = {k: v for k, v in request.items() if k not in _POLICIES}
    for member, _, value in _members([shares]):
        if member in _RECEIVERS:
            names |= _texts(value)
    found = {"*" if name in ("all", _ALL_USERS) else name for name in names}
    return sorted(found) or None


def _of_policy(policy: Json) -> Iterator[str]:
    """Principals of statements that allow."""
    found = loaded(policy) if isinstance(policy, str) else policy
    statements = found.get("Statement") if isinstance(found, dict) else None
    for statement in statements if isinstance(statements, list) else [statements]:
        if not isinstance(statement, dict) or statement.get("Effect") != "Allow":
            continue
        if "NotPrincipal" in statement:
            yield "*"
        principal = statement.get("Principal")
        if isinstance(principal, dict):
            for value in principal.values():
                yield from _texts(value)
        else:
            yield from _texts(principal)


def destination(request: dict[str, Any]) -> str | None:
    """Bucket, queue, function or log group that a request sends data to."""
    nested = {k: v for k, v in request.items() if isinstance(v, dict | list)}
    for member, _, value in _members([nested]):
        if member in _DESTINATIONS and isinstance(value, str) and value:
            return value
    named = request.get("s3BucketName") or request.get("destinationBucket")
    return named if isinstance(named, str) else None


def accounts(request: dict[str, Any], names: list[str] | None, place: str | None) -> set[str]:
    """Accounts that gain: of those granted to, of the destination, and `*`."""
    found = {"*"} if "*" in (names or []) else set()
    for text in [*(names or []), place or ""]:
        if match := _ACCOUNT.match(text):
            found.add(match[1])
    for member, parents, value in _members([request]):
        if member in _ACCOUNTS and any("estination" in p for p in parents):
            found |= _texts(value)
    return found


def _members(values: list[Any]) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Every member of the objects in `values`: name, names above it, value; what removes is left out."""
    stack: list[tuple[tuple[str, ...], Any]] = [((), value) for value in reversed(values)]
    while stack:
        above, value = stack.pop()
        if len(above) > _DEEPEST:
            continue
        if isinstance(value, list):
            stack.extend((above, item) for item in reversed(value))
        elif isinstance(value, dict):
            for name, inner in value.items():
                if name in ("remove", "Remove", "valuesToRemove", "owner", "Owner"):
                    continue
                yield name, above, inner
            stack.extend(
                ((*above, name), inner)
                for name, inner in reversed(value.items())
                if isinstance(inner, dict | list) and name not in ("remove", "Remove", "owner", "Owner")
            )  # fmt: skip


def _texts(value: Json) -> set[str]:
    """A text, or the texts of a list."""
    values = value if isinstance(value, list) else [value]
    return {text for text in values if isinstance(text, str) and text}


def owner_of(bucket: str, resources: str | None) -> str | None:
    """Account that owns `bucket`, by an event's list of resources (`ARN`, in some exports `arn`)."""
    try:
        found = json.loads(resources or "[]")
    except (ValueError, RecursionError):
        return None
    for entry in found if isinstance(found, list) else []:
        if isinstance(entry, dict):
            arn = entry.get("ARN", entry.get("arn"))
            owner = entry.get("accountId")
            if isinstance(arn, str) and arn.split(":::")[-1] == bucket and isinstance(owner, str):
                return owner
    return None
