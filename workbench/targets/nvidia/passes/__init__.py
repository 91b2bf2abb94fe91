"""Passes that only NVIDIA targets need: layouts, shared memory, pipelining."""
