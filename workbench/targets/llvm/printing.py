# pyright: basic
"""Run as a script: LLVM generates code and prints after each of its passes, to the error stream.

Printing is switched on for a whole process and cannot be sent elsewhere, so it has this one of its
own. The input is marshalled data: (folder of llvmlite, machine as in helper.py, LLVM IR).
"""

import marshal
import sys


def main() -> None:
    """Generate code and forget it."""
    folder, machine, text = marshal.loads(sys.stdin.buffer.read())
    sys.path.append(folder.rpartition("/")[0])
    import llvmlite.binding as llvm

    llvm.set_option("", "--print-after-all")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    unit = llvm.Target.from_triple(machine["triple"]).create_target_machine(
        cpu=machine["processor"], features=machine["features"], opt=machine["optimisation"],
        reloc="pic" if machine["jit"] else "default", codemodel="default", jit=machine["jit"],
    )  # fmt: skip
    unit.emit_assembly(module)


if __name__ == "__main__":
    main()
