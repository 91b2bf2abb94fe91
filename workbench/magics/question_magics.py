"""`%bisect`, `%diff`, `%follow`, `%step`, `%whatif`, `%roofline`: what each parses and shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from workbench.interrupts import keeping, may_stop
from workbench.magics import doctor, roofs, sweeping
from workbench.magics.comparisons import shown_comparison
from workbench.magics.grammar import Origin, parse
from workbench.magics.options import Request, usage
from workbench.magics.progress import LiveMap
from workbench.magics.questioning import as_json, bisect, diff, step
from workbench.magics.walks import shown_steps, shown_way
from workbench.source import register_text


@contextmanager
def stopped_in_one_line(command: str) -> Iterator[None]:
    """Leave everybody's frames out of an interrupt: who presses Stop knows what was running."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if doctor.setting("tracebacks") != "full":
            told = f"KeyboardInterrupt: %{command} was stopped before it had an answer"
            stop._render_traceback_ = lambda: [told]  # type: ignore[attr-defined]
        raise


@magics_class
class QuestionMagics(Magics):
    """`%bisect`, `%diff`, `%follow`, `%step`, `%whatif`, `%roofline`."""

    @property
    def _names(self) -> dict[str, Any]:
        shell: Any = self.shell
        return shell.user_ns

    def _request(self, command: str, line: str) -> Request:
        shell: Any = self.shell
        file = f"In[{max(1, shell.displayhook.prompt_count)}]"
        register_text(file, f"%{command} {line}")
        return parse(command, line, self._names, Origin(file, 1, len(command) + 3))

    @no_var_expand
    @line_magic
    def bisect(self, line: str) -> Any:
        """Say where the first wrong op of a kernel's launch is: in a pass, a rule, or the source.

        %bisect                     the latest result's kernel, as it was run and checked
        %bisect add                 this kernel
        %bisect add right_add       beside a right version: the first op that differs
        %bisect add --args x,y,n --check "x + y"     another launch, another reference
        """
        request = self._request("bisect", line)
        names = [*request.names, None, None]
        with stopped_in_one_line("bisect"):
            answer = bisect(names[0], request, self._names, names[1])
        return as_json(answer) if request.json else answer

    @no_var_expand
    @line_magic
    def diff(self, line: str) -> Any:
        """Say what differs between two compilations, line by line.

        %diff                       the latest result and the one before it
        %diff add mul               two kernels
        %diff add@cpu add@sm_90a    two targets
        %diff add add@num_warps=8   other settings, compiled now
        %diff add~1 add             two versions
        %diff a.wbt b.wbt           saved traces
        %diff add~1 add --labels before,after     what the sides are called
        d = %diff add~1 add         d.save("page.html") writes the page that --output writes
        """
        request = self._request("diff", line)
        one, other, *_ = [*request.names, None, None]
        with stopped_in_one_line("diff"):
            if request.stage is not None:
                found = diff(
                    one, other, stage=request.stage, labels=request.labels, namespace=self._names
                )
                return as_json(found) if request.json else found
            shown = shown_comparison(one, other, labels=request.labels, namespace=self._names)
            if request.output is not None:
                shown.save(request.output, force=request.force)
        return as_json(shown.found.difference) if request.json else shown

    @no_var_expand
    @line_magic
    def follow(self, line: str) -> Any:
        """Follow a value through every pass and stage; say why a row is there.

        %follow add 5               what became of line 5
        %follow add offsets         of the value of this name
        %follow add sass:12         why this row is there, and where it came from
        """
        request = self._request("follow", line)
        kernel, what = (None, *request.names)[-2:] if request.names else (None, None)
        with stopped_in_one_line("follow"):
            shown = shown_way(kernel, what, namespace=self._names)
            if request.output is not None:
                shown.save(request.output, force=request.force)
        return as_json(shown.way) if request.json else shown

    @no_var_expand
    @line_magic
    def whatif(self, line: str) -> Any:
        """Draw what other constexprs or options would give on a GPU; nothing runs.

        %whatif add --axis BLOCK=64:4096:*2 --axis warps=1,2,4,8    for the latest run's launch
        %whatif add --axis BLOCK=256,512 --args x,y,out,n           for another one
        %whatif add --axis BLOCK=256,512 --target sm_80             for another chip
        """
        live = LiveMap() if getattr(self.shell, "kernel", None) is not None else None
        with stopped_in_one_line("whatif"), keeping():
            with may_stop():
                request = self._request("whatif", line)
            found = sweeping.whatif(request.name, request, self._names, live)
            if live is not None:
                live.end()
            return sweeping.as_json(found) if request.json else sweeping.ShownMap(found)

    @no_var_expand
    @line_magic
    def roofline(self, line: str) -> Any:
        """Draw how near a kernel comes to what this machine can do: measured copy, measured peak.

        %roofline add                     as it was timed; it is timed now if it was not
        %roofline add --baseline torch    beside a baseline
        """
        with stopped_in_one_line("roofline"), keeping():
            with may_stop():
                request = self._request("roofline", line)
            found = roofs.roofline(request.name, request, self._names)
            return roofs.as_json(found) if request.json else roofs.drawn(found)

    @no_var_expand
    @line_magic
    def step(self, line: str) -> Any:
        """Step through one program: each op with its value, forwards and backwards.

        %step add                          the first program of the latest run's launch
        %step add 3                        another one; 1,0 in a grid of two axes
        %step add --break 5 --break 7      stop at these lines only
        %step add --watch "acc[0,3]"       follow an element of a value, or of an array
        s = %step add                      s.go(), s.back(), s.go(5), s.to(12), s.stopping([5])
        """
        request = self._request("step", line)
        kernel, program = (*request.names, None, None)[:2]
        with stopped_in_one_line("step"):
            found = shown_steps(step(kernel, request, self._names, program))
            if request.output is not None:
                found.save(request.output, force=request.force)
        return as_json(found) if request.json else found


for _name in ("bisect", "diff", "follow", "whatif", "roofline", "step"):
    _method = getattr(QuestionMagics, _name)
    _method.__doc__ = f"{_method.__doc__}\n\nOptions:\n{usage(_name)}"
