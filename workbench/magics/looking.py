"""The magics that look into a kernel and edit it: `%%override`; thin, as those of kernel.py."""

from __future__ import annotations

import functools
from typing import Any

from IPython.core.magic import line_cell_magic, line_magic, magics_class, no_var_expand
from IPython.display import publish_display_data

from workbench.ir import MNEMONICS
from workbench.magics import overriding, placing, registry, schedules
from workbench.magics.explanations import EXPLANATIONS
from workbench.magics.kernel import KernelMagics, is_quiet, wants_json
from workbench.magics.options import complete, usage
from workbench.magics.progress import showing_progress
from workbench.magics.stated import stated
from workbench.magics.texts import Shown
from workbench.source import KernelError

_NAMES = ("override", "layouts", "access", "schedule")


@magics_class
class LookingMagics(KernelMagics):
    """Magics that look into what was compiled."""

    @no_var_expand
    @line_cell_magic
    def override(self, line: str, cell: str | None = None) -> Any:
        """Edit the text of a stage, and compile, run and compare what comes of it.

        %override KERNEL STAGE        put the stage's present text into a new cell
        %override KERNEL STAGE PATH   take the edited text from a file
        %%override KERNEL STAGE       take it from this cell

        KERNEL is a name or K@TARGET, STAGE is tile, gpu, llvm or ptx. The kernel stays as it is.
        """
        if cell is None:
            request = self._request("override", line)
            if len(request.names) < 3:
                stage = (*request.names, None, None)[1]
                text = overriding.text_asked_for(request, self._names)
                if request.json:
                    return overriding.as_json(text, stage or "")
                return self._next_cell(text)
            cell = overriding.text_from(request.names[2])
        quiet = is_quiet(line)
        status = None if quiet else self._status()
        try:
            with showing_progress(quiet=quiet, line=status):
                found = overriding.run_override(cell, line, self._names, file=self._file())
        except KernelError as error:
            self._show_both(getattr(error, "result", None), line, status)
            raise self._shortened(error) from None
        finally:
            if status is not None:
                status.finish(None)
        self._show_both(found, line, None)
        stage = found.show[-1]
        return overriding.as_json(found, stage) if wants_json(line) else found

    @no_var_expand
    @line_magic
    def layouts(self, line: str) -> Any:
        """Show where the elements of tiles lie: by warp, lane, register or bank.

        %layouts KERNEL            all layouts, and which values have them
        %layouts KERNEL VALUE      a value of the GPU IR, drawn (a.1)
        %layouts KERNEL LINE       the tiles that came from a source line
        %layouts KERNEL VALUE --warp 0    what one warp holds of it, by lane and register
        %layouts KERNEL --shared   the intervals of shared memory
        %layouts KERNEL --sig "*fp16:16 …" --set BLOCK=128    compiled for this
        """
        request = self._request("layouts", line)
        kernel, which = (*request.names, None, None)[:2]
        return placing.layouts(
            stated(kernel, request, self._names), which, by=request.by, warp=request.warp,
            shared=request.shared, as_json=request.json, namespace=self._names,
        )  # fmt: skip

    @no_var_expand
    @line_magic
    def access(self, line: str) -> Any:
        """Show what each load and store costs: width, sectors, bank conflicts; before it runs.

        %access KERNEL         all accesses
        %access KERNEL LINE    those of a source line, with the lanes of a request drawn
        """
        request = self._request("access", line)
        kernel, which = (*request.names, None, None)[:2]
        kernel = stated(kernel, request, self._names)
        return placing.access(kernel, which, as_json=request.json, namespace=self._names)

    @no_var_expand
    @line_magic
    def schedule(self, line: str) -> Any:
        """Draw what each role of a pipelined loop does in a round, and how many rounds ahead.

        %schedule KERNEL         as it was compiled; also of what KERNEL.warmup(…) returns
        %schedule KERNEL --sig "*fp16:16 …" --set BLOCK=128    compiled for this
        """
        request = self._request("schedule", line)
        return schedules.schedule(request.name, request, self._names)

    def _next_cell(self, text: Shown) -> Any:
        """Put a text into the next cell; where no front end does that, return it."""
        shell: Any = self.shell
        if getattr(shell, "kernel", None) is None:
            return text
        shell.set_next_input(str(text), replace=False)
        return None

    def _show_both(self, found: Any, line: str, status: Any) -> None:
        if isinstance(found, overriding.OverrideResult) and not is_quiet(line):
            publish_display_data(found.comparison._repr_mimebundle_())
        self._show(found, line, status)


def load(shell: Any) -> None:
    """Register these magics and their completion."""
    shell.register_magics(LookingMagics)
    for name in (*_NAMES, "explain"):
        completer = functools.partial(_complete, name)
        shell.set_hook("complete_command", completer, re_key=rf"%?%{name}\b.*")


def _complete(command: str, shell: Any, event: Any) -> list[str]:
    del shell
    text = event.line.partition(command)[2]
    more = {"override": overriding.STAGES, "explain": (*EXPLANATIONS, *MNEMONICS)}
    words = [*registry.names(), *more.get(command, ())]
    return [*complete(command, text), *(word for word in words if word.startswith(event.symbol))]


for _name in _NAMES:
    _method = getattr(LookingMagics, _name)
    _method.__doc__ = f"{_method.__doc__}\n\nOptions:\n{usage(_name)}"
