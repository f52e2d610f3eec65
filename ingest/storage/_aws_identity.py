"""Who an AWS requester is: principal, kind, session, account, and the job its session names."""

from __future__ import annotations

import polars as pl

# A session of an assumed role or a federated user is the last part of its name.
_SESSION = r"^(arn:[^:]*:sts::[^:]*:(?:assumed-role|federated-user)/.+)/([^/]+)$"
_FEDERATED = r"^arn:[^:]*:sts::[^:]*:federated-user/(.+)$"
# The convention of scheduler integrations: job-88412, job_88412, job-88412_7 (array task).
_JOB = r"(?i)(?:^|[^a-z0-9])job[-_.]?([0-9]+(?:_[0-9]+)?)(?:$|[^a-z0-9])"
_TYPES = (
    (r"^arn:[^:]*:sts::[^:]*:assumed-role/", "assumed_role"),
    (r"^arn:[^:]*:sts::[^:]*:federated-user/", "federated_user"),
    (r"^arn:[^:]*:iam::cloudfront:", "origin_access"),
    (r"^arn:[^:]*:iam::[^:]*:user/", "user"),
    (r"^arn:[^:]*:iam::[^:]*:root$", "root"),
    (r"^(?:svc:|AmazonS3$|[a-z0-9.-]+\.amazonaws\.com(?:\.cn)?$)", "service"),
    (r"^[0-9]{12}$", "account"),
    (r"^[0-9a-f]{64}$", "canonical_id"),
)
ANONYMOUS = "anonymous"


def identity(requester: pl.Expr) -> list[pl.Expr]:
    """principal, principal_type, session, job_hint and account of a requester (NULL: anonymous).

    The principal of `arn:aws:sts::111122223333:assumed-role/train/job-88412` is that ARN without
    the session, so that all jobs of a role are one principal.
    """
    kind = pl.coalesce(
        pl.when(requester.is_null()).then(pl.lit(ANONYMOUS)),
        *(pl.when(requester.str.contains(p)).then(pl.lit(name)) for p, name in _TYPES),
        pl.lit("other"),
    )
    session = pl.coalesce(requester.str.extract(_SESSION, 2), requester.str.extract(_FEDERATED, 1))
    return [
        pl.coalesce(requester.str.extract(_SESSION, 1), requester, pl.lit(ANONYMOUS)).alias(
            "principal"
        ),
        kind.alias("principal_type"),
        session.alias("session"),
        session.str.extract(_JOB, 1).alias("job_hint"),
        pl.coalesce(
            requester.str.extract(r"^arn:[^:]*:[^:]*:[^:]*:([0-9]{12}):"),
            requester.str.extract(r"^([0-9]{12})$"),
        ).alias("account"),
    ]
