"""The kit of an incident: every section, from tables as a theft leaves them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError
from fleetmark.incident_kit import kit
from fleetmark.testing import complete, read_rows

READS = """cluster,checkpoint,bucket,object_key,version_id,request_id,day_ts,ts,family,principal,session,access_key_id,ip,covering_job_id,object_bytes,checkpoint_bytes,least_bytes,most_bytes
c,m,b,1,'',r1,2026-03-01T00:00:00,2026-03-01T10:00:00,fam,eve,adhoc,K1,203.0.113.9,,4000,10000,4000,4000
c,m,b,2,'',r2,2026-03-01T00:00:00,2026-03-01T10:05:00,fam,eve,adhoc,K1,203.0.113.9,,6000,10000,1000,2000
c,m,b,1,'',r3,2026-03-01T00:00:00,2026-03-01T11:00:00,fam,ann,job-77,K2,10.0.0.1,77,4000,10000,4000,4000
c,n,b,3,'',r4,2026-03-01T00:00:00,2026-03-01T12:00:00,other,bob,adhoc,K3,203.0.113.9,,4000,8000,4000,4000
"""
JOBS = """cluster,job_id,attempt,attempt_ts,job_name,principal,state,start_ts,alloc_gpus
c,77,1,2026-03-01T09:00:00,train,ann,RUNNING,2026-03-01T09:00:00,64
"""
EVENTS = """cluster,source,event_id,ts,action,event_class,principal,target,ip
c,cloudtrail,e1,2026-03-01T09:30:00,CreateAccessKey,key_created,eve,eve,203.0.113.9
"""
FINDINGS = """finding_id,detector,domain,kind,score,severity,start_ts,end_ts,detected_at,principal,checkpoint,evidence
uncovered_coverage-1,uncovered_coverage,security,uncovered_coverage,1,high,2026-03-01T10:00:00,2026-03-01T10:05:00,2026-03-01T10:05:00,"[""eve""]","[""m""]",{}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    catalog = load_catalog()
    connection = duckdb.connect()
    connection.execute("ATTACH ':memory:' AS lake")
    texts = {
        "weight_read": READS,
        "job_attempt": JOBS,
        "storage_event": EVENTS,
        "finding": FINDINGS,
    }
    for name, text in texts.items():
        table = catalog.tables[name]
        (tmp_path / name).write_text(text)
        rows = complete(table, read_rows(tmp_path / name, table) if text else table.empty())
        connection.register("rows", rows.to_arrow())
        connection.execute(f"CREATE TABLE lake.{name} AS FROM rows")
    yield SimpleNamespace(connection=connection)
    connection.close()


def section(rows: list[tuple[object, ...]], name: str) -> list[tuple[object, ...]]:
    return [row[2:] for row in rows if row[0] == name]


def test_a_principal(lake: Any) -> None:
    rows = kit(lake, "eve")
    assert section(rows, "blast_radius") == [("m", "eve: 50.0 to 60.0 %, 2 reads outside jobs")]
    assert section(rows, "who_else") == [("bob", "same address, at most 4000 bytes")]
    assert section(rows, "changes") == [
        ("CreateAccessKey", "key_created on eve from 203.0.113.9 done")
    ]
    assert ("disable this key", "K1") in section(rows, "revoke")
    assert ("revoke this session", "adhoc") in section(rows, "revoke")
    assert section(rows, "jobs") == [("nothing", "no row in the tables")]
    assert section(rows, "findings") == [("uncovered_coverage", "high uncovered_coverage-1 {}")]


def test_a_checkpoint_names_the_jobs_at_stake(lake: Any) -> None:
    rows = kit(lake, "m")
    assert section(rows, "jobs") == [("77", "ann train RUNNING, 64 GPUs")]
    assert len(section(rows, "blast_radius")) == 2
    assert ("disable this key", "K2") not in section(rows, "revoke")


def test_a_checkpoint_revokes_only_those_whom_a_finding_names(lake: Any) -> None:
    lake.connection.execute("INSERT INTO lake.weight_read SELECT * REPLACE ('backup' AS principal, 'K9' AS access_key_id) "
                            "FROM lake.weight_read WHERE principal = 'eve'")  # fmt: skip
    for subject in ("m", "fam"):
        rows = kit(lake, subject)
        assert ("deny this principal", "eve") in section(rows, "revoke")
        assert ("deny this principal", "backup") not in section(rows, "revoke")
        assert section(rows, "findings") == [("uncovered_coverage", "high uncovered_coverage-1 {}")]


def test_a_name_that_nothing_knows(lake: Any) -> None:
    with pytest.raises(InputError, match="nothing is known of 'nobody'"):
        kit(lake, "nobody")


def test_a_part_of_a_name_is_answered_with_the_whole(lake: Any) -> None:
    lake.connection.execute(
        "UPDATE lake.weight_read SET principal = 'arn:aws:iam::1:user/eve' WHERE principal = 'eve'"
    )
    lake.connection.execute("DELETE FROM lake.storage_event; DELETE FROM lake.finding")
    with pytest.raises(InputError, match="did you mean arn:aws:iam::1:user/eve"):
        kit(lake, "Eve")
