"""Choosing among configurations: autotune, heuristics, `tune`, and the search under them.

`search.py` drives a search: `resources.py` drops what cannot be any good, `workers.py` compiles the
rest in other processes, `racing.py` times them against each other, `store.py` keeps the outcome.
"""
