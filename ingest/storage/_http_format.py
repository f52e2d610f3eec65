"""Log formats of web servers, as nginx or Apache configures them, turned into patterns.

Every pattern is matched in linear time; quoted fields end at a quote that is not escaped.
"""

from __future__ import annotations

import re

COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent"'
)
_APACHE = {
    "%h": "$remote_addr", "%a": "$remote_addr", "%l": "-", "%u": "$remote_user", "%t": "[$time_local]",
    "%r": "$request", "%>s": "$status", "%s": "$status", "%b": "$body_bytes_sent", "%B": "$body_bytes_sent",
    "%O": "$bytes_sent", "%I": "$request_length", "%D": "$request_us", "%T": "$request_time", "%v": "$host",
    "%V": "$host", "%p": "$server_port", "%L": "$request_id", "%m": "$request_method", "%U": "$uri",
    "%{Referer}i": "$http_referer", "%{User-Agent}i": "$http_user_agent", "%{Range}i": "$http_range",
    "%{X-Forwarded-For}i": "$http_x_forwarded_for", "%{UNIQUE_ID}e": "$request_id",
    "%{Content-Range}o": "$sent_http_content_range",
}  # fmt: skip
KNOWN = (
    "remote_addr", "remote_user", "time_local", "time_iso8601", "msec", "request", "request_method", "request_uri",
    "uri", "status", "body_bytes_sent", "bytes_sent", "request_length", "request_time", "request_us", "request_id",
    "http_referer", "http_user_agent", "http_range", "sent_http_content_range", "host", "http_host", "server_name",
    "http_x_forwarded_for", "ssl_protocol", "ssl_cipher", "address_list",
)  # fmt: skip
_VARIABLE = re.compile(r'(")?(\[)?\$\{?([a-z_0-9]+)\}?(\])?(")?')


class FormatError(ValueError):
    """The stated format cannot be used; the message says why."""


def patterns(stated: str) -> list[str]:
    """Patterns with named groups for a stated format; without one, for combined and common logs."""
    if stated:
        return [pattern(stated)]
    quoted = pattern(COMBINED).removesuffix("$")
    common = quoted.partition(r'\ "(?P<http_referer>')[0]
    # Servers that escape nothing write quotes into the request: there the last status decides.
    strict = r'"(?P<request>(?:[^\"\\]|\\.)*)"'
    loose = r'"(?P<request>.*)"'
    ends = (quoted + _AFTER_AGENT + "$", common + "$")
    found = [*ends, *(end.replace(strict, loose) for end in ends)]
    return found + [_BEFORE_ADDRESS + one.removeprefix("^") for one in found]


# What stands after a combined line where nobody states the format: nginx' own `main` with the
# addresses of proxies, ingress-nginx' length, time, upstream and id, or anything else, unread.
_AFTER_AGENT = (
    r'(?: "(?P<http_x_forwarded_for>-|[0-9A-Fa-f:.]+(?:, ?[0-9A-Fa-f:.]+)*)"(?: .*)?'
    r"| (?P<request_length>\d+) (?P<request_time>\d+\.\d+) \[.* (?P<request_id>[0-9a-f]{32})"
    r"| .*)?"
)
# A virtual host, with its port or without, or the addresses of proxies, or both: also alone.
_BEFORE_ADDRESS = r'^(?:(?P<host>[^ ",]+) )?(?:"?(?P<address_list>[^ ",]+(?:, ?[^ ",]+)+)"? ?)?'


def pattern(stated: str) -> str:
    """One pattern for a format of nginx (`$status`) or Apache (`%>s`)."""
    text = stated.strip()
    for apache, name in sorted(_APACHE.items(), key=lambda item: -len(item[0])):
        text = text.replace(apache, name)
    if "%" in text:
        raise FormatError(f"the format has a directive that is not known: {stated[:200]}")
    found = ["^"]
    seen: set[str] = set()
    at = 0
    for match in _VARIABLE.finditer(text):
        quote, bracket, name, closed, ended = match.groups()
        found.append(re.escape(text[at : match.start()]))
        at = match.end()
        inner = (
            r"(?:[^\"\\]|\\.)*"
            if quote and ended
            else r"[^\]]*"
            if bracket and closed
            else r"[^ \"]*"
        )
        group = f"(?P<{name}>{inner})" if name in KNOWN and name not in seen else f"(?:{inner})"
        seen.add(name)
        found.append(
            f"{quote or ''}{re.escape(bracket or '')}{group}{re.escape(closed or '')}{ended or ''}"
        )
    found.append(re.escape(text[at:]) + "$")
    if not seen & {"time_local", "time_iso8601", "msec"} or not seen & {
        "request",
        "request_uri",
        "uri",
    }:
        raise FormatError("the format needs a time and a request ($time_local, $request)")
    return "".join(found)
