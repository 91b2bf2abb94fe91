"""What Colab has put into a kernel before the first cell: `google.colab.output`.

Its manager of custom widgets marks what is published, but not the values of cells.
"""

import sys
import types

from IPython import get_ipython

MIME = "application/vnd.jupyter.widget-view+json"


def _mark(message):
    content = message.get("content") or {}
    if _widgets._installed_url and MIME in content.get("data", {}):
        manager = {"custom_widget_manager": {"url": _widgets._installed_url}}
        content.setdefault("metadata", {}).setdefault(MIME, {})["colab"] = manager
    return message


def enable_custom_widget_manager():
    if not _widgets._installed_url:
        get_ipython().display_pub.register_hook(_mark)
    _widgets._installed_url = "https://ssl.gstatic.com/colaboratory-static/widgets/manager.min.js"


_widgets = types.SimpleNamespace(_installed_url=None)
_modules = {name: types.ModuleType(name) for name in ("google.colab", "google.colab.output")}
_modules["google.colab"].output = _modules["google.colab.output"]
_modules["google.colab.output"].enable_custom_widget_manager = enable_custom_widget_manager
_modules["google.colab.output"]._widgets = _widgets
sys.modules.update(_modules)
