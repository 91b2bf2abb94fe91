"""Answers to what users ask of a kernel: which op is wrong first, what differs, why a row is there,
what each step of a program computes, what other settings would give.

Belongs here: running one program again with every tile kept, slices, alignment of two runs or two
traces. Does not: changing, launching or checking kernels; how an answer is shown in a notebook.
"""
