"""Gives IPython and its front ends what is known of a cell while it is written.

Completion (Tab) and inspection (Shift+Tab) go through IPython's own, so every front end has them;
underlines and hovers are asked for by the JupyterLab extension, over a comm.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from workbench.magics.cells import MAGIC
from workbench.magics.while_typing.answers import complete_at, describe_at
from workbench.magics.while_typing.look import Look, look

TARGET = "workbench.typing"
VERSION = 1
#: A longer text is no cell that anybody types.
_MOST_LETTERS = 60_000


def load(shell: Any) -> None:
    """Hook into a shell, and into its kernel where it has one; once."""
    _complete_in(shell)
    kernel = getattr(shell, "kernel", None)
    if kernel is not None and not hasattr(kernel.do_inspect, "workbench"):
        _inspect_in(kernel, shell)
    comms = getattr(kernel, "comm_manager", None)
    if comms is not None:
        comms.register_target(TARGET, lambda comm, message: _answer(comm, shell))


def _names(shell: Any) -> dict[str, Any]:
    return dict(shell.user_ns)


# -- completion -------------------------------------------------------------------------------
def _complete_in(shell: Any) -> None:
    completer: Any = getattr(shell, "Completer", None)
    matchers: list[Any] = getattr(completer, "custom_matchers", [])
    if completer is None or any(hasattr(matcher, "workbench") for matcher in matchers):
        return
    try:
        from IPython.core.completer import SimpleCompletion, context_matcher
    except ImportError:  # before IPython 8.6, as in Colab, matchers are not told the cell's text
        return

    def matcher(context: Any) -> Any:
        nothing: dict[str, Any] = {"completions": [], "suppress": False}
        text: str = context.full_text
        if MAGIC not in text or len(text) > _MOST_LETTERS:
            return nothing
        lines = text.split("\n")
        cursor = sum(len(line) + 1 for line in lines[: context.cursor_line])
        cursor += context.cursor_position
        try:
            found = complete_at(text, cursor, _names(shell))
        except Exception:  # whatever it is: nothing is better than a broken Tab
            return nothing
        if found is None:
            return nothing
        return {
            "completions": [SimpleCompletion(word, type=found.kind) for word in found.words],
            "suppress": found.alone,
            "matched_fragment": text[found.start : cursor],
            "ordered": False,
        }

    made = context_matcher(identifier="workbench_matcher", priority=1000)(matcher)
    made.workbench = True
    completer.custom_matchers.append(made)


# -- inspection -------------------------------------------------------------------------------
def _inspect_in(kernel: Any, shell: Any) -> None:
    """Let a kernel's inspection tell what a name in a kernel holds, before what it says itself."""
    original: Callable[..., Any] = kernel.do_inspect

    def do_inspect(
        code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> Any:
        reply = original(code, cursor_pos, detail_level, omit_sections)
        told = _told(code, cursor_pos, shell)
        if not told:
            return reply
        if inspect.isawaitable(reply):
            return _later(reply, told)
        return _with(reply, told)

    do_inspect.workbench = True  # type: ignore[attr-defined]
    kernel.do_inspect = do_inspect


def _told(code: str, cursor: int, shell: Any) -> str:
    if MAGIC not in code or len(code) > _MOST_LETTERS:
        return ""
    try:
        return describe_at(code, cursor, _names(shell))
    except Exception:  # as above
        return ""


async def _later(reply: Any, told: str) -> Any:
    return _with(await reply, told)


def _with(reply: dict[str, Any], told: str) -> dict[str, Any]:
    before = reply.get("data", {}).get("text/plain", "")
    text = f"{told}\n\n{before}" if before else told
    return {**reply, "status": "ok", "found": True, "data": {"text/plain": text}}


# -- underlines and hovers --------------------------------------------------------------------
def _answer(comm: Any, shell: Any) -> None:
    """Answer each text that comes with what is known of it."""

    def received(message: Any) -> None:
        data = message["content"]["data"]
        text = data.get("text")
        found = None
        if isinstance(text, str) and len(text) <= _MOST_LETTERS:
            try:
                found = look(text, _names(shell))
            except (Exception, KeyboardInterrupt):  # as above; the next change asks again
                found = None
        comm.send({"v": VERSION, "id": data.get("id"), "look": found and as_data(found)})

    comm.on_msg(received)


def as_data(found: Look) -> dict[str, Any]:
    """Return a look as JSON: places are [line, column, end line, end column]; each text once."""
    texts: dict[str, int] = {}
    problems = [
        {
            "place": [p.line, p.column, p.end_line, p.end_column],
            "severity": p.severity, "code": p.code, "text": p.text, "help": p.help,
        }
        for p in found.problems
    ]  # fmt: skip
    seen = [
        [s.line, s.column, s.end_line, s.end_column, texts.setdefault(s.text, len(texts))]
        for s in found.seen
    ]
    return {"problems": problems, "seen": seen, "texts": list(texts), "partial": found.partial}
