"""Passes that every GPU needs: layouts, shared memory, barriers."""
