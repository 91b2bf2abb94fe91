"""The twelve puzzles, in their order."""

from workbench.puzzles.collection.elements import ANY_STRIDE, MIRROR, SEVEN, TABLE
from workbench.puzzles.collection.products import ATTENTION, FOUR_BITS, MATMUL
from workbench.puzzles.collection.rows import LONG_ROWS, RUNNING_TOTAL, SOFTMAX
from workbench.puzzles.collection.together import LAST_ONE, VOTES

PUZZLES = (
    SEVEN, ANY_STRIDE, TABLE, MIRROR, LONG_ROWS, SOFTMAX, VOTES, RUNNING_TOTAL, LAST_ONE, MATMUL,
    FOUR_BITS, ATTENTION,
)  # fmt: skip
"""By place: PUZZLES[n - 1] is puzzle n."""
