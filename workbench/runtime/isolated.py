"""One launch in a process of its own: whatever it does to memory ends that process only."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.runtime import shipping
from workbench.source import KernelError, LaunchError

#: A child that does not come back is ended.
SECONDS = 300.0


def run(
    kernel: Any,
    grid: Sequence[int],
    arguments: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    gpu: bool,
    outputs: Sequence[str],
    seconds: float = SECONDS,
) -> dict[str, Any]:
    """Launch in a child process and return the output arrays, on the host.

    Args:
        kernel: the kernel object.
        grid: 1 to 3 integers.
        arguments: by name, arrays on the host.
        settings: constexprs and options.
        gpu: put the arrays on the device first.
        outputs: the arrays to bring back.
        seconds: how long to wait.

    Raises:
        LaunchError: what the child reported; K511 where it ended, or took too long.
    """
    job = (kernel, tuple(grid), dict(arguments), dict(settings), gpu, tuple(outputs))
    try:
        data = shipping.dumps(job)
    except shipping.ShippingError as error:
        raise LaunchError(
            f"the launch cannot be sent to another process: {error}",
            hint="launch without --isolate; --guard finds wrong accesses here",
            code="K511",
        ) from error
    environment = shipping.environment()
    command = [sys.executable, "-c", "from workbench.runtime.isolated import main; main()"]
    try:
        done = subprocess.run(
            command, input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LaunchError(
            f"the launch did not end within {seconds:.0f} s, so its process was ended",
            hint="look for a loop without an end, or for a lock that nobody gives back",
            code="K511",
        ) from None
    if done.returncode or not done.stdout:
        raise LaunchError(
            f"the launch ended its process ({_how(done.returncode)}); this one is unharmed",
            hint="--guard looks for accesses outside of the arguments before the launch",
            code="K511",
        )
    found = pickle.loads(done.stdout)
    if isinstance(found, KernelError):
        raise found
    lines, results = found
    sys.stdout.write(lines)
    return results


def _how(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    return signal.Signals(-status).name


def main() -> None:
    """Do the launch that standard input holds; the answer goes to standard output."""
    from workbench.devices.printed import captured

    answer = os.fdopen(os.dup(1), "wb")
    shipping.enter()
    kernel, grid, arguments, settings, gpu, outputs = shipping.loads(sys.stdin.buffer.read())
    try:
        with captured() as lines:
            results = _launched(kernel, grid, arguments, settings, gpu, outputs)
        found: Any = "".join(f"{line}\n" for line in lines), results
    except KernelError as error:
        error.trace, error.others = None, ()
        error.__cause__ = error.__context__ = error.__traceback__ = None
        found = error
    answer.write(pickle.dumps(found))
    answer.flush()
    # A broken CUDA context may hang or complain when Python ends as usual.
    os._exit(0)


def _launched(
    kernel: Any,
    grid: tuple[int, ...],
    arguments: dict[str, Any],
    settings: dict[str, Any],
    gpu: bool,
    outputs: tuple[str, ...],
) -> dict[str, Any]:
    if not gpu:
        kernel[grid](**arguments, **settings)
        return {name: arguments[name] for name in outputs}
    from workbench.devices import cuda

    moved = {n: v.cuda() if hasattr(v, "cuda") else v for n, v in arguments.items()}
    kernel[grid](**moved, **settings)
    cuda.synchronize(0)
    return {name: moved[name].cpu() for name in outputs}
