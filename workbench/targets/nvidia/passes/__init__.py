"""Passes that only NVIDIA targets need: full blocks, asynchronous copies ahead of dots."""
