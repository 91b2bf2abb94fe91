"""Element types: how arrays and signatures spell them, and how wide they are."""

from __future__ import annotations

from typing import Any

#: Every spelling of an element type that a signature may use -> the compiler's.
TYPE_NAMES = {
    **{name: name for name in ("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")},
    **{name: name for name in ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "f8e4b8",
                              "f8e5b16", "f8e4b15")},
    **{f"int{bits}": f"i{bits}" for bits in (1, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"fp{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bool": "i1", "u1": "i1", "bfloat16": "bf16", "half": "f16", "float": "f32", "double": "f64",
    "fp8e4nv": "f8e4m3", "float8e4nv": "f8e4m3", "float8_e4m3fn": "f8e4m3",
    "fp8e5": "f8e5m2", "float8e5": "f8e5m2", "float8_e5m2": "f8e5m2",
    "fp8e4b8": "f8e4b8", "float8e4b8": "f8e4b8", "float8_e4m3fnuz": "f8e4b8",
    "fp8e5b16": "f8e5b16", "float8e5b16": "f8e5b16", "float8_e5m2fnuz": "f8e5b16",
    "fp8e4b15": "f8e4b15", "float8e4b15": "f8e4b15",
}  # fmt: skip

ITEM_BITS = {
    name: 8 if name.startswith("f8") else int(name.lstrip("biuf"))
    for name in set(TYPE_NAMES.values())
}

#: Element types that Triton's signatures spell otherwise.
TRITON_NAMES = {
    "i1": "u1", "f16": "fp16", "f32": "fp32", "f64": "fp64", "f8e4m3": "fp8e4nv",
    "f8e5m2": "fp8e5", "f8e4b8": "fp8e4b8", "f8e5b16": "fp8e5b16", "f8e4b15": "fp8e4b15",
}  # fmt: skip


def triton_name(word: str) -> str:
    """Return a type in the spelling of Triton's signatures.

    >>> triton_name("*f32"), triton_name("i64")
    ('*fp32', 'i64')
    """
    depth = len(word) - len(word.lstrip("*"))
    rest = word[depth:]
    const = "k" if depth and rest.startswith("k") else ""
    name = rest.removeprefix(const)
    return "*" * depth + const + TRITON_NAMES.get(name, name)


def parse_type(word: str) -> str | None:
    """Return the compiler's spelling of a type word such as `*fp32`, None if there is no such."""
    depth = len(word) - len(word.lstrip("*"))
    rest = word[depth:]
    read_only = depth > 0 and rest.startswith("k")
    name = TYPE_NAMES.get(rest.removeprefix("k") if read_only else rest)
    if name is None:
        return None
    return "*" * depth + ("k" if read_only else "") + name


def annotated_type(annotation: Any) -> str | None:
    """Return the type that an annotation fixes: "*fp16", "i64", tl.int64; None for any other."""
    if annotation is None:
        return None
    if isinstance(annotation, str):
        word = annotation.strip().strip("'\"").removeprefix("tl.").removeprefix("triton.language.")
    elif type(annotation).__module__.startswith("workbench.language"):
        word = str(getattr(annotation, "name", annotation))
    else:
        return None
    return parse_type(word)
