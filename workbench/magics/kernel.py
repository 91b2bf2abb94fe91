"""The magics themselves: parse a line, call one public function, show what it gives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.display import publish_display_data

from workbench.bench.results import KernelResult
from workbench.interrupts import keeping, may_stop
from workbench.magics import doctor, lines, machine_code, registry
from workbench.magics.cells import offer_names, run_cell
from workbench.magics.grammar import Origin, parse
from workbench.magics.options import Request, complete, usage
from workbench.magics.plain import plain, result_data
from workbench.magics.progress import StatusLine, showing_progress
from workbench.magics.question_magics import QuestionMagics
from workbench.magics.stated import stated
from workbench.magics.texts import Shown
from workbench.source import KernelError, OptionError, register_text
from workbench.viewer.display import cell_output

STAGE_MAGICS = ("ast", "tile", "gpu", "llvm", "ptx", "sass", "asm")


def _stage_magic(name: str) -> Any:
    def show(self: Any, line: str) -> Any:
        return self._stage(name, line)

    show.__name__ = name
    show.__doc__ = f"Show the {name} stage of a kernel; the latest result by default."
    return no_var_expand(line_magic(show))


@magics_class
class KernelMagics(Magics):
    """`%%kernel` and the line magics around it."""

    @no_var_expand
    @cell_magic
    def kernel(self, line: str, cell: str) -> KernelResult | Shown | None:
        """Compile the kernel in this cell, run what the line asks for, show every stage."""
        with keeping():
            result = self._cell(line, cell)
        return result if result is None or not wants_json(line) else result_data(result)

    def _cell(self, line: str, cell: str) -> KernelResult | None:
        status = None if is_quiet(line) else self._status()
        try:
            with showing_progress(quiet=is_quiet(line), line=status):
                result = run_cell(cell, line, self._names, file=self._file())
                if status is not None:
                    status("writing the output")
            self._show(result, line, status)
        except KernelError as error:
            self._show(getattr(error, "result", None), line, status)
            raise self._shortened(error) from None
        except KeyboardInterrupt as stop:
            raise self._in_one_line(stop) from None
        except Exception as error:
            self._without_our_frames(error)
            raise
        finally:
            if status is not None:
                status.finish(None)
        return result

    def _status(self) -> StatusLine | None:
        """Return a line for a cell's progress; a terminal has no place for one."""
        return StatusLine() if getattr(self.shell, "kernel", None) is not None else None

    @property
    def _names(self) -> dict[str, Any]:
        """The user's namespace."""
        shell: Any = self.shell
        return shell.user_ns

    def _file(self) -> str:
        shell: Any = self.shell
        # The number that the cell shows. `execution_count` is that of the next cell from some
        # version of IPython on, and the display hook knows which.
        return f"In[{max(1, shell.displayhook.prompt_count)}]"

    def _shortened(self, error: KernelError) -> KernelError:
        """Leave out our own frames' chain, unless full tracebacks are wanted."""
        if doctor.setting("tracebacks") == "full":
            # The instance attribute hides the method, so IPython prints what it always does.
            error._render_traceback_ = None  # type: ignore[method-assign]
        return error

    def _without_our_frames(self, error: BaseException) -> bool:
        """Let IPython show what the cell's own Python raised from the cell's line on.

        Return whether it was the cell's own.
        """
        if doctor.setting("tracebacks") == "full":
            return False
        frame, file = error.__traceback__, self._file()
        while frame is not None and frame.tb_frame.f_code.co_filename != file:
            frame = frame.tb_next
        shell: Any = self.shell
        if frame is not None and error.__cause__ is None and error.__context__ is None:
            told = shell.InteractiveTB.structured_traceback(type(error), error, frame)
            error._render_traceback_ = lambda: told  # type: ignore[attr-defined]
        return frame is not None

    def _in_one_line(self, stop: KeyboardInterrupt) -> KeyboardInterrupt:
        """Leave out our frames; the cell's own say where it hangs."""
        if not self._without_our_frames(stop) and doctor.setting("tracebacks") != "full":
            told = "KeyboardInterrupt: stopped before anything was compiled or run"
            stop._render_traceback_ = lambda: [told]  # type: ignore[attr-defined]
        return stop

    def _show(
        self, result: KernelResult | None, line: str, status: StatusLine | None = None
    ) -> None:
        if result is None or is_quiet(line):
            if result is not None:
                result.shown = True
            return
        if status is None:
            show_result(result, self._names)
        else:
            status.finish(output_of(result, self._names))
        result.shown = True

    def _request(self, command: str, line: str) -> Request:
        file = self._file()
        register_text(file, f"%{command} {line}")
        return parse(command, line, self._names, Origin(file, 1, len(command) + 3))

    def _stage(self, name: str, line: str) -> Any:
        request = self._request(name, line)
        if request.control or (request.json and name == "sass"):
            return machine_code.sass_listing(request.name, request, self._names)
        show = getattr(lines, name)
        return show(
            request.name, lines=request.lines, line=request.line, raw=request.raw,
            loc=request.loc, as_json=request.json, namespace=self._names,
        )  # fmt: skip

    ast = _stage_magic("ast")
    tile = _stage_magic("tile")
    gpu = _stage_magic("gpu")
    llvm = _stage_magic("llvm")
    ptx = _stage_magic("ptx")
    sass = _stage_magic("sass")
    asm = _stage_magic("asm")

    @no_var_expand
    @line_magic
    def passes(self, line: str) -> Any:
        """List the passes of a kernel, or show what one of them did."""
        request = self._request("passes", line)
        kernel, which = (*request.names, None, None)[:2]
        return lines.passes(
            stated(kernel, request, self._names), which, everything=request.everything,
            grep=request.grep, llvm_passes=request.llvm_passes, as_json=request.json,
            namespace=self._names,
        )  # fmt: skip

    @no_var_expand
    @line_magic
    def explain(self, line: str) -> Any:
        """Explain an error code, what a source line became, an instruction, op or option.

        %explain            all codes
        %explain K302       one code
        %explain add:5      what became of line 5 of kernel add
        %explain HMMA       an instruction of SASS or PTX, with its modifiers (LDG.E.128, cp.async)
        %explain tile.dot   an op of the IR
        %explain num_stages a compile option, and the remarks of the latest result with this word
        %explain spill      the remarks of the latest result with this word
        """
        request = self._request("explain", line)
        return lines.explain(request.name, as_json=request.json, namespace=self._names)

    @no_var_expand
    @line_magic
    def check(self, line: str) -> KernelResult | Shown:
        """Launch an existing kernel and compare it with a reference."""
        return self._run("check", lines.check, line)

    @no_var_expand
    @line_magic
    def bench(self, line: str) -> KernelResult | Shown:
        """Time an existing kernel beside baselines."""
        return self._run("bench", lines.bench, line)

    @no_var_expand
    @line_magic
    def tune(self, line: str) -> KernelResult | Shown:
        """Search for the fastest configuration of an existing kernel."""
        return self._run("tune", lines.tune, line)

    def _run(
        self, command: str, run: Callable[..., KernelResult], line: str
    ) -> KernelResult | Shown:
        with keeping():
            result = self._line(command, run, line)
        return result_data(result) if wants_json(line) else result

    def _line(self, command: str, run: Callable[..., KernelResult], line: str) -> KernelResult:
        with may_stop():
            request = self._request(command, line)
        status = None if request.json else self._status()
        try:
            with showing_progress(quiet=request.json, line=status):
                result = run(request.name, request, self._names)
        except KernelError as error:
            found: KernelResult | None = getattr(error, "result", None)
            self._show(found, line, status)
            if found is not None:
                self._names["_kernel"] = found
            raise
        except KeyboardInterrupt as stop:
            raise self._in_one_line(stop) from None
        finally:
            if status is not None:
                status.finish(None)
        self._names["_kernel"] = result
        return result

    @no_var_expand
    @line_magic
    def kernels(self, line: str) -> Any:
        """List the kernels that have results."""
        request = self._request("kernels", line)
        return lines.kernels(request.name, clear=request.clear, as_json=request.json)

    @no_var_expand
    @line_magic
    def save(self, line: str) -> Any:
        """Save a kernel's result to a file; the suffix decides what is written.

        %save [KERNEL] PATH   .html .wbt .json .ptx .ll .sass .cubin .c .h .py .png .csv
        """
        request = self._request("save", line)
        *kernel, path = request.names or ("",)
        if not path:
            raise OptionError("save needs a path", code="K103", hint="%save add add.html")
        written = lines.save(
            kernel[0] if kernel else None, path, force=request.force, namespace=self._names
        )
        return plain(path=str(written)) if request.json else written

    @no_var_expand
    @line_magic
    def workbench(self, line: str) -> Any:
        """Say what is installed, or show and change settings.

        %workbench doctor             each part, whether it is there, and what brings it
        %workbench version            versions
        %workbench config             settings and limits; a check may take `checked=60` seconds
        %workbench config NAME=VALUE  change a setting
        %workbench view [MODE]        what shows the panes: auto, widget or static
        %workbench cache [clear]      where compiled kernels lie and who is trusted; empty it
        """
        request = self._request("workbench", line)
        return lines.workbench(*request.names, as_json=request.json)


for _name in ("kernel", "passes", "check", "bench", "tune", "kernels", "save", *STAGE_MAGICS):
    # `%%kernel?` shows the docstring, so the option table is part of it.
    _method = getattr(KernelMagics, _name)
    _method.__doc__ = f"{_method.__doc__}\n\nOptions:\n{usage(_name)}"


def is_quiet(line: str) -> bool:
    """Say whether a line asks for no panes."""
    return "-q" in line.split() or wants_json(line)


def wants_json(line: str) -> bool:
    """Say whether a line asks for plain data."""
    return "--json" in line.split()


def show_result(result: KernelResult, namespace: dict[str, Any]) -> None:
    """Publish a result as one output of the cell."""
    publish_display_data(output_of(result, namespace))


def output_of(result: KernelResult, namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a cell as a MIME bundle."""
    embed: Any = result.embed
    return cell_output(result.traces, namespace=namespace, embed=embed, show=result.show)


def _display_result(result: KernelResult) -> None:
    """Show a result that is a cell's value, unless the cell has just shown it."""
    if result.shown:
        result.shown = False
        return
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    show_result(result, shell.user_ns if shell is not None else {})


def load(shell: Any) -> None:
    """Register all magics, their completion, and the names that cells may use unimported."""
    shell.register_magics(KernelMagics)
    shell.register_magics(QuestionMagics)
    offer_names(shell.user_ns)
    formatter = shell.display_formatter.ipython_display_formatter
    formatter.for_type(KernelResult, _display_result)
    for command in ("kernel", "bisect", "diff", "follow", "step", "whatif", "roofline"):
        completer = functools.partial(_complete, command)
        shell.set_hook("complete_command", completer, re_key=rf"%?%{command}\b.*")


def _complete(command: str, completer: Any, event: Any) -> list[str]:
    text = event.line.partition(command)[2]
    names = [name for name in registry.names() if name.startswith(event.symbol)]
    return [*complete(command, text), *names]
