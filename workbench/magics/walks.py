"""What `%follow` and `%step` give: text everywhere, a slider where a viewer shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from workbench.magics.questioning import followed
from workbench.magics.texts import Shown
from workbench.questions.following import Way
from workbench.questions.stepping import Steps
from workbench.questions.walking import walk
from workbench.trace import Trace
from workbench.viewer import Answer, save, value_output
from workbench.viewer.walks import route_answer, walk_answer


class ShownWay(Shown):
    """A value's way: one sentence a step; `.way` has the steps."""

    way: Way
    trace: Trace
    _namespace: Mapping[str, Any]

    def __new__(
        cls, trace: Trace, way: Way, namespace: Mapping[str, Any] | None = None
    ) -> ShownWay:
        """Return the way as text that shows itself; `namespace` is the notebook's."""
        shown: Any = super().__new__(cls, way.text)
        shown.trace, shown.way, shown._namespace = trace, way, namespace or {}
        return shown

    @property
    def _answer(self) -> Answer:
        return route_answer(self.way.route(), str(self))

    def save(self, path: Path | str, *, force: bool = False) -> Path:
        """Write the way as a page (.html) or its trace with it (.wbt, .json); return the path.

        Raises OptionError for an existing file without `force`, or another suffix.
        """
        return save([self.trace], path, force=force, answer=self._answer)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return value_output([self.trace], namespace=self._namespace, answer=self._answer)


def shown_way(
    kernel: Any = None, what: str | None = None, *, namespace: Mapping[str, Any] | None = None
) -> ShownWay:
    """Return a value's way; arguments and errors as of `questioning.follow`."""
    return ShownWay(*followed(kernel, what, namespace=namespace), namespace)


@dataclass(frozen=True, slots=True, repr=False)
class ShownSteps(Steps):
    """A program that was run, step by step, which a viewer walks through."""

    @property
    def _answer(self) -> Answer:
        static = Steps._repr_mimebundle_(self)
        return walk_answer(walk(self), static["text/plain"], static["text/html"])

    def save(self, path: Path | str, *, force: bool = False) -> Path:
        """Write the steps as a page (.html) or with their trace (.wbt, .json); return the path.

        Raises OptionError for an existing file without `force`, or another suffix.
        """
        return save([self.compiled.trace], path, force=force, answer=self._answer)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return value_output([self.compiled.trace], answer=self._answer)


def shown_steps(found: Steps) -> ShownSteps:
    """Return steps that show themselves."""
    return ShownSteps(**{field.name: getattr(found, field.name) for field in fields(Steps)})
