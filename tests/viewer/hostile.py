"""Traces of a stranger: every text that may be anything is markup that would do something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from workbench.trace import Trace, TraceError
from workbench.trace.codec import decoder, from_data, to_data

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
    count = _plant(data, from_data)
    for holder in [each for each in _dicts(data) if "BM" in each]:  # keys that may be anything
        holder[PAYLOADS[count % len(PAYLOADS)]] = holder.pop("BM")
        count += 1
    return from_data(data), count


def hostile_answer(answer: Any) -> tuple[Any, int]:
    """Return an answer about traces with a payload in each text, and how many these are."""
    data = to_data(answer)
    read = decoder(type(answer))
    count = _plant(data, read)
    return read(data), count


def _plant(data: Any, read: Callable[[Any], Any]) -> int:
    """Put a payload into each text of plain data that may be anything; return how many."""
    count = 0
    for holder, key in list(_texts(data)):
        payload = PAYLOADS[count % len(PAYLOADS)]
        old = holder[key]
        holder[key] = old.replace("\n", f"{payload}\n") + payload  # as many rows as before
        if _is_kept(data, read):
            count += 1
        else:
            holder[key] = old
    return count


def _is_kept(data: Any, read: Callable[[Any], Any]) -> bool:
    """Say whether plain data can still be read: some texts are of a few words only."""
    try:
        read(data)
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
