"""The first wrong op of a launch: in a pass, in a target's lowering, or in the kernel's source.

One program is looked at: the one that stored a wrong element. What the interpreter makes of the
kernel as the front end lowered it is what the source says. Where the target says otherwise, a pass
did it if the interpreter says otherwise of its IR, too (`guilty_pass.py`); if none did, the tiles
that the target computes are stored by probes and compared op by op (`probing.py`). Where target
and source agree, the source is wrong: beside a right version of the kernel the first op that
differs is named (`aligning.py`), without one the lines that the wrong element was made of
(`slicing.py`, `suspects.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from workbench.bench.arrays import offset_of, to_numpy
from workbench.bench.checking import model_of
from workbench.bench.compare import Comparison, compare
from workbench.bench.guarding import launch_in_time
from workbench.bench.phases import say
from workbench.bench.reference import Reference, References, references
from workbench.bench.roundings import roundings
from workbench.bench.subject import Subject
from workbench.bench.tolerances import Given, Model
from workbench.ir import F32, Module, Op, Pointer, element_of
from workbench.ir.rebuild import rebuild
from workbench.ops import Dot
from workbench.questions.aligning import Parting, by_kind, first_parting
from workbench.questions.answers import Answer, SliceRow, Tiles, op_place
from workbench.questions.choosing import (
    address_of,
    outputs_differ,
    sampled,
    touched,
    who_stores,
)
from workbench.questions.guilty_pass import find_pass, is_wrong
from workbench.questions.probing import build, launch, probed_parting
from workbench.questions.running import Bench, Program, Run
from workbench.questions.slicing import Line, by_line, slice_of
from workbench.questions.suspects import ranked
from workbench.questions.trying import (
    Trial,
    failing,
    guarded,
    poisoned,
    tried,
    untellable,
    unwritten,
)
from workbench.source import CheckError, KernelError, ResourceError, checking


@dataclass(slots=True)
class Wrong:
    """A wrong element: of which output, where it lies, what it is and what it should be."""

    name: str
    index: tuple[int, ...]
    got: float
    want: float
    share: float
    element: int


def find_first_wrong(
    subject: Subject,
    reference: Reference | None = None,
    said: str = "",
    *,
    other: Subject | None = None,
    others: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Answer:
    """Return where the first wrong op of a launch is; the user's arrays stay as they are.

    `reference` computes what the outputs must be, as for `check_launch`. Without one the target is
    compared with the source alone; `other` is the same launch of a right version.

    Raises CheckError K602 or K603 for a reference that does not fit or fails.
    """
    with checking():
        return _Inquiry(subject, reference, said, other, others, Given(rtol, atol)).answer()


def can_run(target: str) -> bool:
    """Whether this machine runs a target's code."""
    if target.startswith("sm_"):
        torch = sys.modules.get("torch")
        return torch is not None and bool(torch.cuda.is_available())
    return True


class _Inquiry:
    def __init__(
        self,
        subject: Subject,
        reference: Reference | None,
        said: str,
        other: Subject | None,
        others: Mapping[str, Any] | None,
        given: Given,
    ) -> None:
        self.subject, self.other, self.given = subject, other, given
        self.reference, self.said, self.others = reference, said, others
        self.module, self.grid, self.target = subject.module, subject.grid, subject.target
        self.bench = Bench(subject.arguments, subject.outputs)
        self.compiled: Any = subject.compiled.compiled
        self.got: dict[str, Any] | None = None
        self.want: References | None = None
        self.wrong: Wrong | None = None
        self.notes: list[str] = []
        self.models: dict[str, Model] = {}
        self.trial = Trial()
        #: Products of f32 are rounded to tf32 by tensor cores and the interpreter, not by a CPU.
        self.least = 0.01 if _has_short_products(self.module) else 0.0
        self._reached: dict[str, Any] = {}

    def answer(self) -> Answer:
        """Find out."""
        try:
            return self._tried() or self._compared_answer()
        except ResourceError as error:
            if error.code != "K406":
                raise
            return failing(self.subject, error)

    def _tried(self) -> Answer | None:
        """Run the launch where it can do no harm; returns the answer if that goes wrong."""
        say(f"trying {self.subject.name} in the interpreter")
        trial = self.trial = tried(self.bench, self.module, self.grid)
        if trial.error is not None:
            return failing(self.subject, trial.error)
        error = guarded(self.subject, self.bench)
        if error is not None:
            return self._unlaunched(error)
        if self.reference is not None:
            self.notes += poisoned(self.subject, self.bench, trial, self.said)
        return None

    def _compared_answer(self) -> Answer:
        """Launch, and compare what target, passes, source and reference say."""
        if can_run(self.target) and self.target != "interpreter":
            say(f"launching {self.subject.name} on {self.target}")
            code = build(self.compiled.lowered.module, self.target, self.compiled.built)
            start = partial(launch, code, self.bench, self.grid)
            launch_in_time(self.subject, self.bench.arguments, start)
            self.got = self.bench.outputs()
        elif self.target == "interpreter":
            self.got = self._interpreted()
        else:
            self.notes.append(
                f"there is no GPU here, so {self.target}'s code did not run: what each pass left "
                "was interpreted, what the lowering of the last one makes of it was not looked at"
            )
        if self.got is None:
            answer = self._passes_alone()
            if answer is not None:
                return answer
        wrong = self.wrong = self._wrong_element()
        program, right = self._program(wrong)
        if right is None and wrong is not None and self.other is not None:
            return self._beside_what_stores(wrong, self.other)
        if right is None and self.other is not None and self.reference is None:
            return self._versions(self.other)
        if right is None:
            return self._nothing_stored(wrong) if wrong is not None else self._all_right()
        if self._cannot_tell(wrong):
            return untellable(self.subject, self.notes)
        answer = self._compiler(program, right, wrong)
        if answer is None:
            answer = self._source(program, right, wrong)
        answer.program = program[: len(self.grid)]
        answer.notes += self.notes
        return answer

    def _unlaunched(self, error: KernelError) -> Answer:
        """Say whose fault it is that compiled code goes wrong where the source, so far, did not."""
        if self.trial.outputs is None or error.code not in ("K502", "K505"):
            return failing(self.subject, error)
        answer = self._passes_alone() or failing(self.subject, error, compiled=True)
        if answer.verdict == "pass":
            answer.notes.append(f"the code for {self.target} was not launched: {error.message}")
        return answer

    def _passes_alone(self) -> Answer | None:
        """Look for a pass that changes what some programs compute, where no code can run."""
        say(f"interpreting what the passes made of {self.subject.name}")
        for program in sampled(self.grid):
            right = self._run(program, keep=False)
            if is_wrong(self.bench, right, self.bench.run(self._last(), self.grid, program)):
                answer = self._compiler(program, self._run(program), None)
                assert answer is not None
                answer.program = program[: len(self.grid)]
                answer.notes += self.notes
                return answer
        return None

    # -- what is wrong --------------------------------------------------------------------
    def _interpreted(self) -> dict[str, Any]:
        from workbench.interpreter import run_module

        self.bench.reset()
        run_module(self.module, self.grid, self.bench.values(self.module))
        return self.bench.outputs()

    def _wrong_element(self) -> Wrong | None:
        """Return the first element that the reference says is wrong."""
        if self.reference is None:
            return None
        say(f"evaluating {self.said}")
        self.bench.reset()
        before = {n: self.bench.arguments[n] for n in self.subject.arguments}
        self.want = references(self.subject, self.reference, before, self.said, None, self.others)
        if self.got is None:
            self.got = self._interpreted() if np.prod(self.grid) <= 4096 else None
        if self.got is None:
            return None
        for name in self.bench.names:
            if name not in self.want.values:
                continue
            found = self._compared(name, self.got[name])
            if found.first:
                first = found.first[0]
                array = self.bench.arguments[name]
                flat = int(np.ravel_multi_index(first.index, array.shape)) if first.index else 0
                share, element = flat / max(found.total, 1), offset_of(array, first.index)
                return Wrong(name, first.index, first.got, first.want, share, element)
        return None

    def _compared(self, name: str, got: Any) -> Comparison:
        assert self.want is not None
        want = self.want.values[name]
        if name not in self.models:
            s = self.subject
            executed = roundings(s.module, s.grid, s.scalars, s.target)
            self.models[name] = model_of(s, name, self.want, executed, want)
        try:
            return compare(name, got, want, self.models[name], self.given)
        except ValueError as error:
            raise CheckError(
                str(error), code="K602",
                hint="give one value for each element of the output, or a single number",
            ) from error  # fmt: skip

    def _program(self, wrong: Wrong | None) -> tuple[Program, Run | None]:
        """Return the program to look at and what the source says of it; None: there is none."""
        if wrong is not None:
            say(f"looking for the program that stored {wrong.name}{list(wrong.index)}")
            address = address_of(self.bench, wrong.name, wrong.element)
            program, complete = who_stores(self.module, self.grid, self.bench, address, wrong.share)
            if program is not None:
                return program, self._run(program)
            if complete:
                return (0, 0, 0), None
        got = self.got
        whole = self._whole_differs() if self.trial.together and got is not None else None
        for program in sampled(self.grid) if got is not None and whole != {} else ():
            assert got is not None
            right = self._run(program)
            where = touched(self.bench, right)
            if whole is not None:
                if any((whole[name] & where[name]).any() for name in whole):
                    return program, right
            elif outputs_differ(self.bench, right.outputs, got, where, self.least):
                return program, right
        return (0, 0, 0), None

    def _whole_differs(self) -> dict[str, Any] | None:
        """Return where the target's grid differs from the interpreter's; None: nobody knows."""
        if self.trial.outputs is None or self.got is None:
            return None
        return outputs_differ(self.bench, self.trial.outputs, self.got, None, self.least)

    def _cannot_tell(self, wrong: Wrong | None) -> bool:
        """Whether programs that make an element together would have to be looked at one by one."""
        if not self.trial.together or self.got is None or self.other is not None:
            return False
        return self.trial.outputs is None

    def _run(self, program: Program, *, keep: bool = True) -> Run:
        return self.bench.run(self.module, self.grid, program, keep=keep)

    def _last(self) -> Module:
        records = self.compiled.lowered.recorder.passes
        return records[-1].after if records else self.module

    # -- the compiler's mistakes ------------------------------------------------------------
    def _compiler(self, program: Program, right: Run, wrong: Wrong | None) -> Answer | None:
        if self.target == "interpreter" or (self.got is not None and not can_run(self.target)):
            return None
        if self.got is not None and self._agrees(right, wrong):
            return None
        say(f"interpreting what the passes made of program {program}")
        records = self.compiled.lowered.recorder.passes
        found = find_pass(self.bench, self.grid, program, records, right)
        answer = Answer(self.subject.name, self.target, "pass")
        shown = program[: len(self.grid)]
        if found is not None:
            name = found.record.name
            answer.pass_name, answer.rule = name, found.rule
            answer.sentences.append(
                f"the pass {name} changes what program {shown} of {self.subject.name} computes: "
                f"before it the IR gives what the source says, after it it does not"
            )
            if found.rule:
                answer.sentences.append(f"the rule that did it: {found.rule}")
            if found.wrong.error is not None:
                answer.notes.append(f"after the pass: {found.wrong.error.message}")
            part = found.parting
            self._describe(answer, part, (found.record.before, found.record.after),
                           (f"before {name}", f"after {name}"))  # fmt: skip
            return answer
        if self.got is None or not can_run(self.target):
            return None
        return self._lowering(program, right)

    def _agrees(self, right: Run, wrong: Wrong | None) -> bool:
        """Say whether the target computed what the source says, in the program looked at."""
        assert self.got is not None
        outputs = self.trial.outputs if self.trial.together else right.outputs
        if outputs is None:
            return True  # nobody is accused without proof
        if wrong is not None:
            mine = float(outputs[wrong.name][wrong.index])
            theirs = float(self.got[wrong.name][wrong.index])
            if np.isnan(mine) or np.isnan(theirs):
                return bool(np.isnan(mine) and np.isnan(theirs))
            return abs(mine - theirs) * 4 <= abs(theirs - wrong.want)
        where = touched(self.bench, right)
        return not outputs_differ(self.bench, outputs, self.got, where, self.least)

    def _lowering(self, program: Program, right: Run) -> Answer:
        say("storing the tiles that the target computes")
        answer = Answer(self.subject.name, self.target, "lowering")
        module = self.compiled.lowered.module
        source = self.bench.run(module, self.grid, program, keep=True)
        left_out = self.trial.depending(source)
        part = probed_parting(
            self.bench, module, self.target, self.grid, program, source, self.least, left_out
        )
        if part is None and self.trial.together:
            return untellable(self.subject, [])
        shown = program[: len(self.grid)]
        answer.sentences.append(
            f"every pass keeps what the source says, the code for {self.target} does not "
            f"(program {shown}): the lowering of an op is wrong"
        )
        if part is None:
            answer.notes.append(
                "with its tiles stored between the ops the code is right: the fault shows only "
                "where ops are computed together"
            )
        else:
            rule = lowering_rule(self.target, part.op)
            answer.rule = rule
            if rule:
                answer.sentences.append(f"its rule: {rule}")
        self._describe(answer, part, (module, module), ("interpreter", self.target))
        answer.instead = None
        del right
        return answer

    def _describe(
        self, answer: Answer, part: Parting | None, modules: tuple[Module, Module],
        titles: tuple[str, str],
    ) -> None:  # fmt: skip
        if part is None:
            return
        if part.right is not None:
            answer.op = op_place(part.right.op, modules[0])
        if part.wrong is not None:
            answer.instead = op_place(part.wrong.op, modules[1])
            if answer.op is not None and answer.instead.text == answer.op.text:
                answer.instead = None
        words = {
            "gone": "this op is not there any more",
            "rounds": "this op runs more or less often than it should, or another round is read",
            "kept": "the pass made another op of this one; the program did not get so far",
        }
        if part.how in words:
            answer.sentences.append(words[part.how])
        if part.tiles is not None and part.where is not None:
            pointers = any(
                isinstance(element_of(value.type), Pointer)
                for value in (part.op.results or part.op.operands[:1])
            )
            one, other = map(np.asarray, part.tiles)
            answer.tiles = Tiles(titles, one, other, part.where, not pointers)

    # -- the source's -----------------------------------------------------------------------
    def _source(self, program: Program, right: Run, wrong: Wrong | None) -> Answer:
        if self.other is not None:
            return self._version(program, right, wrong, self.other)
        if wrong is None:
            return self._all_right()
        assert self.got is not None
        answer = Answer(self.subject.name, self.target, "source")
        spelled = self.subject.spelled(wrong.name)
        index = f"[{', '.join(map(str, wrong.index))}]" if wrong.index else ""
        shown = program[: len(self.grid)]
        answer.sentences.append(
            f"the code does what the source says: {spelled}{index} = {wrong.got:.6g}, stored by "
            f"program {shown}; {self.said} is {wrong.want:.6g}"
        )
        answer.element = f"{spelled}{index}"
        say(f"looking at what {answer.element} was made of")
        module = self._as_computed()
        if module is not self.module:
            right = self.bench.run(module, self.grid, program, keep=True)
        steps = slice_of(self.bench, right, address_of(self.bench, wrong.name, wrong.element))
        lines = by_line(steps)
        self._reached = touched(self.bench, right)
        order, remarks, found = ranked(
            self.bench, module, self.grid, program, lines, right, self._judge,
            [n for n in self.subject.constants.values() if type(n) is int],
        )  # fmt: skip
        answer.rows = [_row(line, remarks.get(id(line), "")) for line in order]
        answer.sentences += found
        if order:
            answer.op = op_place(order[0].steps[0].event.op, self.module)
        return answer

    def _as_computed(self) -> Module:
        """Return the source as the target rounds it, so that a right change is seen to be right.

        The interpreter takes tf32 for products of f32 as tensor cores do; a CPU does not.
        """
        if self.target != "cpu" or not _has_short_products(self.module):
            return self.module
        return rebuild(
            self.module,
            lambda op, _: op.changed(precision="ieee") if isinstance(op, Dot) else None,
        )

    def _judge(self, run: Run) -> bool:
        """Say whether what a program stored is what the reference says."""
        assert self.want is not None
        if run.error is not None or not self._nearer(run):
            return False
        for name, want in self.want.values.items():
            full = np.broadcast_to(to_numpy(want), run.outputs[name].shape)
            got = np.where(self._reached[name], run.outputs[name], full)
            if self._compared(name, got).wrong:
                return False
        return True

    def _nearer(self, run: Run) -> bool:
        """Say quickly whether the wrong element may be right now."""
        wrong = self.wrong
        assert wrong is not None
        now = float(run.outputs[wrong.name][wrong.index])
        if np.isnan(now) or np.isnan(wrong.got) or np.isinf(wrong.want):
            return now == wrong.want or np.isnan(wrong.want) == np.isnan(now)
        return abs(now - wrong.want) < abs(wrong.got - wrong.want)

    def _beside_what_stores(self, wrong: Wrong, other: Subject) -> Answer:
        """Compare with a right version the program of it that stores what nobody stores here."""
        self._rename(other)
        address = address_of(self.bench, wrong.name, wrong.element)
        program, _ = who_stores(other.module, other.grid, self.bench, address, wrong.share)
        if program is None or any(at >= n for at, n in zip(program, self.grid, strict=False)):
            return self._nothing_stored(wrong)
        answer = self._version(program, self._run(program), None, other)
        answer.program = program[: len(self.grid)]
        answer.notes += self.notes
        return answer

    def _versions(self, other: Subject) -> Answer:
        """Compare with another version where nothing says what is right: program by program."""
        answer = self._all_right()
        for program in sampled(self.grid):
            found = self._version(program, self._run(program), None, other)
            if found.verdict != "right":
                found.program = program[: len(self.grid)]
                found.notes += self.notes
                return found
        answer.sentences.append(f"{self.subject.name} and {other.name} compute the same there")
        return answer

    def _rename(self, other: Subject) -> None:
        """Let the arrays be found under the names that another version gives them."""
        names = [p.name for p in other.module.parameters]
        self.bench.alias = dict(zip(names, (p.name for p in self.module.parameters), strict=False))

    def _version(self, program: Program, mine: Run, wrong: Wrong | None, other: Subject) -> Answer:
        answer = Answer(self.subject.name, self.target, "version")
        self._rename(other)
        if wrong is not None and other.grid != self.grid:
            address = address_of(self.bench, wrong.name, wrong.element)
            theirs_at, _ = who_stores(other.module, other.grid, self.bench, address, wrong.share)
            program = theirs_at or program
        theirs = self.bench.run(other.module, other.grid, program, keep=True)
        if theirs.error is not None:
            return failing(other, theirs.error, version=True)
        part = first_parting(theirs, mine, by_kind(other.module, self.module), versions=True)
        if part is None:
            answer.verdict = "right" if wrong is None else "source"
            answer.sentences.append(
                f"{self.subject.name} and {other.name} compute the same, op by op, in program "
                f"{program[: len(self.grid)]}"
            )
            return answer
        answer.sentences.append(
            f"the code does what the source says; {self.subject.name} parts from {other.name} here"
        )
        same = other.name == self.subject.name
        titles = ("right version", "this version") if same else (other.name, self.subject.name)
        self._describe(answer, part, (other.module, self.module), titles)
        # It is the wrong version's op that is named.
        if part.wrong is not None:
            answer.op = op_place(part.wrong.op, self.module)
            answer.instead = op_place(part.right.op, other.module) if part.right else None
            answer.notes.append("'instead' shows what stands in the right version")
        return answer

    def _all_right(self) -> Answer:
        if self.reference is not None:
            left = unwritten(self.subject, self.bench, self.trial, self.said)
            if left is not None:
                left.notes += self.notes
                return left
        answer = Answer(self.subject.name, self.target, "right")
        against = "the source" if self.reference is None else f"the source and {self.said}"
        answer.sentences.append(
            f"nothing is wrong: {self.target} computes what {against} say"
            f"{'s' if self.reference is None else ''}, in all programs that were looked at"
        )
        answer.notes += self.notes
        return answer

    def _nothing_stored(self, wrong: Wrong | None) -> Answer:
        assert wrong is not None
        answer = Answer(self.subject.name, self.target, "source")
        index = f"[{', '.join(map(str, wrong.index))}]" if wrong.index else ""
        name = self.subject.spelled(wrong.name)
        answer.sentences.append(
            f"no program stores {name}{index}, which is {wrong.got:.6g} and should be "
            f"{wrong.want:.6g}: the grid {self.grid} is too small, or the address or the mask of "
            f"the store is wrong"
        )
        stores = [op for op in self.module.walk() if op.writes_memory]
        answer.element = f"{name}{index}"
        if stores:
            answer.op = op_place(stores[-1], self.module)
            order = _static_lines(stores[-1])
            answer.rows = [SliceRow(span, text, "part of the address or the mask", 1)
                           for span, text in order]  # fmt: skip
        answer.notes += self.notes
        return answer


def _static_lines(store: Op) -> list[tuple[Any, str]]:
    """Return the lines that a store's address and mask are made at, the nearest first."""
    from workbench.source.spans import line_of

    todo, seen, found = [store], {store}, {}
    while todo:
        op = todo.pop(0)
        if op.span is not None:
            found.setdefault((op.span.file, op.span.line), op.span)
        operands = op.operands if op is not store else (op.operands[0], *op.operands[2:])
        for value in operands:
            if value.op is not None and value.op not in seen:
                seen.add(value.op)
                todo.append(value.op)
    return [(span, line_of(span).strip()) for span in found.values()]


def _row(line: Line, remark: str) -> SliceRow:
    nearest = line.steps[0]
    value = "" if nearest.value is None else _shown(nearest)
    remarks = tuple(filter(None, (remark, *line.remarks)))
    rounds = 1 + max(step.event.round for step in line.steps)
    return SliceRow(line.span, line.text, value, rounds, remarks)


def _shown(step: Any) -> str:
    value = np.asarray(step.value)
    name = step.event.op.name.partition(".")[2]
    if step.event.op.results and isinstance(element_of(step.event.op.results[0].type), Pointer):
        return name
    number = f"{value:.6g}" if value.dtype.kind == "f" else str(value)
    place = f"[{', '.join(map(str, step.place))}]" if step.place else ""
    return f"{name}{place} gives {number}" if step.event.op.results else f"{name} of {number}"


def _has_short_products(module: Module) -> bool:
    """Whether products of f32 are computed in fewer bits somewhere."""
    return any(
        isinstance(op, Dot) and op.precision != "ieee" and element_of(op.a.type) == F32
        for op in module.walk()
    )


def lowering_rule(target: str, op: Op) -> str:
    """Return where the rule stands that lowers an op for a target, "" where nobody knows."""
    from workbench.compiler import family_of
    from workbench.interrupts import imported

    family = family_of(target)
    tables = {"cpu": ("CHUNKS", "CPU"), "nvidia": ("NVIDIA",)}.get(family, ())
    for name in tables:
        room = imported(f"workbench.targets.{family}")
        table = getattr(room, name, None) or getattr(imported(f"{room.__name__}.table"), name, None)
        rule = table.rule(type(op)) if table is not None else None
        if rule is not None:
            return f"{rule.__name__} in {rule.__module__}"
    return ""
