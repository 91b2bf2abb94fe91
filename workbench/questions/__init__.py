"""Answers to what users ask of a kernel: what is wrong, differs, happens, or would be otherwise.

Belongs here: running one program again with every tile kept, slices, alignment of two runs or two
traces. Does not: changing, launching or checking kernels; how an answer is shown in a notebook.
"""
