"""Kernel objects around others, and the functions of users that they ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.runtime.interface import KernelInterface
from workbench.runtime.jit import JITFunction
from workbench.runtime.pickling import reduce_by_place
from workbench.source import KernelSource, OptionError, shown
from workbench.source.given import WrongKindError


class Wrapper(KernelInterface[Any]):
    """A kernel object around another one."""

    def __init__(self, fn: Any, arg_names: Sequence[str]) -> None:
        self.fn = fn
        self.arg_names = list(arg_names)
        self.base_fn = fn
        while hasattr(self.base_fn, "fn"):
            self.base_fn = self.base_fn.fn
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(self.base_fn, name, None))

    @property
    def kernel_source(self) -> KernelSource:
        """The function as data."""
        return self.fn.kernel_source

    @property
    def results(self) -> list[Any]:
        """The compiled kernels, the latest last."""
        return self.fn.results

    @property
    def interpret(self) -> Any:
        """`kernel.interpret[grid](...)` watches the launch in the interpreter, without tuning."""
        return _Interpreted(self)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Launch over the grid that `kernel(grid=...)` gave; without one this is an error."""
        kernel = self._innermost
        if kernel.grid is None:
            raise kernel.without_grid(f"write {self.__name__}[grid](...)")
        return self[kernel.own_grid](*args, **given)

    @property
    def _innermost(self) -> JITFunction:
        kernel = self.fn
        while isinstance(kernel, Wrapper):
            kernel = kernel.fn
        return kernel

    def check_grid(self, given: Mapping[str, Any]) -> None:
        """Raise NoGridError where `run` was not given a grid."""
        if "grid" not in given:
            raise self._innermost.without_grid(f"write {self.__name__}.run(..., grid=(...,))")

    def no_parameter(self, option: str, name: str) -> OptionError:
        """Return the error for an option that names what the kernel does not take."""
        return OptionError(
            f"{option} names {shown(name)}, which is no parameter of {self.base_fn.__name__}",
            hint=f"its parameters are {', '.join(self.arg_names)}",
            code="K112",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce_by_place(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "fn" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["fn"], name)


class _Interpreted:
    def __init__(self, kernel: Wrapper) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        from workbench.runtime.interpreted import run_watched

        return partial(run_watched, self._kernel, grid)


def as_kernel(fn: Any) -> Any:
    """Return a kernel object as it is, one made of anything else."""
    return fn if hasattr(fn, "run") and hasattr(fn, "arg_names") else JITFunction(fn)


def asked(what: str, hint: str, function: Callable[..., Any], /, *args: Any, **given: Any) -> Any:
    """Call a function of a user's; raises OptionError K105 where it takes other arguments."""
    try:
        return function(*args, **given)
    except TypeError as error:
        trace = error.__traceback__
        if trace is None or trace.tb_next is not None:
            raise  # its own code does that
        raise WrongKindError(f"{what} cannot be called: {error}", hint=hint) from None
