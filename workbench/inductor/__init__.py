"""`torch.compile` through our compiler: the kernels that torch writes are compiled by us.

    wb.use_in_torch_compile()                 # for the rest of the process
    with wb.use_in_torch_compile() as graphs: # for what is compiled within the block
        torch.compile(model)(x)
    print(graphs)                             # which kernels each has, and from what lines

`switching.py` binds Triton's names in torch to ours, `compiling.py` and `writing.py` take the
place of what compiles and writes kernels there, `results.py` is what launches, `workers.py` runs in
torch's workers, `graphs.py` keeps what was made. Torch is imported only when it is turned on.
"""

from __future__ import annotations

from workbench.inductor.graphs import Graph, GraphKernel, Graphs
from workbench.inductor.using import graphs, use_in_torch_compile

__all__ = ["Graph", "GraphKernel", "Graphs", "graphs", "use_in_torch_compile"]
