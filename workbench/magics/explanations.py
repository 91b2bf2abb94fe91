"""What each error code means, how it comes about, and how to get rid of it.

`%explain K302` and `workbench explain K302` print an entry: at most 25 lines.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """One code: what it means, an example that raises it, and the way out."""

    cause: str
    example: str
    fix: str

    def render(self, code: str) -> str:
        """Return the entry as text."""
        shown = "\n".join(f"    {line}" for line in self.example.splitlines())
        return f"{code}: {self.cause}\n\nexample:\n{shown}\n\nfix: {self.fix}"


def _entry(cause: str, example: str, fix: str) -> Explanation:
    return Explanation(cause, example, fix)


EXPLANATIONS: dict[str, Explanation] = {
    "K100": _entry(
        "the line has an option that this magic or command does not take.",
        "%%kernel add --gird 4",
        "use the spelling that the message offers; long names cannot be shortened.",
    ),
    "K101": _entry(
        "an option lacks its value, or has one where it takes none.",
        "%%kernel add --grid",
        "write --option VALUE or --option=VALUE.",
    ),
    "K102": _entry(
        "an {expression} in the option line has unbalanced braces or raised an error.",
        "%%kernel add --grid {n // 128}",
        'quote expressions with spaces: --grid "{n // 128}". Literal braces are {{ and }}.',
    ),
    "K103": _entry(
        "the option line has a word too many, or a quote that is never closed.",
        "%%kernel add --check x + y",
        'quote values with spaces: --check "x + y".',
    ),
    "K104": _entry(
        "the expression given to an option raised an error when it was evaluated.",
        "%%kernel add --args x,y,nowhere --grid 1",
        "define every name that the expression uses, in this cell or an earlier one.",
    ),
    "K106": _entry(
        "an option that holds one value is given twice, with different values.",
        "%%kernel add --grid 3 --grid 4",
        "keep one of them. Only --set, --x, --baseline and --assume accumulate.",
    ),
    "K110": _entry(
        "--args has another number of values than the kernel has run-time parameters.",
        "%%kernel add --args x,y,out --grid 1      # add takes x_ptr, y_ptr, out_ptr, n",
        "give one expression per parameter, in order; constexpr parameters go to --set.",
    ),
    "K111": _entry(
        "the grid is not 1 to 3 integers from 0 up, or there is none at all.",
        '%%kernel add --args x,y,out,n --grid "(4, -1)"',
        'give the number of programs per axis, e.g. --grid "cdiv(n, BLOCK)".',
    ),
    "K112": _entry(
        "--set names neither a constexpr parameter nor a compile option.",
        "%%kernel add --set BLK=128",
        "use the parameter's name; options are num_warps, num_stages, num_ctas and maxnreg.",
    ),
    "K113": _entry(
        "the signature text has a type that does not exist, or the wrong number of types.",
        '%%kernel add --sig "*f12 i32"',
        "types are i1 i8 … i64, u8 … u64, f16 bf16 f32 f64, * before a pointer's element type.",
    ),
    "K114": _entry(
        "the target is not one of those that the compiler knows.",
        "%%kernel add --target sm_91",
        "use cpu, interpreter or a chip from sm_80 on, such as sm_80 or sm_90a.",
    ),
    "K115": _entry(
        "the function given to --make did not return all the arguments, or no dict or tuple.",
        "%%kernel add --make mk       # mk returns dict(x_ptr=x), without out_ptr",
        "return a dict by parameter name with every parameter that has no default.",
    ),
    "K116": _entry(
        "a sweep axis has no usable values, or axes that go together differ in length.",
        "%%kernel add --make mk --x N=1,2,3 --x M=1,2,3,4",
        "give axes of equal length, or cross them with --x-grid.",
    ),
    "K117": _entry(
        "a tolerance is negative or no number.",
        "%%kernel add --check --rtol -1",
        "give a number from 0 up.",
    ),
    "K118": _entry(
        "--bench was asked for on a target that cannot be timed.",
        "%%kernel add --args x,y,out,n --grid 1 --bench --target interpreter",
        "time on a GPU or with --target cpu; the interpreter's speed says nothing.",
    ),
    "K119": _entry(
        "--flops or --bytes uses a name that is neither a parameter nor an axis.",
        '%%kernel add --flops "2*M*N*K"',
        "use the kernel's parameter names and the names of --x.",
    ),
    "K120": _entry(
        "the metric does not exist.", "%%kernel add --metric gb",
        "use auto, tflops, gbps, ms or percent.",
    ),
    "K122": _entry(
        "--show names a pane that does not exist.", "%%kernel add --show tir",
        "panes are source ast tile gpu llvm ptx sass asm.",
    ),
    "K123": _entry(
        "--as was given something that cannot be a variable.", "%%kernel add --as 3x",
        "give a Python identifier.",
    ),
    "K124": _entry(
        "--args and --make both say what the arguments are.",
        "%%kernel add --args x,y,out,n --make mk",
        "keep one: --args for one launch, --make for a sweep.",
    ),
    "K125": _entry(
        "--x sweeps over arguments, but nothing makes arguments for a value.",
        "%%kernel add --args x,y,out,n --x n=1:8",
        "give --make f, where f(n=...) returns the arguments.",
    ),
    "K126": _entry(
        "the function given to --make does not take an axis of --x.",
        "%%kernel add --make mk --x size=1:8       # def mk(n): ...",
        "name the axis as the function's parameter.",
    ),
    "K127": _entry(
        "--cold and --warm say opposite things.", "%%kernel add --bench --cold --warm",
        "keep one; --cold is the default.",
    ),
    "K128": _entry(
        "the embed mode does not exist.", "%%kernel add --embed all",
        "use auto, full, summary or none.",
    ),
    "K129": _entry(
        "no kernel or result of that name is known, or there is none yet.",
        "%ptx addd",
        "run a %%kernel cell first; %kernels lists what is known.",
    ),
    "K131": _entry(
        "the cell defines no kernel, or none of the name that the line gives.",
        "%%kernel add\ndef sub(x_ptr): tl.store(x_ptr, 1)",
        "name one of the cell's kernels, or leave the name out for the last one.",
    ),
    "K601": _entry(
        "the kernel's result differs from the reference by more than the tolerance.",
        '%%kernel add --args x,y,out,7 --grid 1 --set BLOCK=3 --check "x + y"',
        "look at the first wrong element and the line that stored it: is its index inside the "
        "grid,\nis the mask right, is the tolerance right for the type (--rtol, --atol)?",
    ),
    "K602": _entry(
        "the reference does not fit the kernel's outputs in number or shape.",
        '%%kernel add --check "(x + y, x)"          # add has one output',
        "give one array per output in parameter order, or a dict by parameter name.",
    ),
    "K603": _entry(
        "the reference expression raised an error.",
        '%%kernel add --check "x @ y"',
        "it sees copies of the arguments by parameter name, and the notebook's names.",
    ),
    "K701": _entry(
        "a baseline was skipped, or ended with an error; the rest was timed.",
        "%%kernel add --bench --baseline triton     # Triton is not installed",
        "install what it needs, or leave it out.",
    ),
    "K801": _entry(
        "the file holds no trace that this version can read.",
        "workbench view notes.txt",
        "give a .wbt or .json that %save wrote, or notebook.ipynb::kernel.",
    ),
    "K802": _entry(
        "the file to write exists already.",
        "%save add add.ptx                          # written before",
        "add --force, or give another name.",
    ),
    "K803": _entry(
        "the suffix of the file to write names no known form.",
        "%save add add.exe",
        "use .html .wbt .json .ptx .ll .sass .s .cubin .png .svg or .csv.",
    ),
    "K804": _entry(
        "the result does not have what the file would hold.",
        "%save add add.csv                          # nothing was benchmarked",
        "compile for a target that has the stage, or run with --bench first.",
    ),
    "K805": _entry(
        "the file cannot be written.",
        "%save add no/such/folder/add.ptx",
        "give a folder that exists and that you may write to.",
    ),
}  # fmt: skip
