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
    "K105": _entry(
        "a function was given a value of a kind that it does not take.",
        "triton.autotune(configs=[{'BLOCK': 128}], key=['n'])",
        "the message says what is expected; here triton.Config({'BLOCK': 128}).",
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
        "the signature text has a type that does not exist, or the wrong number of types, or "
        "--assume states what cannot be used.",
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
        "--flops or --bytes is no number ≥ 0, or names neither a parameter nor an axis.",
        '%%kernel add --flops "2*M*N*K"',
        "use the kernel's parameter names and the names of --x.",
    ),
    "K120": _entry(
        "the metric does not exist.", "%%kernel add --metric gb",
        "use auto, tflops, gbps, ms or percent.",
    ),
    "K121": _entry(
        "--tune or --axis names no axis of this kernel, or leaves nothing to search or to draw.",
        "%%kernel matmul --make mk --tune BMM=64,128",
        "axes are the kernel's constexprs and the options of --set: warps, stages, maxnreg, tma …",
    ),
    "K122": _entry(
        "--show names a pane that does not exist.", "%%kernel add --show tir",
        "panes are source ast tile gpu llvm ptx sass asm.",
    ),
    "K123": _entry(
        "--as was given something that cannot be a variable, or that is one already.",
        "%%kernel add --as 3x",
        "give a Python identifier that holds nothing, or an earlier result.",
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
        "the function given to --make takes other arguments than the axes of --x.",
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
    "K130": _entry(
        "a search among configurations has nothing left to choose from.",
        "@autotune(configs, key=[], prune_configs_by={'early_config_prune': lambda *a, **k: []})",
        "have early_config_prune return at least one configuration.",
    ),
    "K131": _entry(
        "the cell defines no kernel, or none of the name that the line gives.",
        "%%kernel add\ndef sub(x_ptr): tl.store(x_ptr, 1)",
        "name one of the cell's kernels, or leave the name out for the last one.",
    ),
    "K132": _entry(
        "the real Triton is imported already, so its modules cannot be replaced quietly.",
        "import triton, workbench\nworkbench.as_triton()",
        "call as_triton() before anything imports triton, or as_triton(force=True).",
    ),
    "K133": _entry(
        "torch cannot make an operator of this function.",
        "@workbench.torch_op\ndef scale(x, factor): ...",
        "annotate every parameter and the result (x: torch.Tensor), or pass schema=.",
    ),
    "K134": _entry(
        "what is to become of findings is said by no known word.",
        "%%kernel add --guard --report warning",
        "give error, which raises them, or remark, which writes them down.",
    ),
    "K135": _entry(
        "two options say opposite things.",
        "%%kernel add --guard --no-guard",
        "leave one of them out; on the CPU cells are guarded without either.",
    ),
    "K136": _entry(
        "as_triton is asked for a version that it does not know, or for what only a GPU can do.",
        'workbench.as_triton(version="2.1")',
        "leave version out, or take one of those in the message; cuda is \"cpu\" or left out.",
    ),
    "K137": _entry(
        "an environment variable of workbench has a value that means nothing.",
        "WORKBENCH_GUARD=maybe, WORKBENCH_NUM_THREADS=all",
        "set it to what the message says, or unset it; it is read when it is needed.",
    ),
    "K139": _entry(
        "torch's compiler lacks something that workbench takes the place of; it is named.",
        "workbench.use_in_torch_compile()",
        "use torch 2.11 or 2.13, with which it is known to work.",
    ),
    "K150": _entry(
        "a stage is to be edited that the target does not have, or that nothing is made of.",
        "wb.compile(add, ..., target=\"cpu\", override={\"ptx\": text})",
        "tile and llvm can be edited for the CPU and for GPUs, gpu and ptx for GPUs.",
    ),
    "K151": _entry(
        "%layouts, %access or %schedule ask for what a kernel does not have: layouts are of GPUs,\n"
        "values of the GPU IR have their names there, and not every line accesses memory or is a\n"
        "loop whose loads are copied ahead.",
        "%layouts add nothing",
        "%layouts add lists the values, %access add the lines; compile with --target sm_90a.",
    ),
    "K152": _entry(
        "--labels takes what the two sides are called: two different names, a comma between them.",
        "%diff add~1 add --labels before",
        "%diff add~1 add --labels before,after; quote the two where one has spaces.",
    ),
    "K200": _entry(
        "the kernel's text cannot be compiled; the message says what is wrong with it.",
        "def add(x_ptr, n):\n    tl.store(x_ptr)",
        "follow the message: it names what was found and what was expected.",
    ),
    "K203": _entry(
        "a name is not defined, or tl has nothing of that name.",
        "x = tl.lod(x_ptr + offsets)",
        "correct the spelling; names of the notebook must exist when the kernel is compiled.",
    ),
    "K210": _entry(
        "a value must be known at compile time, and is known at run time only.",
        "def add(x_ptr, n):\n    offsets = tl.arange(0, n)",
        "make the parameter a constexpr (n: tl.constexpr) and give it by --set or by name.",
    ),
    "K211": _entry(
        "a static_assert in the kernel does not hold for these constexprs.",
        'tl.static_assert(BLOCK % 16 == 0, "BLOCK must be a multiple of 16")',
        "launch with values for which it holds.",
    ),
    "K212": _entry(
        "a return statement is where, or gives what, a device function cannot have.",
        "def add(x_ptr, n):\n    return tl.load(x_ptr)      # add is launched",
        "a kernel stores its result; a helper returns values of one type on every way out.",
    ),
    "K215": _entry(
        "device code cannot have this Python syntax.",
        "try:\n    x = tl.load(x_ptr)\nexcept ValueError: ...",
        "use if, for, while, return, calls of device functions and compile-time Python values.",
    ),
    "K216": _entry(
        "the text of a function cannot be read, so it cannot be compiled.",
        "k = jit(eval('lambda x_ptr: x_ptr'))",
        "define the kernel in a file or a cell, or register its text in linecache.",
    ),
    "K217": _entry(
        "a tl function was called by ordinary Python code.",
        "tl.zeros((4,), tl.float32)                # at the top level of a cell",
        "call it inside a kernel, and launch that with kernel[grid](...).",
    ),
    "K218": _entry(
        "device functions call each other without an end at compile time.",
        "def f(n):\n    return f(n)",
        "end the recursion by a constexpr condition, or write a loop.",
    ),
    "K219": _entry(
        "the cell's text is not Python, so nothing in it was run.",
        "offsets = tl.arange(0, BLOCK",
        "correct the place that the message shows; an open bracket may be some lines before it.",
    ),
    "K220": _entry(
        "a call or a launch has the wrong number of arguments, or a constexpr has no value.",
        "add[(4,)](x, y, out, n)                   # BLOCK is missing",
        "give every parameter without a default; constexprs by name or --set.",
    ),
    "K290": _entry(
        "a text that should be IR does not parse.",
        "%1 = tile.lod %0",
        "compare with what %tile or %gpu print.",
    ),
    "K291": _entry(
        "the edited text of a stage is not what the stages after it take: a rule of the IR is\n"
        "broken, LLVM or ptxas refuse a row, or the kernel has another name or other parameters.",
        "%%override add gpu         # and a tile in it lies on 2 warps of 4",
        "the caret is at the row; %override add gpu gives the text as it was.",
    ),
    "K292": _entry(
        "the edited text of a stage is valid, and a stage after it cannot work with it.",
        "%%override add gpu",
        "make smaller edits, one at a time; what was valid before is in %override add gpu.",
    ),
    "K301": _entry(
        "a value has a type that the operation does not take, or a name changes its type.",
        "total = 0\nfor i in range(4):\n    total += 1.5      # int before the loop, float after",
        "convert with .to(...), or start with a value of the type that the loop gives.",
    ),
    "K302": _entry(
        "shapes do not fit together.",
        "a: (128, 64), b: (32, 128)\ntl.dot(a, b)                              # 64 against 32",
        "use the same constexpr for extents that must agree; add axes with x[:, None].",
    ),
    "K401": _entry(
        "the kernel needs more shared memory than a program may have.",
        "tl.dot of 512×512 and 512×512 tiles",
        "use smaller tiles or fewer stages; the message says which buffers take what.",
    ),
    "K402": _entry(
        "the kernel needs more registers or threads than a program may have.",
        "%%kernel matmul --set num_warps=32 --set BM=512",
        "use smaller tiles, fewer warps, or maxnreg.",
    ),
    "K403": _entry(
        "nvdisasm is too old for this code: its listing lacks what newer ones tell.",
        "%sass add                                  # live registers are missing",
        "pip install -U nvidia-cuda-nvdisasm",
    ),
    "K405": _entry(
        "the kernel has more operations than debug lines can name; links of the rest are absent.",
        "a loop unrolled a hundred thousand times",
        "unroll less.",
    ),
    "K406": _entry(
        "compiling the kernel would take more than one of the limits that keep a slip from taking "
        "the machine along; or a loop takes longer than a check, %step or another question may.",
        "for i in tl.static_range(10**9): …      # or 9**9**9, or while i != n: i += 3",
        "the message says what was counted and the limit; %workbench config lists all of them, "
        "%workbench config checked=600 lets loops that are long run longer.",
    ),
    "K407": _entry(
        "a kernel's stages were let go to save memory, and what the kernel captured has changed.",
        "SCALE = tl.constexpr(2), a %%kernel add that reads it, many others; SCALE = 3; %ptx add",
        "run the cell again: it compiles for what the names mean now.",
    ),
    "K410": _entry(
        "a tool of the CUDA toolchain is missing, or refused its input.",
        "%sass add                                  # without ptxas",
        "pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm; workbench doctor says what is there.",
    ),
    "K411": _entry(
        "ptxas, which assembles PTX, is not there; without it there is no machine code to show.",
        "%sass add                                  # on a machine without CUDA",
        "pip install nvidia-cuda-nvcc",
    ),
    "K412": _entry(
        "nvdisasm, which lists machine code, is not there or failed.",
        "%sass add                                  # on a machine without CUDA",
        "pip install nvidia-cuda-nvdisasm",
    ),
    "K413": _entry(
        "ptxas took longer than a search among configurations allows.",
        "a configuration with very large tiles and few warps",
        "leave the configuration out; compiled by itself, a kernel may take as long as it needs.",
    ),
    "K414": _entry(
        "the process that compiled a configuration ended: it was out of memory or was stopped.",
        "many large configurations on a small machine",
        "set WORKBENCH_WORKERS to a smaller number (0: compile in this process).",
    ),
    "K415": _entry(
        "LLVM ended, or refused, over the code of one operation; its words and the line are shown.",
        "an operation that LLVM does not know on this processor",
        "write the line another way, or report it; kernel.interpret[grid](...) runs without LLVM.",
    ),
    "K420": _entry(
        "this target cannot do what the kernel asks for.",
        "an operation that only a GPU has, with --target cpu",
        "use another target, or another way to write it.",
    ),
    "K501": _entry(
        "an argument is of a kind that the kernel cannot take there.",
        "add[(4,)](x, y, out, [1, 2], BLOCK=4)",
        "pass arrays for pointers, numbers for scalars.",
    ),
    "K502": _entry(
        "an access left the memory of the array that its pointer comes from.",
        "tl.load(x_ptr + offsets)                   # the last block is only half full",
        "mask it: tl.load(x_ptr + offsets, mask=offsets < n). Guarded launches on the CPU and the "
        "interpreter find the place; memory around a view, in the same storage, is right.",
    ),
    "K503": _entry(
        "an earlier launch left the CUDA context unusable.",
        "any launch after an illegal memory access",
        "restart the kernel; compiling, the CPU target and viewing go on working.",
    ),
    "K504": _entry(
        "the arrays of a launch lie on different devices, or not where the target runs.",
        "add[(4,)](x.cuda(), y, out.cuda(), n, BLOCK=4)",
        "move them to one device: y.cuda(), or all of them .cpu().",
    ),
    "K505": _entry(
        "an array has a dtype that kernels do not have, or cannot be written to.",
        "add[(4,)](x.to(torch.complex64), y, out, n, BLOCK=4)",
        "convert it before the launch; pass a copy of a read-only array.",
    ),
    "K506": _entry(
        "the grid has more programs along an axis than a device can run.",
        "add[(1, 100_000)](...)",
        "put the largest count on axis 0, or let a program do more work.",
    ),
    "K507": _entry(
        "a kernel was called like a function.",
        "add(x, y, out, n)",
        "launch it with a grid: add[(4,)](x, y, out, n, BLOCK=4).",
    ),
    "K508": _entry(
        "there is no CUDA device that can be used.",
        "add[(4,)](x.cuda(), ...)                   # without a driver",
        "launch on the CPU; --target sm_90a with --sig compiles without a device.",
    ),
    "K509": _entry(
        "the device has no memory left.",
        "large arrays, or many loaded kernels",
        "free arrays that are not used, or use smaller ones.",
    ),
    "K510": _entry(
        "a device_assert does not hold.",
        "tl.device_assert(offsets < n, 'inside')   # and debug=True, or kernel.interpret",
        "the message names the first program and element for which it is false.",
    ),
    "K511": _entry(
        "a launch with --isolate ended its process, or could not be sent to one.",
        "%%kernel copy --args x,out --grid 4 --isolate   # and no mask",
        "read the notes: the interpreter looks for the access; this process is unharmed.",
    ),
    "K512": _entry(
        "a kernel is launched over a tensor without memory, as torch makes them while it traces.",
        "torch.compile(f)(x)   # where the backward of f launches a kernel",
        "make the function that launches the kernel an operator: @workbench.torch_op.",
    ),
    "K513": _entry(
        "a kernel with autotune meets new arguments while a CUDA graph is being captured.",
        "with torch.cuda.graph(g): tuned_kernel[grid](x, n)   # for the first time",
        "launch it once with these arguments before the capture.",
    ),
    "K514": _entry(
        "a data race: two programs touch an element, one writes it, and nothing orders the two;\n"
        "or elements of one tile are stored to one address, and are not the same.",
        "tl.store(x_ptr + i + 1, tl.load(x_ptr + i))   # the next program reads x[i + 1]",
        "let one program touch the element, or order the two: a release after the first access\n"
        "(tl.atomic_xchg(flag, 1, sem='release')), an acquire before the second\n"
        "(tl.atomic_add(flag, 0, sem='acquire')). A plain load waits, but orders nobody.\n"
        "--report remark goes on in spite of it.",
    ),
    "K515": _entry(
        "a deadlock: the programs that are left wait for what none of them will write.",
        "while tl.atomic_cas(lock_ptr, 0, 1) != 0: pass   # and nobody releases the lock",
        "the notes name the programs, the lines and what each waits for.",
    ),
    "K516": _entry(
        "an element was read before anything wrote it.",
        "kernel.interpret[grid](x, out, uninitialised=('out_ptr',))",
        "store it first, or mask it in the load.",
    ),
    "K517": _entry(
        "a promise about a value does not hold, so compiled code may do anything; or elements are\n"
        "combined by a function that is not associative, so the order of combining decides.",
        "tl.multiple_of(offset, 16)                 # and offset is 40",
        "drop the promise, or make it true: the message names what was found.",
    ),
    "K518": _entry(
        "an edited stage was compiled for indices of 32 bits, which do not hold this launch.",
        "%%override add ptx --args x,y,out,2**32",
        "launch it over less, or edit the text of a compilation without data, which is exact.",
    ),
    "K519": _entry(
        "a kernel that is pickled by value reads values that are too large, or cannot be pickled.",
        "TABLE = numpy.zeros(10**6)  # read by a kernel of this cell, which is then pickled",
        "pass such values as arguments, or define the kernel in a module that can be imported.",
    ),
    "K601": _entry(
        "the kernel's result differs from the reference by more than rounding explains, in some\n"
        "elements or on average. What a right kernel may differ by follows from what was executed\n"
        "(types, lengths of sums, target); --rtol and --atol replace that.",
        '%%kernel add --args x,y,out,7 --grid 1 --set BLOCK=3 --check "x + y"',
        "%bisect names the first wrong op. Or look at the first wrong element and the line that\n"
        "stored it: is its index inside the grid, is the mask right? On average: is there a\n"
        "factor or a term too many?",
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
    "K604": _entry(
        "the outputs are right, but the kernel wrote nothing to one of them: an earlier run did.",
        "tl.store(out_ptr + i, x, mask=i < 0)       # and out is right already",
        "look at the mask and the pointer of the store. A check launches the kernel again, on\n"
        "copies that hold something else, to see what it writes; your arrays stay as they are.",
    ),
    "K610": _entry(
        "what was handed in for a puzzle is no kernel of the signature that the puzzle states.",
        "puzzles.check(1, lambda x, out: out.copy_(x + 10))",
        "hand in the function under @wb.jit, with the parameters of the task in their order.\n"
        "Constexprs of its own are given to the check by name.",
    ),
    "K611": _entry(
        "a tile has more elements than the puzzle allows: all of the work in one tile is no way\n"
        "that goes on working for larger arrays.",
        "x = tl.load(x_ptr + tl.arange(0, 65536), mask=...)",
        "share the work among programs, or go along the array in a loop.",
    ),
    "K612": _entry(
        "a puzzle's kernel wrote where nobody may write: to an input, or between the elements of\n"
        "an array whose rows lie apart.",
        "tl.store(out_ptr + i * stride_out + j, x, mask=i < rows)   # j may be past the row's end",
        "mask the store along each axis, and use the strides that are given.",
    ),
    "K613": _entry(
        "a puzzle's kernel loads an element twice, where the task says that it may not.",
        "total = tl.sum(tl.load(p)); rest = tl.load(p)",
        "keep the value that was loaded.",
    ),
    "K614": _entry(
        "a puzzle's kernel keeps a sum in fewer bits than float32 has.",
        "acc = tl.zeros((BM, BN), tl.float16)       # and acc += ... in a loop",
        "sum up in float32; operands of a product may be narrower.",
    ),
    "K620": _entry(
        "there is no such puzzle, or it is not solved yet.",
        "puzzles.answer(1, 2)                       # before puzzles.check(1, add_ten) was right",
        "puzzles are numbered from 1 to 12; a question is about the kernel that solved it.",
    ),
    "K621": _entry(
        "there is no notebook to grade.",
        "workbench puzzles empty-folder --grade",
        "give the folder that has the students' notebooks, or folders with them.",
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
        "use .html .wbt .json .tile .gpu .ptx .ll .sass .s .cubin .c .h .py .png .svg or .csv.",
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
    "K806": _entry(
        "there is no kernel cache to merge, or none to merge it into.",
        'wb.cache.merge("/srv/kernels/v3")           # its parent is the cache',
        "give the folder that WORKBENCH_CACHE_DIR was where the kernels were compiled.",
    ),
}  # fmt: skip
