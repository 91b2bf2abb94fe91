"""What is known of a `%%kernel` cell while it is written: problems, types, completions.

Everything is answered from the cell's text, the values that the notebook's names hold, and what
the kernel was last launched with. Nothing of the user's is run. `hooks.py` alone knows IPython.
"""

from workbench.magics.while_typing.answers import complete_at, describe_at
from workbench.magics.while_typing.look import Look, Problem, Seen, look

__all__ = ["Look", "Problem", "Seen", "complete_at", "describe_at", "look"]
