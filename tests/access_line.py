"""Lines of an S3 access log that tests write, each with a request id of its own."""

from __future__ import annotations


def access_line(number: int, *, day: int = 6, minute: int = 0, second: int = 38) -> str:
    """One read of `ckpt/1` in February 2026, without a line break; its request id is request_id(number)."""
    return (
        f"79a59df900b949e55d96a1e698fbaced weights [{day:02}/Feb/2026:00:{minute:02}:{second:02} +0000] "
        f"192.0.2.3 arn:u {request_id(number)} REST.GET.OBJECT ckpt/1 "
        '"GET /ckpt/1 HTTP/1.1" 200 - 113 1130 7 5 "-" "S3Console" -'
    )


def access_lines(start: int, end: int) -> str:
    """Lines `start` to `end` (not included), each with its line break."""
    return "".join(access_line(number) + "\n" for number in range(start, end))


def request_id(number: int) -> str:
    """Sorts as the numbers do."""
    return f"R{number:06}"
