"""What `%diff` gives: text everywhere, both sides beside each other where a viewer shows it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.magics.questioning import Compared, compare
from workbench.magics.texts import Shown
from workbench.viewer import Answer, cell_output, save, value_output
from workbench.viewer.comparisons import answer_of


class ShownComparison(Shown):
    """A comparison: the text of what differs; `.found` has the traces and the difference."""

    found: Compared
    _namespace: Mapping[str, Any]

    def __new__(
        cls, found: Compared, namespace: Mapping[str, Any] | None = None
    ) -> ShownComparison:
        """Return the comparison as text that shows itself; `namespace` is the notebook's."""
        shown: Any = super().__new__(cls, found.difference.text)
        shown.found = found
        shown._namespace = namespace or {}
        return shown

    @cached_property
    def _answer(self) -> Answer:
        return answer_of(self.found.comparison(), self.found.traces, str(self))

    def save(self, path: Path | str, *, force: bool = False) -> Path:
        """Write the comparison as a page (.html) or as both traces (.wbt, .json); return the path.

        Raises OptionError for an existing file without `force`, or another suffix.
        """
        return save(self.found.traces, path, force=force, answer=self._answer)

    def output(self) -> dict[str, Any]:
        """Return the comparison as a MIME bundle to publish."""
        return cell_output(self.found.traces, namespace=self._namespace, answer=self._answer)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return value_output(self.found.traces, namespace=self._namespace, answer=self._answer)


def shown_comparison(
    one: Any = None,
    other: Any = None,
    *,
    labels: tuple[str, str] | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> ShownComparison:
    """Return two compilations beside each other; arguments and errors as of `questioning.diff`."""
    return ShownComparison(compare(one, other, labels=labels, namespace=namespace), namespace)
