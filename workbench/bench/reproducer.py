"""Writes a launch as one Python file: `python add.py` makes arguments, launches, checks and times.

The file holds the kernel, the device functions that it calls and the values that both read, and
runs on workbench (any machine) or on Triton (a GPU). Arrays have the shapes, strides and types of
the launch, and hold what they held there as far as that is little: one input may follow from
another, and integers may be places. What is more is drawn anew, which the file says.
"""

from __future__ import annotations

import ast
import base64
import builtins
import inspect
import sys
import zlib
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from workbench.bench.arrays import bytes_of, dtype_of, is_array, is_float, shape_of
from workbench.bench.definitions import Definitions, no_text
from workbench.bench.plan import Plan
from workbench.bench.samples import address_of, held_by, steps_of
from workbench.bench.subject import Subject
from workbench.runtime.compiled import CompiledKernel
from workbench.source import KernelError, parsed_expression

#: The most bytes of arrays that a file holds, the smallest arrays first.
MOST_BYTES = 1 << 17

_TORCH = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e4b8": "float8_e4m3fnuz",
    "f8e5b16": "float8_e5m2fnuz", "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip


def reproducer(
    kernel: CompiledKernel, comment: str, subject: Subject | None = None, plan: Plan | None = None
) -> str:
    """Return the file; `comment` says what was compiled.

    Raises OptionError K804 for what has no form as text, naming it.
    """
    texts = Definitions()
    entry = texts.kernel(kernel.source)
    name = kernel.source.name
    main = _no_launch(name) if subject is None else _Launch(texts, subject, entry).lines(plan)
    modules = "".join(f"{line}\n" for line in texts.modules)
    return f'''\
"""{_quoted(comment)}

Repeats a launch of `{name}` on arrays of the same kind: python FILE. Needs torch, and workbench
(which runs it on any machine) or Triton (which needs a GPU).
"""

import base64
import sys
import zlib

try:
    import torch
except ModuleNotFoundError:
    sys.exit("this file needs torch: pip install torch")
try:
    import workbench
except ModuleNotFoundError:
    workbench = None  # Triton itself, then
else:
    workbench.as_triton()
try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    sys.exit("this file needs workbench (any machine) or Triton (a GPU): neither is installed")
{modules}

{texts.body()}


{main.strip()}


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        if workbench is None or not isinstance(error, workbench.KernelError):
            raise
        sys.exit(f"{{type(error).__name__}}: {{error}}")  # the frames are the compiler's
'''


def _no_launch(name: str) -> str:
    return f"""def main():
    print("no launch of {name} was recorded: call {name}[grid](...) with arguments of yours")
"""


class _Launch:
    """Writes `inputs`, `check` and `main` of one launch."""

    def __init__(self, texts: Definitions, subject: Subject, entry: str) -> None:
        self.texts = texts
        self.subject = subject
        self.entry = entry
        self.kept: dict[str, str] = {}
        room = MOST_BYTES
        for name in sorted(self._read(), key=lambda name: bytes_of(subject.arguments[name])):
            array = subject.arguments[name]
            size = bytes_of(array)
            if size <= room and 0 not in steps_of(array):  # else elements share their place
                room -= size
                self.kept[name] = _packed(array)

    def _read(self) -> list[str]:
        """Return the arrays that the kernel reads; what others hold does not matter."""
        return [
            name for name, value in self.subject.arguments.items()
            if is_array(value) and self.subject.roles.get(name) != "out"
        ]  # fmt: skip

    def _data(self) -> str:
        """Return the definition of what the arrays hold."""
        if not self.kept:
            return ""
        rows = "".join(
            f"    {name!r}:\n" + "".join(f"        {row!r}\n" for row in _rows(text)) + "    ,\n"
            for name, text in self.kept.items()
        )
        return _HELD.replace("ROWS", rows)

    def lines(self, plan: Plan | None) -> str:
        """Return the functions of the file; the check of a plan with a reference among them."""
        subject, texts = self.subject, self.texts
        made = [f"    {line}" for line in self._inputs()]
        drawn = [name for name in self._read() if name not in self.kept]
        drawn += [
            name for name, value in subject.arguments.items() if hasattr(value, "block_shape")
        ]
        names = ", ".join(f"{name}={name}" for name in subject.arguments)
        settings = {**subject.constants, **subject.settings}
        settings.pop("target", None)
        given = "".join(
            f", {name}={texts.expression(name, value)}" for name, value in settings.items()
        )
        expected = self._expected(plan)
        grid = tuple(subject.grid)
        call = f"{self.entry}[{grid}](**given{given})"
        outputs = "".join(f"{name!r}, " for name in subject.outputs)
        checks = _CHECKS.format(
            entry=self.entry, grid=grid, given=given, outputs=outputs,
            drawn=_DRAWN.format(", ".join(drawn)) if drawn else "",
        )  # fmt: skip
        return (self._data() + _MAIN).format(
            made="\n".join(made), names=names, expected="\n".join(expected or [""]),
            checks=checks if any(line.startswith("def ") for line in expected) else "",
            call=call, outputs=outputs, name=subject.name,
        )  # fmt: skip

    def _inputs(self) -> Iterator[str]:
        """Yield the statements that make each argument."""
        seen: dict[int, str] = {}
        for name, value in self.subject.arguments.items():
            if not is_array(value):
                yield f"{name} = {self._argument(name, value)}"
                continue
            address = address_of(value)
            like = seen.setdefault(address, name) if address is not None else name
            if like != name:
                yield f"{name} = {_view(value, like)}"
            elif name in self.kept:
                kind = f"torch.{_TORCH[dtype_of(value)]}"
                shape, steps = list(shape_of(value)), list(steps_of(value))
                yield f'{name} = held("{name}", {kind}, {shape}, {steps}, device)'
            else:
                yield f"{name} = {_array(value)}"

    def _argument(self, name: str, value: Any) -> str:
        if is_array(value):
            return _array(value)
        if isinstance(value, tuple):
            items = [self._argument(name, item) for item in cast("tuple[Any, ...]", value)]
            if hasattr(value, "_fields"):
                raise no_text(f"the argument {name}", value)
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if all(hasattr(value, word) for word in ("base", "shape", "strides", "block_shape")):
            self.texts.module_line("from triton.tools.tensor_descriptor import TensorDescriptor")
            shape, strides, block = (list(map(int, getattr(value, w)))
                                     for w in ("shape", "strides", "block_shape"))  # fmt: skip
            return f"TensorDescriptor({_array(value.base)}, {shape}, {strides}, {block})"
        return self.texts.expression(f"the argument {name}", value)

    # -- the check ------------------------------------------------------------------------
    def _expected(self, plan: Plan | None) -> list[str]:
        """Return the lines of `expected`, or what is to be said where it has no text."""
        subject, text = self.subject, "" if plan is None else plan.reference_text
        if plan is None or plan.reference is None or not text or not subject.outputs:
            return []
        said = f"# The check was against {_quoted(text)!r}"
        try:
            tree = parsed_expression(text)
        except SyntaxError:
            return [f"{said}, which is no expression."]
        lines: list[str] = []
        for word in sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}):
            if word in subject.arguments or hasattr(builtins, word):
                continue
            try:
                if word in subject.words:
                    lines.append(f"    {word} = {subject.words[word]}")
                elif word in subject.constants:
                    value = self.texts.expression(word, subject.constants[word])
                    lines.append(f"    {word} = {value}")
                elif word in plan.namespace:
                    self.texts.need(word, plan.namespace[word])
                else:
                    return [f"{said}; nobody knows here what {word} is."]
            except KernelError as error:
                return [f"{said}; {_quoted(str(error.args[0]))}."]
        called = plan.namespace.get(text) if isinstance(tree, ast.Name) else None
        if callable(called):  # it gets the arguments that its parameters name
            wanted = inspect.signature(called).parameters
            text += f"({', '.join(f'{n}={n}' for n in subject.arguments if n in wanted)})"
        head = f"def expected({', '.join(subject.arguments)}):"
        return ["", head, *lines, f"    return {text}", "", ""]


#: How a file has what arrays held; braces are doubled, as in what it is put in front of.
_HELD = """
#: What arrays held in the launch, in their logical order.
HELD = {{
ROWS}}


def held(name, kind, shape, strides, device):
    data = bytearray(zlib.decompress(base64.b64decode(HELD[name])))
    values = torch.empty(0, dtype=kind)
    if data:
        values = torch.frombuffer(data, dtype=torch.uint8).view(kind)
    found = torch.empty_strided(shape, strides, dtype=kind, device=device)
    return found.copy_(values.reshape(shape))


"""

_DRAWN = """
    print("drawn anew, not as in the launch: {}")"""

#: What `main` does with a reference: workbench judges by a model of rounding errors.
_CHECKS = """{drawn}
    if workbench is not None:
        workbench.check({entry}, expected, args=inputs(device), grid={grid}{given})
        print("check: ok")
    else:
        wanted = expected(**inputs(device))
        if torch.is_tensor(wanted):
            wanted = (wanted,)
        names = tuple(wanted) if isinstance(wanted, dict) else ({outputs})
        for name, values in zip(names, wanted.values() if isinstance(wanted, dict) else wanted):
            torch.testing.assert_close(given[name], values.to(given[name].dtype))"""

_MAIN = """
def inputs(device):
    torch.manual_seed(0)
{made}
    return dict({names})

{expected}
def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and workbench is None:
        sys.exit("Triton needs a GPU, and torch sees none; with workbench this runs on the CPU")
    given = inputs(device)
    {call}
    for name in ({outputs}):
        values = given[name].detach().cpu()
        print(f"{{name}}: {{values.flatten()[:6].tolist()}} ... of {{tuple(values.shape)}}"){checks}
    milliseconds = triton.testing.do_bench(lambda: {call})
    print(f"{name} on {{device}}: {{milliseconds:.4f}} ms")
"""


def _array(value: Any) -> str:
    """Return an expression that makes an array of the same kind on `device`."""
    known, shape, steps = dtype_of(value), shape_of(value), steps_of(value)
    kind = f"torch.{_TORCH[known]}"
    reach = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    dense = reach == int(np.prod(shape, dtype=np.int64))
    values, low, high = held_by(value)
    if is_float(known):
        made = f"torch.randn({reach}, device=device).to({kind})"
        if known in ("f32", "f64"):
            made = f"torch.randn({reach}, dtype={kind}, device=device)"
    elif values is not None and dense:
        numbers = [bool(n) for n in values] if known == "i1" else values
        made = f"torch.tensor({numbers}, dtype={kind}, device=device)"
    else:
        made = f"torch.randint({low}, {high + 1}, ({reach},), device=device).to({kind})"
    if steps == _contiguous(shape):
        return made if shape == (reach,) else f"{made}.reshape({list(shape)})"
    return f"{made}.as_strided({list(shape)}, {list(steps)})"


def _packed(array: Any) -> str:
    """Return an array's elements in their logical order as text."""
    if isinstance(array, np.ndarray):
        data = np.ascontiguousarray(array).tobytes()
    else:
        torch = sys.modules["torch"]
        data = array.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _rows(text: str) -> list[str]:
    return [text[start : start + 88] for start in range(0, len(text), 88)]


def _view(value: Any, name: str) -> str:
    """Return an expression for an array that begins where another one does."""
    return f"{name}.as_strided({list(shape_of(value))}, {list(steps_of(value))})"


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    found: list[int] = []
    step = 1
    for extent in reversed(shape):
        found.append(step)
        step *= max(extent, 1)
    return tuple(reversed(found))


def _quoted(text: str) -> str:
    """Return a text that ends no docstring and no line."""
    return text.replace("\\", "\\\\").replace('"""', "'''").replace("\n", " ")
