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
from workbench.trace.schema import Trace

#: Above this an unpacked file is refused: a few bytes of gzip can stand for gigabytes.
UNPACKED_BYTES = 512_000_000


def bundle_json(traces: Sequence[Trace], **extra: object) -> str:
    """Return several traces as one canonical JSON text; `extra` keys stand beside "traces"."""
    return dump({**extra, "traces": [to_data(trace) for trace in traces]})


def pack(traces: Sequence[Trace], **extra: object) -> bytes:
    """Return traces as gzip bytes, deterministic (level 9, no time stamp)."""
    return gzip.compress(bundle_json(traces, **extra).encode(), 9, mtime=0)


def packed_bytes(trace: Trace) -> int:
    """Return about how large a trace is when packed, never less: quicker than packing it."""
    return len(zlib.compress(dump(to_data(trace)).encode(), 4)) + 64


def unpack(data: bytes) -> tuple[Trace, ...]:
    """Return the traces in gzip or plain JSON bytes, of a bundle or of a single trace."""
    if data[:2] == b"\x1f\x8b":
        data = _gunzip(data)
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError) as error:  # not JSON, or a number of 4,300 digits
        raise TraceError(f"not a trace: the content is not JSON ({error})") from error
    several: Any = cast("dict[str, Any]", found).get("traces") if isinstance(found, dict) else None
    if isinstance(several, list):
        return tuple(from_data(trace) for trace in cast("list[Any]", several))
    return (from_data(found),)


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
