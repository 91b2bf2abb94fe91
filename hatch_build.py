"""Build the front end for the wheel; hatch-jupyter-builder calls this (see pyproject.toml)."""

import sys
from pathlib import Path

from hatch_jupyter_builder import npm_builder

ROOT = Path(__file__).parent


BUILT = (
    ROOT / "workbench" / "labextension" / "static" / "style.js",
    ROOT / "workbench" / "viewer" / "static" / "viewer.js",
)


def is_current() -> bool:
    """Return whether all of the front end is built and none of its sources is newer."""
    if not all(path.is_file() for path in BUILT):
        return False
    sources = [ROOT / "extension" / "package.json", *(ROOT / "extension" / "src").rglob("*.*")]
    newest = max(path.stat().st_mtime for path in sources)
    return newest <= min(path.stat().st_mtime for path in BUILT)


def build_front_end(target_name: str, version: str) -> None:
    """Bundle the viewer and the JupyterLab extension with npm.

    Where the npm packages cannot be had, the package is built without them: outputs are then
    static HTML and text, and the build says so. An sdist carries what is built already.
    """
    if is_current():
        return
    # hatchling refuses to map a folder that does not exist, so an absent front end is an empty one.
    for folder in ("labextension", "viewer/static"):
        (ROOT / "workbench" / folder).mkdir(parents=True, exist_ok=True)
    try:
        npm_builder(
            target_name,
            version,
            path=str(ROOT / "extension"),
            source_dir=str(ROOT / "extension" / "src"),
            build_dir=str(ROOT / "workbench" / "labextension"),
            build_cmd="build",
            npm="npm",
        )
    except Exception as error:  # any failure of npm leads to the same fall-back
        print(  # noqa: T201
            f"workbench: the front end was not built ({error}); "
            "this package has static output only. Build it where npm packages can be had.",
            file=sys.stderr,
        )
