"""Traces of a stranger: every text that may be anything is markup that would do something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.trace import Trace, TraceError
from workbench.trace.codec import from_data, to_data

#: Each would call `alert` or ask for something if it were taken for anything but text.
PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script><!--",
    "</pre></div><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onfocus=alert(1) autofocus tabindex=0 x='",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "</style><style>@import url(https://example.org/a.css);",
    "</title><meta http-equiv=refresh content='0;url=https://example.org/'>",
    "<base href=https://example.org/><link rel=stylesheet href=a.css>",
    "<a href=javascript:alert(1)>x</a>",
    "--><script>alert(1)</script>",
    "]]>${alert(1)}{{alert(1)}}`-alert(1)-`\\u2028\u2028alert(1)//",
)


def hostile(trace: Trace) -> tuple[Trace, int]:
    """Return the trace with a payload in each text that may be anything, and how many these are."""
    data = to_data(trace)
    count = 0
    for holder, key in list(_texts(data)):
        payload = PAYLOADS[count % len(PAYLOADS)]
        old = holder[key]
        holder[key] = old.replace("\n", f"{payload}\n") + payload  # as many rows as before
        count += _is_kept(data)
        if not _is_kept(data):
            holder[key] = old
    for holder in [each for each in _dicts(data) if "BM" in each]:  # keys that may be anything
        holder[PAYLOADS[count % len(PAYLOADS)]] = holder.pop("BM")
        count += 1
    return from_data(data), count


def _is_kept(data: Any) -> bool:
    """Say whether plain data is still a trace: some texts are of a few words only."""
    try:
        from_data(data)
    except TraceError:
        return False
    return True


def _texts(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (dict or list, key) of every text."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, str):
            yield data, key
        elif isinstance(value, dict | list):
            yield from _texts(value)


def _dicts(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        yield data
    for value in data.values() if isinstance(data, dict) else data:
        if isinstance(value, dict | list):
            yield from _dicts(value)
