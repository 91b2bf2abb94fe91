"""Devices: drivers, streams, arrays, the pool of threads of the CPU, what kernels print.

Torch and cuda are met lazily and by duck typing. Nothing here knows kernels or launches.
"""
