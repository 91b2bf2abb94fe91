"""What files are called where readers see them: in traces, which notebooks hold, and in errors.

| file | its name |
|---|---|
| text of a notebook's cell | In[n] |
| below the working directory | the path from there |
| of an installed package or of Python | the path from the package's folder |
| elsewhere | its last part |

So a notebook that is passed on tells nothing of the machine, its user or its folders.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import PurePath

_PACKAGES = re.compile(r".*/(?:site-packages|dist-packages|python\d\.\d+)/(?=.)")
#: An absolute path within a text: two parts or more, not part of a word, a quotient or an address.
_PATH = re.compile(r"(?<![\w)\].:/~])(?:/[\w.+@-]+){2,}|\b[A-Z]:\\(?:[\w.+@ -]+\\)+[\w.+@-]+")


def shown_file(file: str) -> str:
    """Return what a file is called; names that are no absolute path stay as they are."""
    cell = cell_name(file)
    if cell is not None:
        return cell
    if not PurePath(file).is_absolute():
        return file
    try:
        here = os.getcwd()  # noqa: PTH109 - a text is compared with it
    except OSError:  # it was removed
        here = ""
    packaged = _PACKAGES.match(file.replace("\\", "/"))
    if packaged is not None:
        return file.replace("\\", "/")[packaged.end() :]
    if here and file.startswith(here.rstrip(os.sep) + os.sep):
        return file[len(here.rstrip(os.sep)) + 1 :].replace("\\", "/")
    return PurePath(file).name


def shown_text(text: str) -> str:
    """Return a message with files called by their names."""
    return _PATH.sub(lambda found: shown_file(found[0]), text)


def cell_name(file: str) -> str | None:
    """Return In[n] for the file under which IPython compiled a cell."""
    module = sys.modules.get("IPython.core.getipython")
    shell = None if module is None else module.get_ipython()
    numbers: dict[str, int] = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    number = numbers.get(file)
    return None if number is None else f"In[{number}]"
