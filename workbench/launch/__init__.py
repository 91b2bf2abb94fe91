"""A call becomes a launch: signature, binding, facts, conditions, the ABI as plain data, launchers.

What is known of an argument is spelled once (`measures.py`, `conditions.py`); keys, launchers in
Python and native ones are made from it. Nothing here compiles; loaded code is told by what
`abi.py` says of it.
"""
