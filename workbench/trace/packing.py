"""Traces as bytes: gzip of `{"traces": [...]}`, the same bytes for the same traces.

One file or output holds one trace or several (a run on the CPU and a compilation for a GPU); the
first one is shown first. gzip because browsers unpack it without a library.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from typing import Any, cast

from workbench.trace.codec import TraceError, dump, from_data, to_data
from workbench.trace.limits import shorten_texts
from workbench.trace.schema import Trace
from workbench.trace.trimming import trim

#: Above this an unpacked file is refused, here and by the viewer (extension/src/limits.ts): a few
#: bytes of gzip can stand for gigabytes. Packed traces are trimmed until they keep below it.
UNPACKED_BYTES = 128_000_000
#: What texts are shortened to, in characters, where trimming is not enough.
_SHORTER = (1_000_000, 100_000, 10_000)


def bundle_json(traces: Sequence[Trace], **extra: object) -> str:
    """Return several traces as one canonical JSON text; `extra` keys stand beside "traces"."""
    return dump({**extra, "traces": [to_data(trace) for trace in traces]})


def pack(traces: Sequence[Trace], **extra: object) -> bytes:
    """Return traces as gzip bytes, deterministic (level 9, no time stamp).

    What would be refused when it is read is trimmed first; a shortened stage says so.
    """
    text = bundle_json(traces, **extra)
    if len(text) > UNPACKED_BYTES:  # JSON is written in ASCII
        text = bundle_json(_within(traces, UNPACKED_BYTES - len(bundle_json((), **extra))), **extra)
    return gzip.compress(text.encode(), 9, mtime=0)


def _within(traces: Sequence[Trace], room: int) -> list[Trace]:
    """Return traces of which each has its share of so many bytes; what one leaves, others get."""
    found = list(traces)
    sizes = [_bytes(trace) for trace in found]
    order = sorted(range(len(found)), key=lambda index: sizes[index])
    for done, index in enumerate(order):
        share = room // (len(found) - done)
        found[index] = _trimmed(found[index], share)
        room -= _bytes(found[index])
    return found


def _trimmed(trace: Trace, most: int) -> Trace:
    small, _ = trim(trace, lambda tried: _bytes(tried) <= most)
    for characters in _SHORTER:
        if _bytes(small) <= most:
            return small
        small = shorten_texts(small, characters)
    if _bytes(small) > most:
        raise TraceError(f"the trace of {trace.kernel.name} is larger than {most:,} bytes")
    return small


def _bytes(trace: Trace) -> int:
    return len(dump(to_data(trace))) + 1


def packed_bytes(trace: Trace) -> int:
    """Return about how large a trace is when packed, never less: quicker than packing it."""
    return len(zlib.compress(dump(to_data(trace)).encode(), 4)) + 64


def unpack(data: bytes) -> tuple[Trace, ...]:
    """Return the traces in gzip or plain JSON bytes, of a bundle or of a single trace."""
    return unpack_whole(data)[0]


def unpack_whole(data: bytes) -> tuple[tuple[Trace, ...], dict[str, Any]]:
    """Return the traces in bytes, and what stands beside them as plain data, not looked at."""
    if data[:2] == b"\x1f\x8b":
        data = _gunzip(data)
    if len(data) > UNPACKED_BYTES:
        raise TraceError(f"the trace is larger than {UNPACKED_BYTES:,} bytes")
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError) as error:  # not JSON, or a number of 4,300 digits
        what = f"the content is not JSON ({error})"
        if data.lstrip()[:1] == b"<":
            what = "it is a page; the trace itself is saved as .wbt"
        raise TraceError(f"not a trace: {what}") from error
    several: Any = cast("dict[str, Any]", found).get("traces") if isinstance(found, dict) else None
    if isinstance(several, list):
        traces = tuple(from_data(trace) for trace in cast("list[Any]", several))
        beside = dict(cast("dict[str, Any]", found))
        del beside["traces"]
        return traces, beside
    return (from_data(found),), {}


def _gunzip(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(data, UNPACKED_BYTES)
    except zlib.error as error:
        raise TraceError(f"not a trace: the gzip data is damaged ({error})") from error
    if stream.unconsumed_tail:
        raise TraceError(f"the trace is larger than {UNPACKED_BYTES:,} bytes unpacked")
    if not stream.eof:
        raise TraceError("not a trace: the gzip data ends early")
    return text
