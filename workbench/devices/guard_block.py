"""What the threads of a guarded launch share: words of 64 bits behind the grid's extents.

| word | meaning |
|---|---|
| STOP | 0: go on; else no further program starts |
| ENDED | how many programs ran to their end |
| OP | which check failed, its op's id + 1; 0: none did |
| PROGRAM, ADDRESS, LANE | where: number of the program, address of the access, lane of the tile |
| MAPPED | 1 where an access was found in the process's memory only |
| TABLE, ROWS | address and length of the table of the process's memory (start, end, rights) |

Then follow three words for each pointer of the kernel: where its storage starts, and where it ends
for reads and for writes (an array that is read-only has none of the latter).
"""

from __future__ import annotations

STOP, ENDED, OP, PROGRAM, ADDRESS, LANE, MAPPED, TABLE, ROWS = range(9)
#: Words before the storages, and words of each.
HEAD, STORAGE = 16, 3
#: Rights in the table of the process's memory.
READ, WRITE = 1, 2
