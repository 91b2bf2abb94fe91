// Written by python -m workbench.magics.glossary: what instructions and ops do.
export const TABLE = `
ptx | abs | d, a | The absolute value of a.
ptx | activemask | d | The lanes of the warp that run this instruction now, one bit each.
ptx | add | d, a, b | The sum of a and b; for floats rounded as the modifier says.
ptx | addc | d, a, b | The sum of a, b and the carry of the add.cc before it.
ptx | and | d, a, b | Bitwise and; of predicates, logical and.
ptx | applypriority | [a], size | Gives lines of the L2 cache a priority of eviction.
ptx | atom | d, [a], b (, c) | Changes a place in memory in one step and gives what was there before; the word behind the space says how: add, min, max, and, or, xor, exch, cas, inc, dec.
ptx | bar.sync | a (, b) | Waits at barrier a until all threads of the block (or b of them) are there; what they wrote before is then seen by all.
ptx | bar.arrive | a, b | Says at barrier a that this warp has come, and goes on; others wait with bar.sync.
ptx | bar.warp.sync | mask | Waits for the lanes in the mask, and orders their memory accesses among each other.
ptx | bar.red | d, a, p | Waits at a barrier as bar.sync and combines a predicate of all threads.
ptx | barrier | a (, b) | Waits at a barrier, as bar.sync does, or with .cluster at that of the blocks of a cluster.
ptx | bfe | d, a, start, count | Takes \`count\` bits of a from bit \`start\` on, widened by the sign or zeros.
ptx | bfi | d, a, b, start, count | Puts the low \`count\` bits of a into b from bit \`start\` on.
ptx | bfind | d, a | The place of the highest bit that is not the sign.
ptx | bra | label | Goes on at the label; with a predicate before it, only where that is true.
ptx | brev | d, a | The bits of a in reverse order.
ptx | brkpt |  | Stops for a debugger.
ptx | call | (results), function, (arguments) | Calls a function.
ptx | clz | d, a | How many zero bits a begins with.
ptx | cnot | d, a | 1 where a is 0, else 0.
ptx | copysign | d, a, b | The magnitude of b with the sign of a.
ptx | cos | d, a | An approximate cosine.
ptx | cp.async | [shared], [global], bytes (, present) | Starts to copy 4, 8 or 16 bytes of a lane from global to shared memory and goes on; bytes beyond \`present\` become zeros. It is there after a wait for its group, and a barrier where others read it.
ptx | cp.async.commit_group |  | Ends a group of the copies that this thread has started.
ptx | cp.async.wait_group | n | Waits until at most n of this thread's latest groups of copies are still under way.
ptx | cp.async.wait_all |  | Waits for all copies that this thread has started.
ptx | cp.async.bulk | [to], [from], size, [mbarrier] | Starts to copy a whole run of bytes, or with .tensor a tile described by a tensor map, by the copy unit; an mbarrier counts what has arrived.
ptx | cp.async.bulk.commit_group |  | Ends a group of this thread's bulk copies to global memory.
ptx | cp.async.bulk.wait_group | n | Waits until at most n groups of bulk copies are under way; with .read, until their sources may be overwritten.
ptx | createpolicy | d, fraction | Makes a policy for the L2 cache that loads and stores can name.
ptx | cvt | d, a | Converts a from the last type named to the one before; .rn .rz .rm .rp say how to round, .satfinite and .sat to stay in range.
ptx | cvta | d, a | Turns an address of one space into one that is good anywhere, or with .to back.
ptx | discard | [a], size | Says that lines of the L2 cache need not be written back.
ptx | div | d, a, b | The quotient; .full and .approx are fast and less exact, .rn is rounded right.
ptx | dp4a | d, a, b, c | c plus the four products of the bytes of a and b.
ptx | dp2a | d, a, b, c | c plus two products of 16-bit parts of a and bytes of b.
ptx | elect.sync | d, p, mask | Chooses one lane of the warp: p is true there alone.
ptx | ex2 | d, a | An approximate 2 to the power of a.
ptx | exit |  | Ends the thread.
ptx | fence |  | Orders this thread's memory accesses before and after it as others of the scope see them; .proxy between the ordinary way to memory and that of copies or matrix units.
ptx | fma | d, a, b, c | a times b plus c, rounded once.
ptx | fns | d, mask, base, n | The place of the n-th bit that is set from \`base\` on.
ptx | getctarank | d, a | Which block of the cluster an address belongs to.
ptx | griddepcontrol |  | launch_dependents lets the next kernel start; wait waits until the kernel before has ended.
ptx | isspacep | p, a | Whether an address lies in a space.
ptx | istypep | p, a | Whether a handle is of a type.
ptx | ld | d, [a] | Loads from memory: .global, .shared, .local (a thread's own) or .param (the kernel's arguments); .v2 and .v4 load neighbours at once, .volatile .relaxed .acquire say what others may see of it.
ptx | ldmatrix | {d...}, [a] | Loads one, two or four 8x8 matrices of 16-bit elements from shared memory as mma takes them; each lane gives the address of one row of 16 bytes. .trans turns them.
ptx | ldu | d, [a] | Loads what is the same for all lanes and never written.
ptx | lg2 | d, a | An approximate logarithm to base 2.
ptx | lop3 | d, a, b, c, table | Any function of three bits at once; the table has its eight results.
ptx | mad | d, a, b, c | a times b plus c; .lo and .hi keep half of the product, .wide all of it.
ptx | madc | d, a, b, c | As mad, plus the carry of the instruction before.
ptx | mapa | d, a, b | The address of a in the shared memory of block b of the cluster.
ptx | match | d, a, mask | The lanes whose a is equal.
ptx | max | d, a, b | The larger of both; with .NaN a NaN if either is one, else the number.
ptx | mbarrier | [a] | A barrier in shared memory: init sets how many arrivals it takes, arrive counts one (expect_tx adds bytes to wait for), try_wait asks whether its phase has ended.
ptx | membar |  | Orders this thread's memory accesses: .cta for the block, .gl for the GPU, .sys for all.
ptx | min | d, a, b | The smaller of both; with .NaN a NaN if either is one, else the number.
ptx | mma | {d}, {a}, {b}, {c} | A warp multiplies two small matrices and adds c: shape .m16n8k16 means 16x16 times 16x8; the elements lie over the lanes in fixed fragments.
ptx | mov | d, a | Copies a register, a constant or a special register; also packs parts into a wider register and takes them apart.
ptx | mul | d, a, b | The product; of integers .lo and .hi keep half of it, .wide all.
ptx | mul24 | d, a, b | A product of 24-bit integers.
ptx | multimem | d, [a] | Reads or updates the same place in the memories of several GPUs.
ptx | nanosleep | t | Sleeps for about t nanoseconds.
ptx | neg | d, a | The negative of a.
ptx | not | d, a | All bits turned over; of predicates, logical not.
ptx | or | d, a, b | Bitwise or; of predicates, logical or.
ptx | pmevent | a | Triggers an event of the performance monitor.
ptx | popc | d, a | How many bits of a are set.
ptx | prefetch | [a] | Asks for a line of memory to be brought into a cache.
ptx | prefetchu | [a] | Asks for a line to be brought into the uniform cache.
ptx | prmt | d, a, b, select | Puts together any four of the eight bytes of a and b.
ptx | rcp | d, a | One divided by a; .approx is fast.
ptx | red | [a], b | Changes a place in memory in one step, as atom, without giving the old value.
ptx | redux | d, a, mask | Combines an integer of all lanes in the mask; all get the result.
ptx | rem | d, a, b | The rest of dividing a by b, with the sign of a.
ptx | ret |  | Returns from the function; of a kernel, ends the thread.
ptx | rsqrt | d, a | An approximate one over the square root.
ptx | sad | d, a, b, c | c plus the absolute difference of a and b.
ptx | selp | d, a, b, p | a where the predicate p is true, else b.
ptx | set | d, a, b | Compares and gives all ones or zeros, or 1.0 or 0.0.
ptx | setmaxnreg | n | Gives registers of a warp group back, or takes more.
ptx | setp | p, a, b | Compares a and b as the modifier says (eq ne lt le gt ge; with a u behind, true for NaN) and sets the predicate p.
ptx | shf | d, a, b, c | Shifts the 64 bits of b and a by c and keeps one half.
ptx | shfl | d, a, b, c, mask | Gives each lane the register a of another: .bfly of lane xor b, .up and .down of b lanes before or after, .idx of lane b.
ptx | shl | d, a, b | a shifted left by b bits.
ptx | shr | d, a, b | a shifted right by b bits; signed types keep the sign.
ptx | sin | d, a | An approximate sine.
ptx | slct | d, a, b, c | a where c is at least 0, else b.
ptx | sqrt | d, a | The square root; .approx is fast, .rn rounded right.
ptx | st | [a], b | Stores to memory: .global, .shared, .local; .v2 and .v4 store neighbours at once, .release and .relaxed say what others may see of it.
ptx | stmatrix | [a], {b...} | Stores 8x8 matrices of 16-bit elements from mma's fragments to shared memory.
ptx | sub | d, a, b | a minus b.
ptx | subc | d, a, b | a minus b minus the borrow of the instruction before.
ptx | szext | d, a, b | Keeps the low b bits of a, widened by the sign or zeros.
ptx | tanh | d, a | An approximate hyperbolic tangent.
ptx | tcgen05 |  | The matrix unit of sm_100: memory of its own, products and copies to and from it.
ptx | testp | p, a | Asks of a float whether it is finite, infinite, a number, NaN, normal or subnormal.
ptx | trap |  | Ends the kernel with an error.
ptx | vote | d, p, mask | Asks all lanes of the mask: .all, .any, .uni as a predicate, .ballot as a bit for each lane.
ptx | wgmma.mma_async | {d}, a, b | Four warps start a product of matrices in shared memory (a may be in registers) that is added to d; it runs on while they go on.
ptx | wgmma.fence |  | Orders the registers of a warp group before the next wgmma.
ptx | wgmma.commit_group |  | Ends a group of products that were started.
ptx | wgmma.wait_group | n | Waits until at most n groups of products are under way.
ptx | xor | d, a, b | Bitwise exclusive or; of predicates, true where they differ.
ptx. | .approx |  | fast, with an error of a few units in the last place
ptx. | .ftz |  | subnormal inputs and results are taken as 0
ptx. | .rn |  | rounded to the nearest, ties to even
ptx. | .rz |  | rounded towards 0
ptx. | .rna |  | rounded to the nearest, ties away from 0
ptx. | .global |  | in global memory
ptx. | .shared |  | in the block's shared memory
ptx. | .local |  | in the thread's own memory (spilled registers, arrays)
ptx. | .param |  | among the kernel's arguments
ptx. | .v2 |  | two neighbours at once
ptx. | .v4 |  | four neighbours at once
ptx. | .volatile |  | never cached or left out
ptx. | .acquire |  | nothing after it moves before it
ptx. | .release |  | nothing before it moves after it
ptx. | .relaxed |  | others see it whole, in no order with other places
ptx. | .gpu |  | as seen by the whole GPU
ptx. | .cta |  | as seen by the block
ptx. | .sys |  | as seen by the GPU, other GPUs and the host
ptx. | .sync |  | by the lanes of the mask together
ptx. | .aligned |  | all lanes of the warp run it together
ptx. | .trans |  | rows and columns exchanged
ptx. | .wide |  | the result is twice as wide
ptx. | .lo |  | the low half of the result
ptx. | .hi |  | the high half of the result
ptx. | .uni |  | all lanes go the same way
ptx. | .sat |  | kept between 0 and 1
ptx. | .satfinite |  | what is too large becomes the largest finite number
sass | ACQBULK |  | Waits for the kernel before this one (griddepcontrol.wait).
sass | ACQSHMINIT |  | Waits until shared memory is ready for the block.
sass | ATOM | d, [a], b | An atomic update of memory that gives the old value.
sass | ATOMG | p, d, [a], b | An atomic update of global memory that gives the old value.
sass | ATOMS | d, [a], b | An atomic update of shared memory.
sass | ARRIVES | [a] | Lets asynchronous copies arrive at an mbarrier when they are done.
sass | B2R | d, a | Reads a barrier into a register.
sass | BAR | a (, b) | A barrier of the block: .SYNC waits there, .ARV arrives and goes on, .RED combines predicates.
sass | BMOV | d, a | Copies a barrier register for diverging lanes.
sass | BMSK | d, start, width | A mask with \`width\` bits from \`start\` on.
sass | BPT |  | A trap or a break point.
sass | BRA | target | Goes on at the target; @P before it: only lanes whose predicate is true.
sass | BREAK | p, b | Takes lanes out of the group that waits at a convergence barrier.
sass | BREV | d, a | The bits in reverse order.
sass | BRX | a, target | Goes to an address in a register.
sass | BRXU | ua, target | Goes to an address in a uniform register.
sass | BSSY | b, target | Lanes are about to diverge: they will meet again at the target, at barrier b.
sass | BSYNC | b | Waits until the lanes that diverged at barrier b are here.
sass | CALL | target | Calls a function; .REL relative to here, .ABS at an address.
sass | CCTL | [a] | Controls a cache line; .IVALL throws all of L1 away.
sass | CCTLL | [a] | Controls the cache of a thread's own memory.
sass | CGAERRBAR |  | Waits until errors of accesses to other blocks of the cluster have been told.
sass | CREDUX | ud, a | Combines a value of all lanes into a uniform register.
sass | CS2R | d, a | Copies a special register, fast; from SRZ it writes zeros into two registers.
sass | DADD | d, a, b | A sum of 64-bit floats.
sass | DEPBAR | b, n | Waits until at most n of the operations that count on barrier b are under way.
sass | DFMA | d, a, b, c | a times b plus c of 64-bit floats, rounded once.
sass | DMMA | d, a, b, c | A warp's matrix product of 64-bit floats.
sass | DMUL | d, a, b | A product of 64-bit floats.
sass | DSETP | p, q, a, b, r | Compares 64-bit floats and combines with the predicate r.
sass | ELECT | p, d | Chooses one lane of the warp.
sass | ENDCOLLECTIVE |  | Ends a part that lanes run together.
sass | ERRBAR |  | Waits until errors of memory accesses have been told.
sass | EXIT |  | Ends the thread.
sass | F2F | d, a | Converts between widths of floats.
sass | F2FP | d, a, b | Converts two floats and packs both into one register.
sass | F2I | d, a | Converts a float to an integer.
sass | F2IP | d, a, b | Converts floats to integers and packs them.
sass | F2F16 | d, a | Converts to a 16-bit float.
sass | FADD | d, a, b | A sum of 32-bit floats.
sass | FADD2 | d, a, b | Two sums of 32-bit floats at once.
sass | FCHK | p, a, b | Asks whether a division needs the slow way.
sass | FENCE |  | Orders accesses of different ways to memory (.VIEW.ASYNC: before asynchronous units read).
sass | FFMA | d, a, b, c | a times b plus c of 32-bit floats, rounded once.
sass | FFMA2 | d, a, b, c | Two products with sums of 32-bit floats at once.
sass | FHADD | d, a, b | A sum of a 32-bit float and a 16-bit one, which is widened.
sass | FHFMA | d, a, b, c | A product and sum of 32-bit and 16-bit floats, which are widened.
sass | FHMUL | d, a, b | A product of a 32-bit float and a 16-bit one, which is widened.
sass | FLO | d, a | The place of the highest bit that is set.
sass | FMNMX | d, a, b, p | The smaller of two floats where p is true, else the larger.
sass | FMNMX3 | d, a, b, c, p | The smallest or largest of three floats.
sass | FMUL | d, a, b | A product of 32-bit floats.
sass | FMUL2 | d, a, b | Two products of 32-bit floats at once.
sass | FRND | d, a | Rounds a float to a whole number.
sass | FSEL | d, a, b, p | a where p is true, else b.
sass | FSET | d, a, b | Compares floats, the result is a number.
sass | FSETP | p, q, a, b, r | Compares floats, combines with the predicate r, and sets p (and q to the opposite).
sass | FSWZADD | d, a, b | A sum with signs by lane.
sass | GETLMEMBASE | d | The base of the thread's own memory.
sass | HADD2 | d, a, b | Two sums of 16-bit floats at once; with .F32 it widens one.
sass | HFMA2 | d, a, b, c | Two products with sums of 16-bit floats at once; with constants it also just writes them.
sass | HGMMA | d, a, b | Four warps start a product of matrices in shared memory (wgmma); gdesc is the matrix descriptor, gsb0 what counts those under way.
sass | HMMA | d, a, b, c | A warp multiplies small matrices of 16-bit (or tf32) floats and adds c; .16816 means 16x8x16, the last type that of the sum.
sass | HMNMX2 | d, a, b, p | Two minima or maxima of 16-bit floats.
sass | HMUL2 | d, a, b | Two products of 16-bit floats.
sass | HSET2 | d, a, b | Two comparisons of 16-bit floats as numbers.
sass | HSETP2 | p, q, a, b, r | Two comparisons of 16-bit floats as predicates.
sass | I2F | d, a | Converts an integer to a float.
sass | I2FP | d, a | Converts an integer to a 32-bit float, on the fast way.
sass | I2I | d, a | Converts between integers, kept in range.
sass | I2IP | d, a, b | Converts and packs integers, kept in range.
sass | IABS | d, a | The absolute value of an integer.
sass | IADD | d, a, b | A sum of integers.
sass | IADD3 | d, a, b, c | A sum of three integers; .X adds the carries of predicates, .64 is twice as wide.
sass | IDP | d, a, b, c | c plus products of bytes or halves.
sass | IGMMA | d, a, b | Four warps start a product of integer matrices (wgmma).
sass | IMAD | d, a, b, c | a times b plus c of integers; .WIDE gives 64 bits, .MOV only copies c, .IADD and .SHL are sums and shifts on the multiplier.
sass | IMMA | d, a, b, c | A warp multiplies small matrices of 8-bit integers and adds c.
sass | IMNMX | d, a, b, p | The smaller of two integers where p is true, else the larger.
sass | ISCADD | d, a, b, n | a shifted left by n, plus b.
sass | ISETP | p, q, a, b, r | Compares integers, combines with the predicate r, and sets p (and q to the opposite); .EX goes on with the high halves.
sass | JMP | target | Goes to an absolute address.
sass | KILL |  | Ends the lanes.
sass | LD | d, [a] | Loads from an address that may lie anywhere.
sass | LDC | d, c[bank][a] | Loads from constant memory; bank 0 holds the kernel's arguments.
sass | LDCU | ud, c[bank][a] | Loads from constant memory into a uniform register.
sass | LDG | d, [a] | Loads from global memory; .E: the address has 64 bits, .128 16 bytes a lane, .CONSTANT never written.
sass | LDGDEPBAR |  | Lets the asynchronous copies started so far count on a barrier (commit).
sass | LDGMC | d, [a] | Loads from the memories of several GPUs, combined.
sass | LDGSTS | [shared], [global] | Copies from global to shared memory asynchronously (cp.async); .BYPASS leaves L1 out.
sass | LDL | d, [a] | Loads from the thread's own memory: mostly a register that was spilled.
sass | LDS | d, [a] | Loads from shared memory; .64 and .128 are the bytes of a lane in bits.
sass | LDSM | d, [a] | Loads 8x8 matrices from shared memory as matrix instructions take them (ldmatrix); .M88.4 four of them, .MT88 turned.
sass | LDT | d, [a] | Loads from the matrix unit's own memory.
sass | LDTM | d, [a] | Loads a matrix from the matrix unit's own memory (sm_100).
sass | LEA | d, a, b, n | a shifted left by n, plus b: an address. .HI gives the high half.
sass | LEPC | d | The address of the next instruction.
sass | LOP3 | d, a, b, c, table | Any bitwise function of three values; the table says which.
sass | MATCH | d, a | The lanes whose value is equal.
sass | MEMBAR |  | Orders memory accesses: .CTA .GPU .SYS say as seen by whom.
sass | MOV | d, a | Copies a register or a constant.
sass | MOVM | d, a | Transposes an 8x8 matrix over the lanes of a warp.
sass | MUFU | d, a | A function by the special unit: .EX2 .LG2 .RCP .RSQ .SQRT .SIN .COS .TANH.
sass | NANOSLEEP | a | Sleeps for a while.
sass | NOP |  | Nothing; fills places.
sass | OMMA | d, a, b, c | A warp multiplies small matrices of 4-bit floats.
sass | P2R | d, pr, mask | Copies predicates into the bits of a register.
sass | PLOP3 | p, q, a, b, c, table | Any function of three predicates.
sass | PMTRIG | a | Triggers the performance monitor.
sass | POPC | d, a | How many bits are set.
sass | PREEXIT |  | Lets the next kernel start (griddepcontrol.launch_dependents).
sass | PRMT | d, a, select, b | Puts together any four of the eight bytes of a and b.
sass | QMMA | d, a, b, c | A warp multiplies small matrices of 8-bit floats and adds c.
sass | QGMMA | d, a, b | Four warps start a product of matrices of 8-bit floats (wgmma).
sass | QSPC | p, a | Asks in which space an address lies.
sass | R2B | b, a | Writes a register into a barrier.
sass | R2P | pr, a, mask | Copies the bits of a register into predicates.
sass | R2UR | ud, a | Copies a register that all lanes have alike into a uniform register.
sass | RED | [a], b | An atomic update of global memory without the old value.
sass | REDG | [a], b | An atomic update of global memory without the old value.
sass | REDAS | [a], b | An atomic update of another block's shared memory.
sass | REDUX | ud, a | Combines an integer of all lanes into a uniform register.
sass | RET | a | Returns from a function.
sass | RPCMOV | d, a | Copies a lane's own program counter.
sass | S2R | d, a | Copies a special register: SR_TID.X the thread's index, SR_CTAID.X the program's, SR_LANEID the lane.
sass | S2UR | ud, a | Copies a special register into a uniform one.
sass | SEL | d, a, b, p | a where p is true, else b.
sass | SETCTAID | d | Sets the block's index.
sass | SETLMEMBASE | a | Sets the base of the thread's own memory.
sass | SGXT | d, a, n | Keeps n bits, widened by the sign (.U32: zeros).
sass | SHF | d, a, n, b | Shifts the 64 bits of b and a by n; .L .R say where, .HI which half is kept.
sass | SHFL | p, d, a, b, c | Gives each lane a register of another: .BFLY of lane xor b, .UP and .DOWN of b lanes away, .IDX of lane b.
sass | ST | [a], b | Stores to an address that may lie anywhere.
sass | STAS | [a], b | Stores to another block's shared memory, asynchronously.
sass | STG | [a], b | Stores to global memory; .E: the address has 64 bits, .128 16 bytes a lane.
sass | STL | [a], b | Stores to the thread's own memory: mostly a register that is spilled.
sass | STS | [a], b | Stores to shared memory.
sass | STSM | [a], b | Stores 8x8 matrices from matrix fragments to shared memory (stmatrix).
sass | STT | [a], b | Stores to the matrix unit's own memory.
sass | STTM | [a], b | Stores a matrix to the matrix unit's own memory (sm_100).
sass | SYNCS | [a] | An operation on an mbarrier in shared memory: exchange, arrive, or try to wait.
sass | SYNCSU | [a] | As SYNCS, with uniform registers.
sass | UBLKCP | [a], [b], n | Copies a run of bytes by the copy unit (cp.async.bulk).
sass | UBMSK | ud, start, width | A mask, by the uniform unit.
sass | UBREV | ud, a | The bits in reverse order, by the uniform unit.
sass | UCGABAR_ARV |  | Arrives at the barrier of a cluster.
sass | UCGABAR_WAIT |  | Waits at the barrier of a cluster.
sass | UCLEA | ud, a, b | An address in constant memory, by the uniform unit.
sass | UF2FP | ud, a, b | Converts and packs floats, by the uniform unit.
sass | UFADD | ud, a, b | A sum of floats, by the uniform unit.
sass | UFFMA | ud, a, b, c | a times b plus c, by the uniform unit.
sass | UFLO | ud, a | The place of the highest bit that is set, by the uniform unit.
sass | UFMUL | ud, a, b | A product of floats, by the uniform unit.
sass | UFSEL | ud, a, b, up | A choice between floats, by the uniform unit.
sass | UFSETP | up, uq, a, b | Compares floats, by the uniform unit.
sass | UGETNEXTWORKID | [a] | Asks for the next block to run.
sass | UI2F | ud, a | An integer to a float, by the uniform unit.
sass | UI2FP | ud, a | An integer to a float, by the uniform unit.
sass | UIADD3 | ud, a, b, c | A sum of three integers that all lanes have alike, by the uniform unit.
sass | UIMAD | ud, a, b, c | a times b plus c of integers, by the uniform unit.
sass | UIABS | ud, a | The absolute value, by the uniform unit.
sass | UIMNMX | ud, a, b, up | The smaller or larger integer, by the uniform unit.
sass | UISETP | up, uq, a, b, ur | Compares integers, by the uniform unit.
sass | ULDC | ud, c[bank][a] | Loads a constant, mostly a kernel's argument, into a uniform register.
sass | ULEA | ud, a, b, n | a shifted left by n, plus b, by the uniform unit.
sass | ULOP3 | ud, a, b, c, table | Any bitwise function of three values, by the uniform unit.
sass | UMOV | ud, a | Copies into a uniform register.
sass | UP2UR | ud, upr, mask | Copies uniform predicates into the bits of a register.
sass | UPLOP3 | up, uq, a, b, c, table | Any function of three uniform predicates.
sass | UPOPC | ud, a | How many bits are set, by the uniform unit.
sass | UPRMT | ud, a, select, b | Puts bytes together, by the uniform unit.
sass | UR2UP | upr, a, mask | Copies the bits of a register into uniform predicates.
sass | UR2UR | ud, a | Copies a uniform register.
sass | UREDGR | [a], b | An atomic update with a uniform address.
sass | USEL | ud, a, b, up | a where up is true, else b, by the uniform unit.
sass | USETMAXREG | n | Gives registers back, or takes more (setmaxnreg).
sass | USGXT | ud, a, n | Keeps n bits, widened, by the uniform unit.
sass | USHF | ud, a, n, b | Shifts, by the uniform unit.
sass | USHL | ud, a, n | Shifts left, by the uniform unit.
sass | USHR | ud, a, n | Shifts right, by the uniform unit.
sass | USTGR | [a], b | A store with a uniform address.
sass | UTCATOMSWS |  | Asks for, or gives back, memory of the matrix unit.
sass | UTCBAR | [a] | Lets the matrix unit's work arrive at an mbarrier.
sass | UTCHMMA |  | The matrix unit's product of 16-bit floats (sm_100).
sass | UTCQMMA |  | The matrix unit's product of 8-bit floats (sm_100).
sass | UTMACCTL |  | Controls the cache of tensor maps.
sass | UTMALDG | [a], [map] | Copies a tile from global to shared memory by the copy unit (a tensor map's load).
sass | UTMASTG | [map], [a] | Copies a tile from shared to global memory by the copy unit.
sass | UTMAREDG | [map], [a] | Adds a tile in shared memory to global memory by the copy unit.
sass | UTMACMDFLUSH |  | Sends the copy unit's work on its way (commit).
sass | UTMAPF | [map] | Brings a tile into the cache by the copy unit.
sass | UVIADD | ud, a, b | A sum of integers, by the uniform unit.
sass | UVIMNMX | ud, a, b, up | The smaller or larger integer, by the uniform unit.
sass | UVIRTCOUNT |  | Says how many blocks work together.
sass | VABSDIFF | d, a, b, c | The absolute difference plus c.
sass | VABSDIFF4 | d, a, b, c | Four absolute differences of bytes plus c.
sass | VHMNMX | d, a, b, c | The smallest or largest of three 16-bit floats, twice.
sass | VIADD | d, a, b | A sum of integers, on another unit than IADD3.
sass | VIADDMNMX | d, a, b, c, p | A sum, then the smaller or larger of it and c.
sass | VIMNMX | d, a, b, p | The smaller of two integers where p is true, else the larger.
sass | VIMNMX3 | d, a, b, c, p | The smallest or largest of three integers.
sass | VOTE | d, p | Asks all lanes: .ANY .ALL .EQ, and which of them as bits.
sass | VOTEU | ud, up, p | Asks all lanes, the answer in a uniform register.
sass | WARPGROUP |  | .ARRIVE: the warp group's registers are ready for HGMMA; .DEPBAR waits until at most so many products are under way.
sass | WARPGROUPSET |  | Sets up a warp group.
sass | WARPSYNC | mask | Waits for the lanes of the mask.
sass | YIELD |  | Lets other lanes of a diverged warp go first.
sass. | .E |  | addresses of 64 bits
sass. | .64 |  | 8 bytes of each lane
sass. | .128 |  | 16 bytes of each lane
sass. | .U8 |  | a byte, widened by zeros
sass. | .U16 |  | two bytes, widened by zeros
sass. | .S8 |  | a byte, widened by the sign
sass. | .S16 |  | two bytes, widened by the sign
sass. | .CONSTANT |  | never written while the kernel runs
sass. | .STRONG |  | ordered as seen by the scope that follows
sass. | .SYS |  | as seen by the host, too
sass. | .GPU |  | as seen by the whole GPU
sass. | .WIDE |  | the result has 64 bits
sass. | .FTZ |  | subnormal inputs and results are taken as 0
sass. | .X |  | with the carry of the instruction before
sass. | .HI |  | the high half of the result
sass. | .BYPASS |  | leaves the L1 cache out
sass. | .EF |  | evicted first from the cache
sass. | .EL |  | evicted last from the cache
sass. | .NA |  | not kept in the cache
sass. | .SYNC |  | waits for the lanes or threads
sass. | .LUT |  | the function is a table
sass. | .AND |  | combined by and
sass. | .OR |  | combined by or
sass. | .EX |  | goes on with the high halves
ir | gpu.arrive | | Arrive at barrier \`turn\`: one thread does, if \`when\` holds.
ir | gpu.asked | | What a thread has asked memory for is under way before it computes anything of what follows.
ir | gpu.async_copy | | Start copying what the pointers point at into slot \`slot\`; masked-off elements become 0.
ir | gpu.await | | Wait until the phase of barrier \`turn\` with a parity has ended (0: of the first).
ir | gpu.await_stores | | Wait until the copies to global memory that the block's warps started have read their source.
ir | gpu.await_turn | | A group of warps waits until the one before has passed its turn on, the first for the last.
ir | gpu.barrier | | All threads of the block wait for each other; memory written before is seen after.
ir | gpu.barriers | | A ring of barriers in shared memory, each of whose phases ends after so many arrivals.
ir | gpu.cluster_arrive | | The threads of a block have begun: those of its cluster's others may use its shared memory.
ir | gpu.cluster_wait | | Wait until all threads of a cluster's blocks have arrived.
ir | gpu.commit_copies | | Close a group of asynchronous copies.
ir | gpu.convert_layout | | The same elements, held by other registers, lanes and warps.
ir | gpu.copy_rounds | | Fill all slots of a buffer: slot t with what lies t elements behind the pointers.
ir | gpu.draw | | Draw the number of a program that no block has taken, and store it in a slot of a buffer.
ir | gpu.drawn | | Return the number that has been drawn for a slot of a buffer.
ir | gpu.each_program | | Run the body for each program that this block takes, one after the other.
ir | gpu.expect | | Arrive at barrier \`turn\`, and have its phase wait for so many bytes of copies too.
ir | gpu.fence_products | | What this thread wrote to shared memory comes before what products read there.
ir | gpu.has_peers | | Whether each of a cluster's \`blocks\` has a program, which all but the launch's last have.
ir | gpu.kept | | What becomes of a carried number for each row, which its elements may raise (or lower).
ir | gpu.pass_turn | | A group of warps lets the next one take its turn; nobody waits.
ir | gpu.renew_barriers | | Let all barriers of a ring begin again: each is in its first phase, and nobody has arrived.
ir | gpu.roles | | Warps of the block part: \`warps\` further ones run the first region, all others the second.
ir | gpu.scale | | A tile times factors; a warp whose factors are all 1 does not multiply: x * 1 is x.
ir | gpu.scale_products | | The result of a product times factors, once at most \`pending\` products are under way.
ir | gpu.shared_allocate | | A buffer in shared memory for a tile, or a ring of slots with a tile in each.
ir | gpu.shared_dot | | accumulator + a @ b for operands that lie in shared memory; see tile.dot.
ir | gpu.shared_load | | Read a tile out of slot \`slot\` of a buffer.
ir | gpu.shared_store | | Write a tile into slot \`slot\` of a buffer (the whole buffer if it has no slots).
ir | gpu.still_read | | What products of a loop read from registers in each round is alive up to here.
ir | gpu.tensor_copy | | Start copying a box of a tensor map into slot \`slot\` of a buffer; see gpu.tensor_load.
ir | gpu.tensor_load | | Read the box of a tensor map that begins at some coordinates; zero outside the array.
ir | gpu.tensor_map | | How an array lies in memory from \`base\` on, for copies of boxes of the type's extents.
ir | gpu.tensor_store | | Write a tile to the box of a tensor map that begins at some coordinates, if it is inside.
ir | gpu.wait_copies | | Wait until at most \`pending\` of the latest groups are still under way.
ir | gpu.wait_products | | The result of a product, once at most \`pending\` of the latest products are under way.
ir | gpu.warp_barrier | | The lanes of each warp wait for each other; what they have asked memory for is under way.
ir | gpu.wgmma | | accumulator + a @ b by groups of four warps, for operands in shared memory; see tile.dot.
ir | tile.abs | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.acos | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.acosh | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.add | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.add_pointer | | Pointers moved by whole elements; offsets are signed (unsigned types: zero-extended).
ir | tile.and | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.asin | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.asinh | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.assert | | Stop with a message where a condition does not hold and the mask is on.
ir | tile.assume | | The author's promise that a condition holds.
ir | tile.atan | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.atan2 | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.atanh | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.atomic | | Replace *p by function(*p, value) at once and give the old value (0 where masked off).
ir | tile.atomic_cas | | Replace *p by value where it equals \`expected\`; give the old value.
ir | tile.barrier | | All threads of the program instance wait for each other; orders their memory accesses.
ir | tile.bitcast | | The same bits read as another element type of the same width.
ir | tile.broadcast | | A tile repeated along its axes of extent 1; the rank stays.
ir | tile.cast | | The same number in another element type.
ir | tile.cbrt | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.ceil | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.check_access | | End the launch where a live lane of the access that follows leaves the memory it may touch.
ir | tile.concatenate | | Two one-dimensional tiles one after the other.
ir | tile.constant | | A number known at compile time, in every element of \`type\`.
ir | tile.copysign | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.cos | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.cosh | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.div | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.div_rn | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.dot | | accumulator + a @ b, for a [.., M, K] and b [.., K, N].
ir | tile.eq | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.erf | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.erfc | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.erfinv | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.exp | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.exp10 | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.exp2 | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.expand_dims | | A tile with an axis of extent 1 inserted before \`axis\`.
ir | tile.expm1 | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.floor | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.fma | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.for | | Run the body with its counter at lower, lower + step, ... while below \`upper\`.
ir | tile.gather | | Elements of \`source\` at places \`index\` along \`axis\`; other coordinates stay.
ir | tile.ge | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.grid_dependency_wait | | Wait until the launches that this one depends on are done and what they stored is there.
ir | tile.gt | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.histogram | | How often each of 0 ... bins - 1 occurs among the elements whose mask holds.
ir | tile.hypot | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.if | | Run one of two regions; both yield values of the same types.
ir | tile.inline_asm | | Instructions of the target, run for \`pack\` elements of every operand at a time.
ir | tile.iota | | The integers \`start\`, \`start + 1\`, ... as a one-dimensional tile.
ir | tile.join | | Two tiles of one type stacked on a new last axis of extent 2.
ir | tile.launch_dependents | | Let launches that depend on this one begin, once all threads were here or are done.
ir | tile.le | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.leading_zeros | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.lgamma | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.load | | Read one element through each pointer; masked-off lanes read \`other\`, or 0.
ir | tile.log | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.log10 | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.log1p | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.log2 | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.lt | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.map | | Run the body once per element, on the elements of all inputs at one place.
ir | tile.max | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.maximum | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.merge | | Bitonic rows of integers put in order along the last axis, whose extent is a power of two.
ir | tile.min | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.minimum | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.mul | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.mulhi | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.ne | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.neg | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.nextafter | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.num_programs | | How many program instances there are along a grid axis.
ir | tile.or | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.popcount | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.pow | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.print | | Print values, one line per element, with program and index.
ir | tile.program_id | | The index of this program instance along a grid axis.
ir | tile.promise | | The value itself, about which the author promises something along each axis.
ir | tile.reduce | | Combine all elements along \`axis\`, in any order; the axis disappears.
ir | tile.rem | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.reshape | | The elements in row-major order under another shape; () gives a scalar.
ir | tile.return | | The end of the kernel.
ir | tile.reverse_bits | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.rint | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.round | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.rsqrt | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.scan | | Running results of an associative combine along \`axis\`, each element included.
ir | tile.select | | \`then\` where the condition holds, \`otherwise\` elsewhere; both are evaluated.
ir | tile.shl | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.shr | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.sin | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.sinh | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.sort | | Integers in order along the last axis, ascending or descending; only the first \`keep\` stay.
ir | tile.splat | | A scalar or pointer in every element of a tile.
ir | tile.split | | The two halves of a tile whose last axis has extent 2.
ir | tile.sqrt | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.sqrt_rn | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.store | | Write one element through each pointer whose mask holds.
ir | tile.sub | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.tan | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.tanh | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.transpose | | Axis i of the result is axis \`order[i]\` of the source.
ir | tile.trunc | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.while | | Run the body while the condition region yields true; both see the carried values.
ir | tile.xor | | A function of functions.FUNCTIONS applied to each element of operands of one type.
ir | tile.yield | | What a region gives back to the op it belongs to.
`;
