"""The compiled kernels of one kernel object by device, in the shape in which Triton keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.devices.streams import HOST, STAND_INS
from workbench.launch.facts import Signature
from workbench.runtime import knobs

if TYPE_CHECKING:
    from workbench.runtime.compiled import CompiledKernel


@dataclass(frozen=True, slots=True)
class JitFunctionInfo:
    """A kernel object as compile hooks are told of it."""

    module: ModuleType | str
    name: str
    jit_function: Any


class KernelCache(dict[str, "CompiledKernel"]):
    """Kernels by target and specialisation; clearing it makes the next launch look anew."""

    def __init__(self, owner: Any, device: int) -> None:
        super().__init__()
        self._owner = owner
        self._device = device

    def clear(self) -> None:
        """Forget the kernels, and the launchers that know them."""
        super().clear()
        self._owner.forget_launches()

    def key(self, signature: Signature, target: str, extra: Mapping[str, Any]) -> str:
        """Return the key of a specialisation; `extra` are options that change nothing here."""
        words = "".join(f"\n{name} = {value!r}" for name, value in sorted(extra.items()))
        return f"{target}\n{signature.text()}{words}"

    def ask(
        self, key: str, signature: Signature, target: str, extra: Mapping[str, Any], *, warmup: bool
    ) -> bool:
        """Call `jit_cache_hook` about a compilation to come; True: it shall not happen."""
        hook = knobs.runtime.jit_cache_hook
        return bool(hook and hook(**self._told(key, signature, target, extra, warmup)))

    def tell(
        self, key: str, signature: Signature, target: str, extra: Mapping[str, Any], *, warmup: bool
    ) -> None:
        """Call `jit_post_compile_hook` about a compilation that happened."""
        hook = knobs.runtime.jit_post_compile_hook
        if hook:
            hook(**self._told(key, signature, target, extra, warmup))

    def _told(
        self, key: str, signature: Signature, target: str, extra: Mapping[str, Any], warmup: bool
    ) -> dict[str, Any]:
        from workbench.runtime.preloading import write_specialization

        owner, proxy = self._owner, signature.proxy()
        options: dict[str, Any] = {
            "num_warps": None,
            "num_stages": None,
            "num_ctas": 1,
            "enable_fp_fusion": True,
        }
        options |= {"launch_cooperative_grid": False, "extern_libs": (), **extra}
        if isinstance(options["extern_libs"], Mapping):
            options["extern_libs"] = tuple(options["extern_libs"].items())
        options |= dict(signature.options)
        words = ", ".join(f"{name}: {word}" for name, word in proxy.signature.items())
        shown = ", ".join(f"{name}={value}" for name, value in options.items())
        compiled = {
            "key": key,
            "signature": proxy.signature,
            "device": self._device,
            "constants": proxy.constants,
            **options,
            "configs": [signature.attributes()],
            "specialization_data": write_specialization(owner._fn_name, signature, target),
            "is_warmup": warmup,
        }
        return {
            "key": key,
            "repr": f"{owner.__qualname__}[{shown}]({words})",
            "fn": JitFunctionInfo(owner.module, owner.__qualname__, owner),
            "compile": compiled,
            "is_manual_warmup": warmup,
            "already_compiled": False,
        }


class DeviceCaches(dict[Any, tuple[Any, ...]]):
    """device -> (kernels, keys, target, backend, binder), as Triton has it; the first is in use."""

    def __init__(self, owner: Any) -> None:
        super().__init__()
        self._owner = owner

    def __missing__(self, device: Any) -> tuple[Any, ...]:
        if not isinstance(device, int) or device in STAND_INS:  # "cpu", as torch calls its one
            return self[HOST]
        made = KernelCache(self._owner, device), {}, None, None, None
        self[device] = made
        return made

    def clear(self) -> None:
        """Forget the kernels of all devices, and the launchers that know them."""
        super().clear()
        self._owner.forget_launches()
