"""Element types: how arrays and signatures spell them, and how wide they are."""

from __future__ import annotations

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
