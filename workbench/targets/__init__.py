"""From IR to code: one folder per target, what they share in llvm/."""
