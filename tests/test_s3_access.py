"""S3 access log: the columnar split against the exact reader, secrets, and lines made to hurt."""

from __future__ import annotations

import importlib
import time

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.source import Context

# By name, because type checkers do not see how the folders are installed.
module = importlib.import_module("fleetmark.ingest.storage.s3_access")
redaction = importlib.import_module("fleetmark.ingest._redact")
fields = importlib.import_module("fleetmark.ingest.storage._s3_fields")
reader = importlib.import_module("fleetmark.ingest.storage._s3_line")
SOURCE = module.s3_access
CONTEXT = Context("access.log", {"cluster": "c"})

# The grammar of a line, with what has been seen in real ones and what has not.
WORD = st.text(alphabet='aZ09.-_:/=%+&?é"\t', min_size=1, max_size=8)
DASH = st.just("-")
TIME = st.sampled_from(
    ["[14/Mar/2026:02:11:09 +0000]"] * 6
    + [
        "[14/Mar/2026:02:11:09 +0000]",
        "[14/Mar/2026:02:11:09 +0200]",
        "[31/Feb/2026:02:11:09 +0000]",
        "[14/mar/2026:02:11:60 +0000]",
        "[14/Mar/2026:02:11:09 UTC]",
        "14/Mar/2026:02:11:09 +0000",
    ]
)
REQUESTER = st.one_of(
    DASH,
    WORD,
    st.sampled_from(
        [
            "arn:aws:sts::111122223333:assumed-role/train/job-7",
            "arn:aws:iam::cloudfront:user/CloudFront Origin Access Identity E2",
            " arn:aws:iam::1:user/doubled",
            "",
        ]
    ),
)
OPERATION = st.sampled_from(
    ["REST.GET.OBJECT", "REST.COPY.PART_GET", "BATCH.DELETE.OBJECT", "-", "x"]
)
NUMBER = st.one_of(
    DASH, st.sampled_from(["0", "206", "+5", "-5", "5 ", "99999999999999999999", "x"])
)
ANYTHING = st.text(alphabet='aé" -?&=%2/\\', max_size=12)
FORGED = st.sampled_from(
    ['x" 404 No 0 0 0 0 "-" "y', '" 200 - 1 1 1 1 "', '-" - 200 - 1 1 1 1 - -']
)
QUOTED = st.one_of(
    DASH, st.just('"-"'), st.just('""'), st.one_of(WORD, ANYTHING, FORGED).map(lambda t: f'"{t}"')
)
TAIL = st.lists(st.one_of(DASH, WORD), max_size=13).map(lambda ws: "".join(f" {w}" for w in ws))


@st.composite
def access_lines(draw: st.DrawFn) -> str:
    head = [draw(WORD), draw(WORD), draw(TIME), draw(WORD), draw(REQUESTER), draw(WORD)]
    numbers = [draw(NUMBER), draw(st.one_of(DASH, WORD)), *(draw(NUMBER) for _ in range(4))]
    parts = [*head, draw(OPERATION), draw(st.one_of(DASH, WORD, ANYTHING)), draw(QUOTED), *numbers]
    return " ".join([*parts, draw(QUOTED), draw(QUOTED)]) + draw(TAIL)


ORDINARY = (
    "o b [14/Mar/2026:02:11:09 +0000] 192.0.2.1 arn:aws:iam::1:user/u ID REST.GET.OBJECT k%20y "
    '"GET /k?sig=s HTTP/1.1" 206 - 5 70 91 17 "https://r/" "agent 1" - host= SigV4 c AuthHeader '
    "h TLSv1.3 - Yes us-east-1 more and"
)
# Half of the changes happen where fields begin and end.
EDGES = [n + d for n, c in enumerate(ORDINARY) if c in ' "' for d in (0, 1)]
PLACE = st.one_of(st.integers(0, len(ORDINARY)), st.sampled_from(EDGES))
CHANGE = st.tuples(
    PLACE, st.integers(0, 3), st.sampled_from(["", " ", "-", '"', ' "', '" ', "  ", "+1"])
)


@st.composite
def damaged_lines(draw: st.DrawFn) -> str:
    """An ordinary line, maybe cut, with up to two places where something is put in or lost."""
    text = ORDINARY[: draw(st.sampled_from([len(ORDINARY), 250, 190]))]
    for place, lost, put in draw(st.lists(CHANGE, max_size=2)):
        text = text[:place] + put + text[place + lost :]
    return text


LINES = st.one_of(damaged_lines(), damaged_lines(), access_lines())


def frame(texts: list[str]) -> pl.DataFrame:
    numbers = pl.int_range(1, len(texts) + 1, dtype=pl.Int64, eager=True)
    return pl.DataFrame({"line_no": numbers, "text": pl.Series(texts, dtype=pl.String)})


def exact(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows as the exact reader alone gives them."""
    pieces, _ = reader.read_lines(lines)
    rows = module._rows(fields.typed_fields(pieces).filter("good"))
    assert isinstance(rows, pl.DataFrame)
    return rows


def columnar(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows as the columnar split alone gives them; lines it does not take are left out."""
    pieces, _ = fields.cut_columns(lines)
    rows = module._rows(fields.typed_fields(pieces).filter("good"))
    assert isinstance(rows, pl.DataFrame)
    return rows


@settings(max_examples=400, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=12))
def test_columnar_rows_are_the_exact_rows(texts: list[str]) -> None:
    lines = frame(texts)
    fast, slow = columnar(lines).sort("line_no"), exact(lines).sort("line_no")
    assert fast.equals(slow.join(fast.select("line_no"), on="line_no", how="semi").sort("line_no"))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 11), st.text(alphabet="abc/", min_size=1, max_size=9))
def test_the_columnar_split_takes_every_ordinary_line(trailing: int, key: str) -> None:
    tail = "".join(f" f{n}" for n in range(trailing))
    text = (
        f"o b [14/Mar/2026:02:11:09 +0000] 192.0.2.1 - ID REST.GET.OBJECT {key} "
        f'"GET /{key} HTTP/1.1" 200 - 1 2 3 4 "-" "agent with spaces"{tail}'
    )
    assert columnar(frame([text])).height == 1


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=80), LINES), max_size=12))
def test_no_text_raises_and_no_line_is_lost(texts: list[str]) -> None:
    lines = frame([text.replace("\n", "") for text in texts])
    parsed = SOURCE.parse(lines, CONTEXT)
    rows = parsed.tables["storage_access"].lazy().collect()
    assert rows.height + parsed.rejects.height + parsed.skipped == lines.height
    numbers = [*rows["line_no"], *parsed.rejects["line_no"]]
    assert len(set(numbers)) == len(numbers)
    assert parsed.rejects["reason"].null_count() == 0
    assert (
        rows.select("ts", "bucket", "request_id", "object_key").null_count().sum_horizontal()[0]
        == 0
    )


def spelled(name: str, how: str) -> str:
    """A parameter's name in odd case or percent-encoded, once or twice."""
    codes = "".join(f"%{ord(c):02x}" for c in name)
    return {
        "plain": name,
        "upper": name.upper(),
        "swapped": name.swapcase(),
        "encoded": codes,
        "twice": codes.replace("%", "%25"),
    }[how]


@pytest.mark.parametrize("how", ["plain", "upper", "swapped", "encoded", "twice"])
@pytest.mark.parametrize(("ask", "equals", "end"), [("?", "=", "&a=1"), ("%3F", "%3d", "%26a%3D1"),
                                                   ("%253f", "%253D", "%2526a"), ("&", "=", " HTTP/1.1")])  # fmt: skip
@pytest.mark.parametrize("name", redaction.PARAMETERS)
def test_secrets_are_taken_out(name: str, ask: str, equals: str, end: str, how: str) -> None:
    hidden = "Ab9/+%2Fz%3D%zz~"
    url = f"GET /key{ask}{spelled(name, how)}{equals}{hidden}{end}"
    clean = pl.select(redaction.redact(pl.lit(url))).item()
    assert clean == f"GET /key{ask}{spelled(name, how)}{equals}REDACTED{end}"
    assert pl.select(redaction.may_hold_secrets(pl.lit(url))).item()


def test_innocent_parameters_stay() -> None:
    url = "GET /k?design=1&sigma=2&mysig=3&X-Amz-Credential=AK%2F2026&versionId=a%26sig HTTP/1.1"
    assert pl.select(redaction.redact(pl.lit(url))).item() == url


def test_rejected_lines_hold_no_secrets() -> None:
    parsed = SOURCE.parse(frame(["junk /k?sig=secret"]), CONTEXT)
    assert parsed.rejects["text"].to_list() == ["junk /k?sig=REDACTED"]


HEAD = 'o b [14/Mar/2026:02:11:09 +0000] 192.0.2.1 - I REST.GET.OBJECT k "GET /k'


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        " " * 1_000_000,
        '"' * 1_000_000,
        "o b [x y] " + "a " * 500_000,
        "o b [x y] i" + " " * 1_000_000 + "z",
        HEAD + '" 200 - 1 1 1 1 "' * 60_000,
        HEAD + '" 200 - 1 1 1 1 -x' * 60_000,
        HEAD + "1" * 1_000_000,
        HEAD + '" ' + "-" * 1_000_000,
        HEAD + " - 200" * 150_000,
        HEAD + "?sig=" * 200_000,
        HEAD + "%25" * 300_000,
    ],
    ids=lambda text: repr(text[:12] + "…" + text[-6:]),
)
def test_a_line_of_a_megabyte_takes_linear_time(text: str) -> None:
    start = time.process_time()
    SOURCE.parse(frame([text] * 2), CONTEXT)
    assert time.process_time() - start < 4


def test_sniff() -> None:
    line = (HEAD.replace("o ", "0f1e ") + '"').encode()
    assert SOURCE.sniff(b"junk\n" + line, "x")
    assert not SOURCE.sniff(
        b'192.0.2.1 - - [14/Mar/2026:02:11:09 +0000] "GET / HTTP/1.1" 200 1', "x"
    )
    assert not SOURCE.sniff(b"\x00\xff", "x")
