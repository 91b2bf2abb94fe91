"""What all LLVM targets share: the text emitter, rule tables, and the door to llvmlite."""
