"""What GPUs have in common: lanes and warps with registers, and memory that a block shares."""
