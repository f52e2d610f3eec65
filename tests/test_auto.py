"""`ingest auto`: which source knows the beginning of a file; in a folder, also of a named source."""

from __future__ import annotations

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.files import Content
from fleetmark.testing import cases_of
from tests.test_sources import CASES

CATALOG = load_catalog()
HEAD_BYTES = 64 << 10
LISTING = "2013-09-02 21:37:53         10 a.txt\n2013-09-02 21:37:53    2863288 foo.zip\n"
GSUTIL = "   2276224  2020-03-02T19:25:17Z  gs://b/obj1\nTOTAL: 1 objects, 2276224 bytes\n"
FLOW = "2 123456789010 eni-1235b8ca 172.31.16.139 172.31.16.21 20641 22 6 20 4249 1418530010 1418530070 ACCEPT OK\n"
SERVING = '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"vllm:x"}}]}}'
QUERY = (
    "timestamp, index, name, utilization.gpu [%]\n2025/01/20 01:36:56.123, 0, NVIDIA H100, 45 %\n"
)
# Forms that are refused, with what to collect instead.
PLAIN_SACCT = "JobID           JobName  AllocCPUS      State \n------------ ---------- ---------- ---------- \n"
PLAIN_SQUEUE = "   JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
PLAIN_SINFO = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
YAML = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n"
BEGINNINGS = {
    "object_listing": (LISTING, GSUTIL),
    "vpc_flow": (FLOW, f"2015-05-10T18:03:35.000Z {FLOW}"),
    "serving_read": (SERVING,),
    "prometheus_read": (SERVING.replace("vllm:x", "DCGM_FI_DEV_GPU_UTIL"),),
    "nvidia_smi": (QUERY,),
    "sacct": (PLAIN_SACCT,),
    "squeue": (PLAIN_SQUEUE, "JOBID|STATE|TRES_ALLOC|SUBMIT_TIME\n", "JOBID;STATE;SUBMIT_TIME\n"),
    "sinfo": (PLAIN_SINFO, "NODELIST;STATE;GRES\n"),
    "kubernetes": (YAML,),
    "scontrol": ("$ scontrol show job 1\nJobId=1 JobName=a\n   UserId=u(1) GroupId=g(1)\n",),
}
NOBODYS = (
    "2024-01-01 10:00:00 1234 INFO started\n2024-01-01 10:00:01 1234 INFO stopped\n",
    '{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
    "apiVersion: v1\n",
    "name, size\na, 1\n",
)
# What several sources read, or nobody can tell apart by its beginning.
SHARED = {
    ("gcs_audit", "kubernetes_audit"),
    ("pod_start", "kubernetes"),
    ("serving_read", "prometheus_read"),
}


def claims(head: bytes, name: str) -> list[str]:
    return [source.name for source in CATALOG.sources.values() if source.sniff(head, name)]


@pytest.mark.parametrize(
    ("source", "text"), [(name, text) for name, texts in BEGINNINGS.items() for text in texts]
)
def test_a_source_knows_its_own(source: str, text: str) -> None:
    assert claims(text.encode(), "x") == [source]


@pytest.mark.parametrize("text", NOBODYS)
def test_nobody_claims_what_is_no_log(text: str) -> None:
    assert claims(text.encode(), "x") == []


def test_no_source_claims_the_case_of_another() -> None:
    for name in CATALOG.sources:
        for case in cases_of(CASES, "sources", name):
            content = Content(case.input)
            found = claims(content.read(HEAD_BYTES), case.input.name)
            content.close()
            assert {(name, other) for other in found if other != name} <= SHARED, case.folder
