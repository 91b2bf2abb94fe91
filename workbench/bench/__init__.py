"""Baselines, checks, timing and plots: what is said about a kernel after it ran."""
