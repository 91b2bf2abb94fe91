"""A Jupyter kernel behind two pipes, for pages that stand for other front ends.

`python bridge.py PYTHON`: PYTHON is the interpreter that runs the kernel. One JSON object a line.
In: {"execute": code}, {"comm": content} or {"interrupt": true}; the end of the input ends the
kernel. Out: what the kernel publishes, {"type", "content", "parent", "buffers"}: the type of the
request that it belongs to, and buffers as base64.
"""

from __future__ import annotations

import base64
import json
import queue
import sys
import threading
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

ARGUMENTS = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]


def main(python: str) -> None:
    """Start the kernel and pass on what comes in."""
    manager = KernelManager()
    spec = KernelSpec(argv=[python, *ARGUMENTS], display_name="", language="python")
    manager._kernel_spec = spec
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    threading.Thread(target=publish, args=(client,), daemon=True).start()
    try:
        for line in sys.stdin:
            match json.loads(line):
                case {"execute": code}:
                    client.execute(code)
                case {"comm": content}:
                    client.shell_channel.send(client.session.msg("comm_msg", content))
                case _:
                    manager.interrupt_kernel()
    finally:
        manager.shutdown_kernel(now=True)


def publish(client: Any) -> None:
    """Write what the kernel publishes."""
    while True:
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            continue
        buffers = [base64.b64encode(buffer).decode() for buffer in message.get("buffers", [])]
        told = {
            "type": message["msg_type"],
            "content": message["content"],
            "parent": message["parent_header"].get("msg_type"),
            "buffers": buffers,
        }
        sys.stdout.write(f"{json.dumps(told, default=str)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
