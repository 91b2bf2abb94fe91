"""`%layouts` and `%access`: where tiles lie and what accesses cost, before anything runs.

Everything is read from GPU IR, and made only when asked for. Works without IPython.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from workbench.ir import Module, Op, Shared, Tile, Value, element_of, shape_of, value_names
from workbench.layouts import BANKS, LinearLayout
from workbench.magics import variants
from workbench.magics.drawing import Drawn, chart_svg, chart_text, grid_svg, grid_text
from workbench.magics.plain import plain
from workbench.magics.texts import Shown
from workbench.magics.values import closest
from workbench.runtime.compiled import CompiledKernel
from workbench.source import OptionError

#: By which of its places a tile is drawn.
BY = ("warp", "lane", "register", "bank")
#: Pictures and tables of at most so many values at once.
_MOST = 12


@dataclass(frozen=True, slots=True)
class Named:
    """A value of GPU IR under the name that the text gives it, and the op that makes it."""

    name: str
    value: Value
    op: Op


def gpu_module(kernel: Any, namespace: Mapping[str, Any] | None) -> tuple[CompiledKernel, Module]:
    """Return the first compilation of a result that has GPU IR; raises K151."""
    result = variants.find(kernel, namespace)
    named = isinstance(kernel, str) and "@" in kernel
    for record in result.records[: 1 if named else None]:
        built = record.compiled.compiled.built if record.compiled is not None else None
        if record.compiled is not None and built is not None and built.gpu is not None:
            return record.compiled, built.gpu
    raise OptionError(
        f"{result.name} was compiled for no GPU, and only there tiles have layouts",
        code="K151", hint=f"give %%kernel --target sm_90a, or name {result.name}@sm_90a",
    )  # fmt: skip


def named_values(module: Module) -> Iterator[Named]:
    """Yield the tiles and buffers that ops of a module make, in program order."""
    names = value_names(module)
    for op in module.walk():
        for value in op.results:
            if isinstance(value.type, Tile | Shared) and value.type.layout is not None:
                yield Named(names[value], value, op)


def _layout(value: Value) -> LinearLayout:
    assert isinstance(value.type, Tile | Shared)
    assert value.type.layout is not None
    return value.type.layout


def on_line(op: Op, line: int) -> bool:
    """Say whether an op stands for a line of the kernel, or for a call in it."""
    spans = (op.span, *op.span.calls) if op.span is not None else ()
    return any(span.line == line for span in spans)


# -- layouts ----------------------------------------------------------------------------------
def layouts(
    kernel: Any = None,
    which: str | None = None,
    *,
    by: str | None = None,
    warp: int | None = None,
    shared: bool = False,
    as_json: bool = False,
    namespace: Mapping[str, Any] | None = None,
) -> Shown:
    """Return where the elements of tiles lie.

    Args:
        kernel: a name, K@SPEC, a result or a kernel object; the latest result if None.
        which: a value of the GPU IR ("a.1", "%9") or a source line ("18"); None lists all.
        by: draw by warp, lane, register or bank; None: by warp and lane, a buffer by bank.
        warp: draw the elements that this warp holds alone, by lane and register.
        shared: the intervals of shared memory instead.
        as_json: plain data as text.
        namespace: where names are looked up first.

    Raises:
        OptionError: K151 where there are no layouts, or no such value.
    """
    compiled, module = gpu_module(kernel, namespace)
    if shared:
        return _intervals(compiled, module, as_json=as_json)
    every = list(named_values(module))
    if which is None and warp is not None:
        raise OptionError(
            "--warp draws what a warp holds of a tile, and no tile is named", code="K151",
            hint=f"%layouts {compiled.name} VALUE --warp {warp}",
        )  # fmt: skip
    if which is None:
        return _json(compiled, every) if as_json else Shown(_listing(compiled, every))
    chosen = _choose(every, which, compiled.name)
    if warp is not None:
        chosen = _of_warp(chosen, warp, by)
    if as_json:
        return _json(compiled, chosen, warp)
    shown = chosen[:_MOST]
    texts, pictures = zip(*(_drawn(one, by, warp) for one in shown), strict=True)
    more = [f"{len(chosen) - _MOST} more: %layouts {compiled.name} VALUE"]
    text = "\n\n".join([*texts, *more[: len(chosen) > _MOST]])
    return Drawn(text, [*filter(None, pictures)])


def _choose(every: list[Named], which: str, kernel: str) -> list[Named]:
    wanted = which.removeprefix("%")
    found = [one for one in every if one.name == wanted]
    if which.isdecimal():
        found = [one for one in every if on_line(one.op, int(wanted))]
        seen: dict[Any, Named] = {}
        for one in found:  # one of each kind says it all
            seen.setdefault((one.value.type, one.name.partition(".")[0].isdecimal()), one)
        found = list(seen.values())
    if not found:
        better = closest(wanted, [one.name for one in every])
        raise OptionError(
            f"{kernel} has no tile '{wanted}', and none came from such a line{better}",
            code="K151", hint=f"%layouts {kernel} lists them",
        )  # fmt: skip
    return found


def _listing(compiled: CompiledKernel, every: list[Named]) -> str:
    """Return a row for each layout: who has it, and its bases."""
    groups: dict[LinearLayout, list[Named]] = {}
    for one in every:
        layout = _layout(one.value)
        groups.setdefault(layout, []).append(one)
    what = f"{_count(len(groups), 'layout')} of {_count(len(every), 'tile')}"
    parts = [f"{compiled.name} for {compiled.target}: {what}"]
    for layout, having in groups.items():
        names = ", ".join(f"%{one.name}" for one in having[:6])
        rest = f" and {len(having) - 6} more" if len(having) > 6 else ""
        kind = f" {layout.kind}" if layout.kind else ""
        parts.append(f"\n{'×'.join(map(str, layout.shape))}{kind}: {names}{rest}")
        parts += _bases(layout)
    parts.append(f"\n{_READING}")
    parts.append(f"%layouts {compiled.name} VALUE draws one; --shared shows the intervals")
    return "\n".join(parts)


_READING = (
    "to read: for each bit of a register's, lane's or warp's number, the lowest first, how far it "
    "moves an element; 0: another copy"
)


def _bases(layout: LinearLayout) -> list[str]:
    return [
        f"  {name:<8} {' '.join(map(_vector, vectors))}"
        for name, vectors in layout.bases.items()
        if vectors
    ]


def _vector(vector: tuple[int, ...]) -> str:
    return str(vector) if len(vector) > 1 else "".join(map(str, vector))


def _of_warp(chosen: list[Named], warp: int, by: str | None) -> list[Named]:
    """Return those tiles of which a warp may hold something."""
    if by in ("warp", "bank"):
        raise OptionError(
            f"--warp {warp} draws by lane or register, not by {by}", code="K151",
            hint="leave --by out",
        )  # fmt: skip
    found = [one for one in chosen if not isinstance(one.value.type, Shared)]
    if not found:
        raise OptionError(
            f"%{chosen[0].name} lies in shared memory, no warp holds it", code="K151",
            hint="leave --warp out: it is drawn by bank",
        )  # fmt: skip
    count = max(_layout(one.value).size("warp") for one in found)
    if not 0 <= warp < count:
        raise OptionError(
            f"%{found[0].name} has no warp {warp}, its warps are 0 to {count - 1}", code="K151",
            hint=f"--warp {count - 1}",
        )  # fmt: skip
    return found


def _elements_of(layout: LinearLayout, warp: int) -> dict[int, dict[str, int]]:
    """Return by element the first place at which a warp holds it, in the order of places."""
    start = layout.table("warp")[warp % layout.size("warp")]
    found: dict[int, dict[str, int]] = {}
    for lane, from_lane in enumerate(layout.table("lane")):
        for register, from_register in enumerate(layout.table("register")):
            place = {"lane": lane, "register": register}
            found.setdefault(start ^ from_lane ^ from_register, place)
    return found


def _of_one_warp(one: Named, by: str | None, warp: int) -> tuple[str, str]:
    """Return what a warp holds of a tile as text and picture, from its first row and column on."""
    layout = _layout(one.value)
    held = _elements_of(layout, warp)
    rows, columns = _two(layout.shape)
    inside = [
        (row, column)
        for row in range(rows)
        for column in range(columns)
        if _flat(layout, row, column) in held
    ]
    line = f", line {one.op.span.line}" if one.op.span is not None else ""
    head = f"%{one.name}: {one.op.name}{line}, {_type(one.value)}"
    if not inside:  # of extents that are no powers of two
        return (
            f"{head}\nwarp {warp} of {layout.size('warp')} holds no element of it, but padding",
            "",
        )
    top, left = (min(place[axis] for place in inside) for axis in (0, 1))
    bottom, right = (max(place[axis] for place in inside) for axis in (0, 1))
    names = (by,) if by else ("lane", "register")

    def cell(row: int, column: int) -> tuple[str, int]:
        place = held.get(_flat(layout, row + top, column + left))
        if place is None:
            return "·", 7
        return " ".join(f"{name[0]}{place[name]}" for name in names), place[names[0]] % 7

    drawn = f"warp {warp} of {layout.size('warp')}, by {' and '.join(names)}"
    held_by = f"{_count(len(inside), 'element')} of {rows * columns:,}; ·: another warp's"
    shape, start = (bottom - top + 1, right - left + 1), (top, left)
    text = [head, f"{drawn}: {held_by}", grid_text(shape, cell, "element", start)]
    return "\n".join(text), grid_svg(shape, cell, f"{head}, {drawn}", start)


def _drawn(one: Named, by: str | None, warp: int | None = None) -> tuple[str, str]:
    if warp is not None:
        return _of_one_warp(one, by, warp)
    layout = _layout(one.value)
    itemsize = element_of(one.value.type).itemsize
    is_buffer = isinstance(one.value.type, Shared)
    if is_buffer is not (by == "bank") and by is not None:
        has = "banks" if is_buffer else f"no banks, its places are {', '.join(BY[:3])}"
        raise OptionError(f"%{one.name} has {has}", code="K151", hint="leave --by out")
    rows, columns = _two(layout.shape)
    if is_buffer:
        cell = _by_bank(layout, itemsize, columns)
    else:
        cell = _by_place(layout, columns, (by,) if by else ("warp", "lane"))
    line = f", line {one.op.span.line}" if one.op.span is not None else ""
    head = f"%{one.name}: {one.op.name}{line}, {_type(one.value)}"
    drawn_by = "bank" if is_buffer else by or "warp and lane"
    title = f"{head}, by {drawn_by}"
    text = [
        f"{head}",
        *_bases(layout),
        _READING,
        f"by {drawn_by}:",
        grid_text((rows, columns), cell, "element"),
    ]
    copies = _copies(layout) if not is_buffer else 1
    if copies > 1:
        text.append(f"  {copies} places hold each element; the first is shown")
    return "\n".join(text), grid_svg((rows, columns), cell, title)


def _type(value: Value) -> str:
    return re.sub(r", linear<.*", ">", str(value.type))


def _two(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns in which a tile of any rank is drawn: the last axis goes right."""
    return (prod(shape[:-1]), shape[-1]) if shape else (1, 1)


def _flat(layout: LinearLayout, row: int, column: int) -> int:
    coordinates = [column] if layout.shape else list[int]()
    for extent in reversed(layout.shape[:-1]):
        coordinates.insert(0, row % extent)
        row //= extent
    return layout.flatten(coordinates)


def _by_place(layout: LinearLayout, columns: int, names: tuple[str, ...]) -> Any:
    """Return the cell function of a distributed layout: the first place of each element."""
    first: dict[int, dict[str, int]] = {}
    for warp, from_warp in enumerate(layout.table("warp")):
        for lane, from_lane in enumerate(layout.table("lane")):
            for register, from_register in enumerate(layout.table("register")):
                place = {"warp": warp, "lane": lane, "register": register}
                first.setdefault(from_warp ^ from_lane ^ from_register, place)
    del columns

    def cell(row: int, column: int) -> tuple[str, int]:
        place = first[_flat(layout, row, column)]
        return " ".join(f"{name[0]}{place[name]}" for name in names), place[names[0]]

    return cell


def _by_bank(layout: LinearLayout, itemsize: int, columns: int) -> Any:
    offsets = {flat: offset for offset, flat in enumerate(layout.table("offset"))}
    del columns

    def cell(row: int, column: int) -> tuple[str, int]:
        bank = offsets[_flat(layout, row, column)] * itemsize // BANKS.word_bytes % BANKS.count
        return f"b{bank}", bank // 4

    return cell


def _copies(layout: LinearLayout) -> int:
    places = layout.size("register") * layout.size("lane") * layout.size("warp")
    return max(1, places // prod(layout.padded))


def _json(compiled: CompiledKernel, chosen: list[Named], warp: int | None = None) -> Shown:
    found: list[dict[str, Any]] = []
    for one in chosen:
        layout = _layout(one.value)
        found.append({
            "value": one.name, "op": one.op.id, "name": one.op.name,
            "line": one.op.span.line if one.op.span is not None else None,
            "shape": list(shape_of(one.value.type) or layout.shape),
            "element": str(element_of(one.value.type)),
            "kind": "shared" if isinstance(one.value.type, Shared) else "register",
            "bases": {n: [list(v) for v in vectors] for n, vectors in layout.bases.items()},
        })  # fmt: skip
        if warp is not None:
            found[-1]["warp"] = warp
            found[-1]["held"] = [
                {**place, "element": list(layout.unflatten(flat))}
                for flat, place in _elements_of(layout, warp).items()
            ]
    return plain(kernel=compiled.name, target=compiled.target, layouts=found)


def _intervals(compiled: CompiledKernel, module: Module, *, as_json: bool) -> Shown:
    """Return who has which bytes of shared memory from when to when."""
    buffers = compiled.compiled.built.fields["shared"]
    if as_json:
        rows = [{n.removesuffix("_"): v for n, v in asdict(b).items()} for b in buffers]
        return plain(
            kernel=compiled.name, target=compiled.target,
            shared_bytes=compiled.compiled.built.shared_bytes, buffers=rows,
        )  # fmt: skip
    total = compiled.compiled.built.shared_bytes
    if not buffers:
        return Shown(f"{compiled.name} for {compiled.target} uses no shared memory")
    order = {op.id: n for n, op in enumerate(module.walk())}
    rows = [(b.name, b.offset, b.bytes, order[b.from_], order[b.to]) for b in buffers]
    title = f"{compiled.name} for {compiled.target}: shared memory"
    text = f"{title}\n{chart_text(rows, len(order), total)}"
    return Drawn(text, [chart_svg(rows, len(order), total, title)])


def _where(line: str | None) -> str:
    if line is None:
        return ""
    return f" in line {line}" if line.isdecimal() else f" where {line} is made"


def _lines_of(what: str, compiled: CompiledKernel) -> list[int]:
    """Return the line that a number means, or those where values of a name are made."""
    if what.isdecimal():
        return [int(what)]
    name = what.removeprefix("%")
    made = {
        (result.hint.partition(".")[0], op.span.line)
        for op in compiled.module.walk() for result in op.results
        if result.hint and op.span is not None
    }  # fmt: skip
    found = sorted({line for hint, line in made if hint == name})
    if not found:
        known = sorted({hint for hint, _ in made})
        raise OptionError(
            f"{compiled.name} has no value '{what}'{closest(name, known)}", code="K151",
            hint=f"give a line or one of {', '.join(known[:12])}",
        )  # fmt: skip
    return found


# -- accesses ---------------------------------------------------------------------------------
def access(
    kernel: Any = None,
    line: str | None = None,
    *,
    as_json: bool = False,
    namespace: Mapping[str, Any] | None = None,
) -> Shown:
    """Return what each load and store costs, as predicted from layouts and addresses.

    Args:
        kernel: a name, K@SPEC, a result or a kernel object; the latest result if None.
        line: only what came from this source line, or from where a value of this name was made,
            with the lanes of a request drawn.
        as_json: plain data as text.
        namespace: where names are looked up first.

    Raises:
        OptionError: K151 where there is no GPU IR, no such value, or no access on the line.
    """
    from workbench.targets.nvidia.moves import moves_in

    compiled, module = gpu_module(kernel, namespace)
    every = moves_in(module, compiled.target)
    wanted = None if line is None else _lines_of(line, compiled)
    chosen = [
        (op, m) for op, m in every if wanted is None or any(on_line(op, one) for one in wanted)
    ]
    if as_json:
        moves = [_move_data(op, m) for op, m in chosen]
        return plain(kernel=compiled.name, target=compiled.target, accesses=moves)
    if not chosen:
        lines = sorted({op.span.line for op, _ in every if op.span is not None})
        raise OptionError(
            f"{compiled.name} accesses no memory{_where(line)}",
            code="K151", hint=f"it does in {', '.join(map(str, lines))}" if lines else None,
        )  # fmt: skip
    head = ("line", "op", "memory", "bytes a lane", "requests a warp", "cost of a request")
    rows = [head, *dict.fromkeys(_move_row(op, m) for op, m in chosen)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    text = [f"{compiled.name} for {compiled.target}, predicted"]
    text += ["  ".join(f"{c:<{w}}" for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    if any(m.apart for _, m in chosen):
        text.append(
            "~ rows lie apart by what is known at the launch only: taken to share no sector"
        )
    if line is None:
        return Shown("\n".join(text))
    pictures: list[str] = []
    for move in dict.fromkeys(m for _, m in chosen):
        cell = _lane_cell(move)
        words = " ".join(filter(None, (move.space, move.direction, move.how and f"({move.how})")))
        unit = "b: bank of its first byte" if move.space == "shared" else "s: sector of 32 bytes"
        title = f"{words}: where the lanes of a warp access, {unit}"
        text += ["", title, grid_text((1, len(move.addresses)), cell, "lane")]
        pictures.append(grid_svg((1, len(move.addresses)), cell, title))
    return Drawn("\n".join(text), pictures)


def _lane_cell(move: Any) -> Any:
    """Return the cell function of lanes: the sector, or the first bank, that each accesses."""
    sectors: dict[int, int] = {}

    def cell(row: int, lane: int) -> tuple[str, int]:
        del row
        address = move.addresses[lane]
        if address is None:
            return "–", 7
        if move.space == "shared":
            bank = address // BANKS.word_bytes % BANKS.count
            return f"b{bank}", bank // 4
        number = sectors.setdefault(address // 32, len(sectors))
        return f"s{number}", number

    return cell


def _count(number: int | None, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def _move_row(op: Op, move: Any) -> tuple[str, ...]:
    how = f" ({move.how})" if move.how and move.how != "convert" else ""
    masked = ", masked" if getattr(op, "mask", None) is not None else ""
    cost = f"{_count(move.sectors, 'sector')}, ideal {move.ideal}{' ~' if move.apart else ''}"
    if move.space == "shared":
        worse = move.conflicts
        cost = f"{_count(move.wavefronts, 'wavefront')}, " + (
            "no bank conflict" if worse == 1 else f"{worse}-way bank conflict"
        )
    return (
        str(op.span.line) if op.span is not None else "–",
        f"{op.name}{how}{masked}", f"{move.space} {move.direction}",
        f"{move.bytes} = {move.vector} × {move.bytes // move.vector}", str(move.requests), cost,
    )  # fmt: skip


def _move_data(op: Op, move: Any) -> dict[str, Any]:
    found = asdict(move)
    found.update(
        op=op.id, name=op.name, line=op.span.line if op.span is not None else None,
        sectors=move.sectors, ideal=move.ideal, wavefronts=move.wavefronts,
        conflicts=move.conflicts,
    )  # fmt: skip
    return found
