"""`workbench.as_triton(cuda="cpu")`: code that asks torch for CUDA runs on the CPU.

For learning and debugging, on any machine. While it is on:

- tensors made for "cuda", and all that is computed from them, are CPU tensors that answer
  `.device` and `.is_cuda` as CUDA's would. Tensors made for the host meanwhile stay there:
  `.cuda()` copies them, `.cpu()` copies back, so that what is changed on one side stays on the
  other as it was. Tensors from before count as CUDA's;
- `torch.cuda` answers as one device of capability (9, 0); streams, events and caches are there and
  do nothing, graphs are refused;
- kernels run on the CPU, since their arrays lie there;
- operators that are registered for CUDA meanwhile are there for its tensors
  (`operators_on_cpu.py`);
- functions given to `torch.compile` run as they are: its compiler writes what modes do into its
  graphs, where no tensor says on which side it is.

A `TorchFunctionMode` does the first: it sees every function and method of torch, also those bound
before by `from torch import empty`, and nothing of torch's C++ is changed. Modes belong to a
thread: threads that are started meanwhile get one of their own. Leaving puts everything back.
"""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace, TracebackType
from typing import Any

from workbench.devices import arrays
from workbench.devices import cuda as devices
from workbench.devices.streams import STAND_INS
from workbench.source import OptionError
from workbench.triton import operators_on_cpu
from workbench.triton.runtime.driver import CpuDriver, GPUTarget, driver

CAPABILITY = (9, 0)
_HOST = "_workbench_on_host"
#: What makes tensors for CUDA unasked, since `set_default_device` said so; torch is told "cpu".
_makers: set[Any] = set()
_ABSENT: Any = object()
_NAME = "CPU (workbench answers for CUDA)"


class StandInDriver(CpuDriver):
    """The CPU, which says that it is a CUDA device."""

    def get_current_device(self) -> int:
        """Return 0, the one device."""
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Return the capability that libraries are told."""
        return CAPABILITY

    def get_current_target(self) -> GPUTarget:
        """Return what libraries are told that kernels are compiled for."""
        return GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], 32)

    def get_active_torch_device(self) -> Any:
        """Return the device as torch names it."""
        return _torch().device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return torch's module for CUDA."""
        return _torch().cuda


class _Stream:
    """A stream on which everything is done at once."""

    cuda_stream = 0
    priority = 0
    stream_id = 0

    def __init__(self, *args: Any, **given: Any) -> None:
        self.device = _torch().device("cuda", 0)
        self.device_index = 0

    def query(self) -> bool:
        """Say that all work is done."""
        return True

    def record_event(self, event: Any = None) -> Any:
        """Return an event that has happened."""
        found = _Event() if event is None else event
        found.record()
        return found

    def synchronize(self) -> None:
        """Return: all work is done."""

    wait_event = wait_stream = lambda self, other: None

    def __enter__(self) -> _Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


class _Event:
    """An event with the host's time."""

    def __init__(self, *args: Any, **given: Any) -> None:
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Take the time."""
        import time

        self._time = time.perf_counter()

    def elapsed_time(self, end_event: _Event) -> float:
        """Return the milliseconds between two events."""
        if self._time is None or end_event._time is None:
            raise RuntimeError("both events must be recorded before their times are compared")
        return (end_event._time - self._time) * 1e3

    def query(self) -> bool:
        """Say that it has happened."""
        return True

    def synchronize(self) -> None:
        """Return: it has happened."""

    wait = lambda self, stream=None: None  # noqa: E731


def _refuse(*args: Any, **given: Any) -> Any:
    raise OptionError(
        'CUDA graphs are not there under as_triton(cuda="cpu")',
        hint="call the function itself; as_triton() without cuda runs on the GPU",
        code="K136",
    )


def _nothing(*args: Any, **given: Any) -> None:
    """Do nothing."""


class _Region:
    """A context manager and decorator without effect: `torch.cuda.device(0)`."""

    def __init__(self, *args: Any, **given: Any) -> None:
        self.idx = self.prev_idx = 0

    def __enter__(self) -> _Region:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


def _torch() -> Any:
    return importlib.import_module("torch")


def _is_cuda(value: Any) -> bool:
    """Say whether a value names a CUDA device."""
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, _torch().device) and value.type == "cuda"


def _on_host(tensor: Any) -> bool:
    return getattr(tensor, "__dict__", {}).get(_HOST, False)


def _mark(found: Any, host: bool) -> Any:
    """Note of all tensors in a result on which side they are."""
    if isinstance(found, _torch().Tensor):
        if host:
            found.__dict__[_HOST] = True
        else:
            found.__dict__.pop(_HOST, None)
    elif isinstance(found, tuple | list):
        for item in found:
            _mark(item, host)
    return found


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, _torch().Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _mode() -> Any:
    """Return the mode; its class needs torch."""
    torch = _torch()
    base = importlib.import_module("torch.overrides").TorchFunctionMode
    tensor = torch.Tensor
    places: dict[Any, Callable[[bool], Any]] = {
        tensor.is_cuda.__get__: lambda host: not host,
        tensor.is_cpu.__get__: lambda host: host,
        tensor.device.__get__: lambda host: torch.device("cpu" if host else "cuda:0"),
    }
    moves = {tensor.cuda: _to_cuda, tensor.cpu: _to_host, tensor.to: _to}

    class Mode(base):  # type: ignore[misc, valid-type]
        """Maps CUDA to the CPU in every call; see the top of this file."""

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            given = kwargs or {}
            if func is torch.device:  # a name alone
                return func(*args, **given)
            answer = places.get(func)
            if answer is not None:
                return answer(_on_host(args[0]))
            move = moves.get(func)
            return _called(func, args, given) if move is None else move(*args, **given)

    return Mode()


def _called(func: Any, args: Any, given: dict[str, Any]) -> Any:
    """Call a function of torch on the CPU, and note on which side its results are."""
    name = getattr(func, "__name__", "")
    if name == "pin_memory":
        return args[0]
    if name == "__set__":
        func(*args, **given)
        if func == _torch().Tensor.data.__set__:  # a tensor lies where what it now holds lay
            _mark(args[0], _on_host(args[1]))
        return None
    wanted = given.get("device")
    if wanted is None:
        args = tuple("cpu" if _is_cuda(a) else a for a in args)
        sides = [_on_host(t) for t in _tensors((*args, *given.values()))]
        host = all(sides) and (bool(sides) or func not in _makers)
    else:
        host = not _is_there(wanted)
        given = {**given, "device": _home(wanted)}
    return _mark(func(*args, **given), host)


def _is_there(device: Any) -> bool:
    """Say whether what stands for a device is CUDA's: a number is."""
    return _is_cuda(device) or (isinstance(device, int) and not isinstance(device, bool))


def _home(device: Any) -> Any:
    return "cpu" if _is_there(device) else device


def _to_cuda(source: Any, *args: Any, **given: Any) -> Any:
    return _mark(source.clone(), False) if _on_host(source) else source


def _to_host(source: Any, *args: Any, **given: Any) -> Any:
    return source if _on_host(source) else _mark(source.clone(), True)


def _to(source: Any, *args: Any, **given: Any) -> Any:
    """`.to(...)`: to the other side a tensor is copied."""
    torch = _torch()
    host, rest = _on_host(source), list(args)
    other = given.pop("other", None)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    if other is not None:
        host = _on_host(other)
        given["dtype"] = other.dtype
    place = given.get("device")
    if rest and isinstance(rest[0], str | int | torch.device) and not isinstance(rest[0], bool):
        place, rest[0] = rest[0], _home(rest[0])
    if given.get("device") is not None:
        given["device"] = _home(place)
    if place is not None:
        host = not _is_there(place)
    found = source.to(*rest, **given)
    if host != _on_host(source) and found is source:
        found = source.clone()
    return _mark(found, host)


def _own(answer: Any) -> Any:
    """Return a function of its own for an answer that several names share.

    Torch's compiler has a rule for each function, which it knows by the function.
    """
    if isinstance(answer, type):
        return answer
    return lambda *args, **given: answer(*args, **given)


def _answers(torch: Any) -> dict[str, Any]:
    """Return what `torch.cuda` has meanwhile, by name."""
    import os

    stream = _Stream()
    properties = SimpleNamespace(
        name=_NAME, major=CAPABILITY[0], minor=CAPABILITY[1], multi_processor_count=os.cpu_count(),
        total_memory=1 << 34, warp_size=32, max_threads_per_multi_processor=2048,
        max_threads_per_block=1024, regs_per_multiprocessor=65536, L2_cache_size=1 << 25,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472, is_integrated=0, is_multi_gpu_board=0,
        gcnArchName="",
    )  # fmt: skip
    zero = [
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "memory_cached",
        "max_memory_cached",
        "utilization",
        "temperature",
        "power_draw",
        "_exchange_device",  # of `_DeviceGuard`, which code written by torch.compile enters
        "_maybe_exchange_device",
    ]
    silent = [
        "synchronize",
        "set_device",
        "set_stream",
        "empty_cache",
        "init",
        "_lazy_init",
        "ipc_collect",
        "reset_peak_memory_stats",
        "reset_max_memory_allocated",
        "reset_accumulated_memory_stats",
    ]
    return {
        **dict.fromkeys(silent, _nothing),
        **{name: lambda *args, **given: 0 for name in zero},
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *args, **given: True,
        "is_tf32_supported": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: _NAME,
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [f"sm_{CAPABILITY[0]}{CAPABILITY[1]}"],
        "can_device_access_peer": lambda *args: False,
        "mem_get_info": lambda device=None: (1 << 33, 1 << 34),
        "memory_stats": lambda device=None: {},
        "memory_summary": lambda *args, **given: "",
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": _Region,
        "device": _Region,
        "device_of": _Region,
        "Stream": _Stream,
        "ExternalStream": _Stream,
        "Event": _Event,
        "CUDAGraph": _refuse,
        "graph": _refuse,
        "make_graphed_callables": _refuse,
        "manual_seed": torch.default_generator.manual_seed,
        "manual_seed_all": torch.default_generator.manual_seed,
        "seed": torch.default_generator.seed,
        "initial_seed": torch.default_generator.initial_seed,
        "get_rng_state": lambda device=None: torch.default_generator.get_state(),
        "set_rng_state": lambda state, device=None: torch.default_generator.set_state(state),
    }


def _generator(original: type) -> Any:
    class Generator(original):  # type: ignore[misc, valid-type]
        """torch's generator, on the CPU whatever device is asked for."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return original.__new__(original, "cpu")

    return Generator


class _CudaGenerator:
    """CUDA's generator as kernels of random numbers ask it: a seed, and an offset that they move.

    Its state is those two numbers. It follows `torch.manual_seed`; torch's own random numbers for
    CUDA come from the CPU's generator.
    """

    device = "cuda:0"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._followed: int | None = None
        self._words = [0, 0]

    def _now(self) -> list[int]:
        seed = self._torch.default_generator.initial_seed()
        if seed != self._followed:
            self._followed, self._words = seed, [(seed + (1 << 63)) % (1 << 64) - (1 << 63), 0]
        return self._words

    def initial_seed(self) -> int:
        """Return the seed."""
        return self._now()[0]

    def manual_seed(self, seed: int) -> _CudaGenerator:
        """Begin anew."""
        self._now()
        self._words = [seed, 0]
        return self

    def get_offset(self) -> int:
        """Return how many numbers were drawn."""
        return self._now()[1]

    def set_offset(self, offset: int) -> None:
        """Say how many numbers were drawn."""
        self._now()[1] = offset

    def get_state(self) -> Any:
        """Return seed and offset as 16 bytes on the host."""
        words = self._torch.tensor(self._now(), dtype=self._torch.int64)
        return _mark(words.view(self._torch.uint8), True)

    def set_state(self, state: Any) -> None:
        """Take what `get_state` gave."""
        self._now()
        self._words = state.view(self._torch.int64).tolist()


def _mapped(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return a function whose named arguments, and the first one, may name CUDA."""

    def call(*args: Any, **given: Any) -> Any:
        args = tuple("cpu" if _is_cuda(a) else a for a in args)
        return function(*args, **{n: "cpu" if _is_cuda(v) else v for n, v in given.items()})

    return call


def _set_default(original: Callable[[Any], None]) -> Callable[[Any], None]:
    def set_default_device(device: Any) -> None:
        _makers.clear()
        if _is_there(device):
            _makers.update(importlib.import_module("torch.utils._device")._device_constructors())
        original("cpu" if _makers else device)

    return set_default_device


def _get_default(original: Callable[[], Any]) -> Callable[[], Any]:
    def get_default_device() -> Any:
        return _torch().device("cuda", 0) if _makers else original()

    return get_default_device


def _replacements(torch: Any) -> list[tuple[Any, str, Any]]:
    """Return (object, attribute, value) of all that is replaced meanwhile."""
    found = [(torch.cuda, name, _own(value)) for name, value in _answers(torch).items()]
    silent = ("range_push", "range_pop", "mark", "range_start", "range_end")
    nvtx = SimpleNamespace(range=_Region, **{name: _own(_nothing) for name in silent})
    start = torch.autocast.__init__

    def autocast(self: Any, device_type: str, *args: Any, **given: Any) -> None:
        start(self, "cpu" if _is_cuda(device_type) else device_type, *args, **given)

    run = threading.Thread.run

    def in_mode(self: threading.Thread) -> None:
        with _mode():
            run(self)

    registering = operators_on_cpu.Registering(
        torch, _mode, _tensors, _on_host, lambda: arrays.pretended
    )
    backwards = torch.autograd.graph._engine_run_backward

    def backward(*args: Any, **given: Any) -> Any:
        # A mode is off while it handles `y.backward()`, yet functions of the author's run in there.
        with _mode():
            return backwards(*args, **given)

    found += [(place, "_engine_run_backward", backward)
              for place in (torch.autograd, torch.autograd.graph)
              if hasattr(place, "_engine_run_backward")]  # fmt: skip
    found += [
        (torch.cuda, "nvtx", nvtx),
        (torch.cuda, "default_generators", (_CudaGenerator(torch),)),
        (torch.version, "cuda", torch.version.cuda or "13.0"),
        (torch, "Generator", _generator(torch.Generator)),
        (torch, "load", _mapped(torch.load)),
        (torch, "set_default_device", _set_default(torch.set_default_device)),
        (torch, "get_default_device", _get_default(torch.get_default_device)),
        (torch.autocast, "__init__", autocast),
        (torch._C, "_cuda_getCurrentRawStream", lambda device: 0),
        (threading.Thread, "run", in_mode),
        (torch.library.Library, "impl", registering.replacement()),
        (devices, "available", lambda: False),
        (arrays, "pretended", True),
    ]
    # What torch's compiler writes, pasted as a program, makes its arrays by a function of C.
    guards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    if hasattr(guards, "_empty_strided_cpu") and hasattr(guards, "_empty_strided_cuda"):
        found.append((guards, "_empty_strided_cuda", guards._empty_strided_cpu))
    return found


class _Uncompiled:
    """Has functions that were given to torch's compiler run as they are, until it is left.

    The compiler takes seconds to import, so it is told when somebody first asks for it.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._compile = torch.compile
        self._told: Any = None
        if "torch._dynamo" in sys.modules:
            self._tell()

    def _tell(self) -> None:
        # Versions before 2.6 cannot be told.
        if self._told is None and hasattr(self._torch.compiler, "set_stance"):
            self._told = self._torch.compiler.set_stance("force_eager")

    def compile(self, *args: Any, **given: Any) -> Any:
        """Stand for `torch.compile`: what is made compiles once nobody pretends any more."""
        warnings.warn(
            'under as_triton(cuda="cpu") torch.compile compiles nothing: functions run as they are',
            stacklevel=2,
        )
        self._tell()
        return self._compile(*args, **given)

    def leave(self) -> None:
        """Let functions be compiled as before."""
        if self._told is not None:
            self._told.__exit__(None, None, None)


@contextmanager
def _entered(torch: Any) -> Iterator[None]:
    before: list[tuple[Any, str, Any]] = []
    mode = _mode()
    uncompiled = _Uncompiled(torch)
    try:
        compiling = (torch, "compile", uncompiled.compile)
        for owner, name, value in (*_replacements(torch), compiling):
            before.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, value)
        driver.set_active(StandInDriver())
        STAND_INS.add(0)
        with mode:
            yield
    finally:
        STAND_INS.clear()
        _makers.clear()
        uncompiled.leave()
        driver.reset_active()
        for owner, name, value in reversed(before):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


#: What is entered until it is left: a context that nobody holds would leave itself.
_KEPT: list[Any] = []


def enter() -> Callable[[], object]:
    """Let CUDA be answered by the CPU; returns what ends it. Raises OptionError without torch."""
    try:
        torch = _torch()
    except ImportError:
        raise OptionError('as_triton(cuda="cpu") needs torch', code="K136") from None
    if isinstance(driver.active, StandInDriver):  # within another one: nothing more to do
        return _nothing
    entered = _entered(torch)
    entered.__enter__()
    _KEPT.append(entered)

    def leave() -> None:
        _KEPT.remove(entered)
        entered.__exit__(None, None, None)

    return leave
