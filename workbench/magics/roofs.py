"""What `%roofline` shows: a kernel's points under this machine's measured copy and peak.

    roof(intensity) = min(peak, intensity * copy)        intensity = operations / bytes moved

Bytes are the compulsory traffic (each array once a direction), so that a kernel which reads twice
stays below the roof, and one whose arrays stay in a cache may stand above it. Operations are those
of products, or where there are none all results of floats. Works without IPython.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from math import ceil, floor, log10
from typing import Any

from workbench.bench.binding import Binder
from workbench.bench.ceilings import copy_speed, peak_speed
from workbench.bench.results import KernelResult
from workbench.bench.work import dot_work, operations
from workbench.interrupts import may_stop
from workbench.magics import lines, registry
from workbench.magics.drawing import Drawn
from workbench.magics.options import Request
from workbench.magics.plain import plain
from workbench.magics.texts import Shown
from workbench.source import OptionError
from workbench.trace import Bench
from workbench.tuning.tune import aligned

_COLOURS = ("#0a3069", "#bc4c00", "#1a7f37", "#8250df", "#57606a")


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """One size of one series.

    Attributes:
        name: the kernel's or the baseline's.
        x: the size, as the sweep calls it.
        flops: operations of a launch, None where nobody knows them.
        bytes: that a launch must move, None where nobody knows.
        milliseconds: the median.
        roof: the least milliseconds that copy and peak allow; None where nothing is known.
        unsteady: its times were far apart.
    """

    name: str
    x: Any
    flops: float | None
    bytes: float | None
    milliseconds: float
    roof: float | None
    unsteady: bool = False

    @property
    def intensity(self) -> float | None:
        """Operations for each byte."""
        return self.flops / self.bytes if self.flops and self.bytes else None

    @property
    def tflops(self) -> float | None:
        """What it does."""
        return self.flops / self.milliseconds / 1e9 if self.flops else None

    @property
    def share(self) -> float | None:
        """How much of what the roof allows it reaches."""
        return self.roof / self.milliseconds if self.roof else None


@dataclass(frozen=True, slots=True)
class Roofline:
    """Points under a roof: GB/s of a copy, TFLOP/s of products of `operand`, both measured here.

    `untimed` says of what was asked for, and has no points, why.
    """

    kernel: str
    device: str
    copy_gbps: float
    peak_tflops: float
    operand: str
    points: tuple[RoofPoint, ...]
    untimed: tuple[tuple[str, str], ...] = ()

    @property
    def ridge(self) -> float:
        """The operations for each byte from which on the peak is the limit."""
        return self.peak_tflops * 1e3 / self.copy_gbps

    def limit(self, point: RoofPoint) -> str:
        """Return what limits a point."""
        if point.intensity is None:
            return "memory" if point.bytes else "unknown"
        return "memory" if point.intensity < self.ridge else "arithmetic"


def roofline(kernel: Any, request: Request, namespace: Mapping[str, Any]) -> Roofline:
    """Return where a kernel stands under the roof of the machine that it was timed on.

    Args:
        kernel: a name, a result or a kernel object; the latest result if None.
        request: options of `%bench`; a kernel that was not timed, or is asked with a launch,
            baselines, sizes or other options of its own, is timed now.
        namespace: where names are looked up first.

    Raises:
        OptionError: K129 for an unknown kernel, K110 where nobody knows its arguments.
    """
    asks = replace(request, names=(), json=False, places={}) != Request()
    result = None if asks else _timed(kernel, namespace)
    if result is None:
        result = lines.bench(kernel, request, namespace)
    latest = _latest(result.bench)
    benches = [bench for bench in latest if bench.milliseconds]
    if not benches or result.plan is None:
        raise OptionError(
            f"{result.name} has no time", code="K129", hint=f"%bench {result.name} says why"
        )
    own = next(bench for bench in benches if bench.kind == "self")
    work, operand, gpu = _work(result, own)
    with may_stop():
        copy, peak = copy_speed(gpu), peak_speed(gpu, operand)
    points: list[RoofPoint] = []
    for bench in benches:
        for place, x in enumerate(bench.x):
            known = work.get(x)
            flops = _at(bench.flops, place) or (known[0] if known else None)
            moved = _at(bench.bytes, place) or (known[1] if known else None)
            roof = max((moved or 0) / copy / 1e6, (flops or 0) / peak / 1e9) or None
            time = bench.milliseconds[place][1]
            unsteady = place < len(bench.unsteady) and bench.unsteady[place]
            points.append(RoofPoint(bench.name, x, flops, moved, time, roof, unsteady))
    device = own.env.device if own.env is not None else ""
    untimed = tuple((b.name, b.error or "no time") for b in latest if not b.milliseconds)
    return Roofline(result.name, device or "", copy, peak, operand, tuple(points), untimed)


def _latest(benches: Sequence[Bench]) -> list[Bench]:
    """Return the series of the last benchmark: from the kernel's last own series on."""
    starts = [n for n, bench in enumerate(benches) if bench.kind == "self"]
    return list(benches[starts[-1] :]) if starts else []


def _timed(kernel: Any, namespace: Mapping[str, Any]) -> KernelResult | None:
    """Return the latest result of a kernel if it has times, None where there are none."""
    found: Any = namespace.get(kernel) if isinstance(kernel, str) else kernel
    if hasattr(found, "kernel_source"):
        result = registry.latest(found.kernel_source.name)
        if result is None or result.kernel is not found:  # another of this name was
            return None
    else:
        result = registry.find(kernel, namespace)
    return result if any(bench.milliseconds for bench in _latest(result.bench)) else None


def _work(
    result: KernelResult, own: Bench
) -> tuple[dict[Any, tuple[float | None, float | None]], str, bool]:
    """Return (operations, bytes) by size, the type of products' operands, and whether on a GPU."""
    plan, kernel = result.plan, result.kernel
    assert plan is not None
    assert kernel is not None
    binder = Binder(kernel, kernel.kernel_source, plan)
    found: dict[Any, tuple[float | None, float | None]] = {}
    operand, gpu = "f32", False
    for place, (point, x) in enumerate(zip(plan.points, own.x, strict=False)):
        flops = _at(own.flops, place)
        with may_stop():
            subject = binder.bind(point)
        gpu = subject.gpu
        dots = dot_work(subject.module, subject.grid, subject.scalars)
        if dots is not None:
            operand = dots.operand_types[0]
        if flops is None:
            flops = operations(subject.module, subject.grid, subject.scalars)
        found[x] = flops or None, _at(own.bytes, place)
    return found, operand, gpu


def _at(values: Sequence[float | None], place: int) -> float | None:
    return values[place] if place < len(values) else None


# -- what is shown ----------------------------------------------------------------------------
def text_of(found: Roofline) -> str:
    """Return a roofline as a table."""
    head = ("series", "size", "ms", "GB/s", "TFLOP/s", "FLOP/B", "of the roof", "limit")
    rows: list[tuple[str, ...]] = [head]
    for point in found.points:
        moved = point.bytes / point.milliseconds / 1e6 if point.bytes else None
        share = "?" if point.share is None else f"{point.share:.0%}"
        rows.append((
            point.name, str(point.x), f"{point.milliseconds:.4g}{' ±' * point.unsteady}",
            _word(moved),
            _word(point.tflops), _word(point.intensity), share, found.limit(point),
        ))  # fmt: skip
    lines_ = [
        f"{found.kernel} on {found.device}: measured copy {found.copy_gbps:.4g} GB/s, measured "
        f"{found.operand} product {found.peak_tflops:.3g} TFLOP/s,\nwhich is the limit from "
        f"{found.ridge:.3g} FLOP/B on",
        aligned(rows),
    ]
    above = {found.limit(point) for point in found.points if point.share and point.share > 1.05}
    lines_ += [f"{name} was not timed: {why}" for name, why in found.untimed]
    if above - {"arithmetic"}:
        lines_.append("above the roof: arrays that stay in caches move faster than a large copy")
    if "arithmetic" in above:
        lines_.append(f"above the roof: the peak is that of torch's {found.operand} product here")
    if any(point.unsteady for point in found.points):
        lines_.append("±: unsteady, something else used the machine; time it again")
    return "\n".join(lines_)


def _word(number: float | None) -> str:
    return "?" if number is None else f"{number:.3g}"


def drawn(found: Roofline) -> Drawn:
    """Return a roofline as a table and a picture."""
    picture = [roof_svg(found)] if any(p.intensity and p.tflops for p in found.points) else []
    return Drawn(text_of(found), picture)


def as_json(found: Roofline) -> Shown:
    """Return a roofline as `--json` prints it."""
    points = [
        {**asdict(p), "intensity": p.intensity, "tflops": p.tflops, "share": p.share,
         "limit": found.limit(p)}
        for p in found.points
    ]  # fmt: skip
    return plain(**{**asdict(found), "ridge": found.ridge, "points": points})


def roof_svg(found: Roofline) -> str:
    """Return TFLOP/s over operations for each byte, both in logarithms, under the roof."""
    points = [(p, p.intensity, p.tflops) for p in found.points if p.intensity and p.tflops]
    xs = [found.ridge, *(x for _, x, _ in points)]
    ys = [found.peak_tflops, *(y for _, _, y in points)]
    x0, x1 = floor(log10(min(xs)) - 0.2), ceil(log10(max(xs)) + 0.2)
    y0, y1 = floor(log10(min(ys)) - 0.1), ceil(log10(max(ys)) + 0.1)
    wide, high, left, top = 420, 240, 54, 40

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + wide * (log10(x) - x0) / (x1 - x0), top + high * (y1 - log10(y)) / (y1 - y0),
        )  # fmt: skip

    low = max(10.0**x0, 10.0**y0 / found.copy_gbps * 1e3)
    corners = [at(low, low * found.copy_gbps / 1e3), at(found.ridge, found.peak_tflops),
               at(10.0**x1, found.peak_tflops)]  # fmt: skip
    title = f"{found.kernel} on {found.device}"
    names = list(dict.fromkeys(p.name for p, _, _ in points))
    width, height = left + wide + 150, top + high + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10">'
        f'<title>{escape(title)}</title><rect width="{width}" height="{height}" fill="#ffffff"/>'
        f'<text x="4" y="14" font-size="12" font-weight="bold" fill="#24292f">{escape(title)}'
        "</text>"
    ]
    for power in range(x0, x1 + 1):
        x, _ = at(10.0**power, 10.0**y0)
        parts.append(f'<path d="M{x:.1f} {top}v{high}" stroke="#d0d7de" stroke-width=".5"/>'
                     f'<text x="{x:.1f}" y="{top + high + 14}" text-anchor="middle" '
                     f'fill="#24292f">{10.0**power:g}</text>')  # fmt: skip
    for power in range(y0, y1 + 1):
        _, y = at(10.0**x0, 10.0**power)
        parts.append(f'<path d="M{left} {y:.1f}h{wide}" stroke="#d0d7de" stroke-width=".5"/>'
                     f'<text x="{left - 4}" y="{y + 3:.1f}" text-anchor="end" '
                     f'fill="#24292f">{10.0**power:g}</text>')  # fmt: skip
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    right = left + wide + 8
    parts.append(
        f'<polyline points="{path}" fill="none" stroke="#24292f" stroke-width="1.5"/>'
        f'<text x="{left + wide // 2}" y="{top + high + 30}" text-anchor="middle" '
        f'fill="#24292f">operations / byte</text><text x="4" y="{top - 10}" fill="#24292f">TFLOP/s'
        f'</text><text x="{right}" y="{corners[2][1] + 3:.1f}" fill="#24292f">'
        f"{found.operand} {found.peak_tflops:.3g} TFLOP/s</text>"
        f'<text x="{right}" y="{corners[2][1] + 16:.1f}" fill="#24292f">copy '
        f"{found.copy_gbps:.4g} GB/s</text>"
    )
    for point, x, y in points:
        px, py = at(x, y)
        colour = _COLOURS[names.index(point.name) % len(_COLOURS)]
        share = f", {point.share:.0%} of the roof" if point.share else ""
        tip = f"{point.name} {point.x}: {point.milliseconds:.4g} ms{share}"
        shape = (
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4"' if names.index(point.name) == 0
            else f'<rect x="{px - 3.5:.1f}" y="{py - 3.5:.1f}" width="7" height="7"'
        )  # fmt: skip
        parts.append(f'{shape} fill="{colour}"><title>{escape(tip)}</title>'
                     f"</{'circle' if shape.startswith('<circle') else 'rect'}>")  # fmt: skip
    for number, name in enumerate(names):
        y = corners[2][1] + 40 + 14 * number
        parts.append(f'<text x="{right}" y="{y:.1f}" fill="{_COLOURS[number % len(_COLOURS)]}">'
                     f"{'●' if number == 0 else '■'} {escape(name)}</text>")  # fmt: skip
    return "".join([*parts, "</svg>"])
