"""A Jupyter-centric workbench for GPU kernels: compile, look at, launch, check and time them."""
