"""How text looks in HTML that stands alone.

Columns have to agree, or carets stand below another word: not every page sets `pre` so.
"""

FONT = "font-family:ui-monospace,Menlo,Consolas,monospace"
MONOSPACE = f"{FONT};white-space:pre"
#: Stages of a result.
PRE = f"background-color:#ffffff;color:#1f2328;padding:6px;margin:0;overflow:auto;{MONOSPACE}"
_PLAIN = "margin:0;padding:4px;background:#ffffff;color:#24292f"
#: What a magic answers; and sentences, whose lines break.
TEXT = f"{_PLAIN};overflow:auto;{MONOSPACE}"
SENTENCES = f"{_PLAIN};{FONT};white-space:pre-wrap"
