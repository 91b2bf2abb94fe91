"""How elementwise functions are computed from simpler ones, for fp32 and fp64.

Each formula is written once, in terms (terms.py) that are ops of the tile IR, so every target has
it and the interpreter checks it. Polynomials are Chebyshev interpolations of the function named
beside them, computed with 60 digits; the stated errors are theirs alone.
"""

from workbench.passes.formulas.circular import CIRCULAR
from workbench.passes.formulas.exponentials import EXPONENTIALS
from workbench.passes.formulas.rounding import ROUNDING
from workbench.passes.formulas.special import SPECIAL
from workbench.passes.formulas.terms import Formula, Terms

FORMULAS: dict[str, Formula] = {**ROUNDING, **EXPONENTIALS, **CIRCULAR, **SPECIAL}

__all__ = ["FORMULAS", "Formula", "Terms"]
