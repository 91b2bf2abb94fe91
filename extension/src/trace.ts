// Generated from workbench/trace/ (schema.py, answers.py) by `python -m workbench.trace.typescript`.
export const TRACE_VERSION = 1;
export type StageId = "source" | "ast" | "tile" | "gpu" | "llvm" | "ptx" | "sass" | "asm";
export type StageState = "ok" | "partial" | "pending" | "missing";
export type Pipe = "tile" | "gpu" | "llvm";
export type Role = "in" | "out" | "inout" | "scalar" | "constexpr";
export type StepKind = "copy" | "wait" | "product" | "read" | "arrive" | "meet" | "load" | "compute" | "store";
export type Severity = "error" | "warning" | "note" | "missed" | "applied";
export type AnyFloat = number | "nan" | "inf" | "-inf";
export type Scalar = boolean | number | string | null;
export type RowRun = [number, number, number[]];
export type RowMap = RowRun[];
export type Place = [number, number, number, number, number];
export type Vectors = number[][];
export type Access = [number, number, string, number, boolean];
export type Quantiles = [number, number, number, number];
export type Facing = "same" | "changed" | "removed" | "added" | "moved-from" | "moved-to";
export type FacingRun = [Facing, number, number, number];
/** What made the trace: tool versions, and when (seconds since 1970; not part of the id). */
export interface Made {
  workbench: string;
  llvm?: string | null;
  ptxas?: string | null;
  nvdisasm?: string | null;
  python?: string | null;
  time?: number | null;
}
/** One parameter of the kernel; `align` in bytes (or divisor of a scalar) where it is known. */
export interface Parameter {
  name: string;
  type: string;
  role: Role;
  align?: number | null;
  value?: Scalar;
}
/** Which kernel was specialised, and how. */
export interface Kernel {
  name: string;
  entry: string;
  file: string;
  line0?: number;
  params?: Parameter[];
  options?: Record<string, Scalar>;
  target: string;
  spec?: string;
  overridden?: StageId | null;
  cached?: boolean;
}
/** One source text: the cell or file of the kernel, or of a function that it calls. */
export interface Source {
  file: string;
  line0?: number;
  text: number;
  role?: "entry" | "device" | "library";
}
/** One text that the compiler produced, and the ops its rows come from. */
export interface Stage {
  id: StageId;
  text: number;
  lang: string;
  rows?: RowMap;
  state?: StageState;
  note?: string | null;
  milliseconds?: number | null;
}
/** The op table as columns of equal length, ascending in `id`. */
export interface Ops {
  id?: number[];
  name?: number[];
  loc?: Place[];
  parents?: Vectors;
  born?: number[];
  calls?: [number, number][][];
}
/** A rewrite rule that a pass applied: what it uses ("x + 0 = x"), and at which ops. */
export interface AppliedRule {
  name: string;
  identity: string;
  ops: number[];
}
/** One compiler pass: its time, its texts before and after, and what it did to ops. */
export interface Pass {
  name: string;
  pipe: Pipe;
  milliseconds: number;
  changed: boolean;
  before?: number | null;
  after?: number | null;
  rows?: RowMap | null;
  before_rows?: RowMap | null;
  add?: number[];
  del?: number[];
  map?: [number, number[]][];
  rules?: AppliedRule[];
  stats?: Record<string, number>;
}
/** A layout as an F2-linear map: for each input dimension its basis vectors. */
export interface Layout {
  op: number;
  value: string;
  shape: number[];
  element: string;
  kind: "register" | "shared";
  bases?: Record<string, Vectors>;
  name?: string | null;
  ops?: number[];
  values?: string[];
}
/** One allocation in shared memory, live from op `from` to op `to`. */
export interface SharedBuffer {
  name: string;
  op: number;
  offset: number;
  bytes: number;
  from: number;
  to: number;
}
/** Slots of shared memory through which tiles come into a loop, round by round. */
export interface Ring {
  value: string;
  op: number;
  slots: number;
  bytes: number;
  full?: number | null;
  empty?: number | null;
}
/** What a role does in a round of a pipelined loop, or before or after the loop. */
export interface Step {
  text: string;
  kind: StepKind;
  phase?: "before" | "round" | "after";
  role?: number;
  stage?: number;
  ops?: number[];
  rings?: number[];
  in_flight?: number | null;
}
/** A pipelined loop; `ops` holds (op, index into `roles`, stage), `steps` in program order. */
export interface Pipeline {
  loop: number;
  roles: string[];
  stages: number;
  ops?: [number, number, number][];
  warps?: number[];
  registers?: (number | null)[];
  rings?: Ring[];
  steps?: Step[];
}
/** How one load, store or atomic reaches memory. */
export interface MemoryAccess {
  op: number;
  direction: "load" | "store" | "atomic";
  space?: "global" | "shared";
  vec?: number | null;
  bytes?: number | null;
  sectors?: number | null;
  ideal?: number | null;
  banks?: number | null;
  masked?: number | null;
  addr?: Access[];
  accesses?: number | null;
}
/** What a pass did or could not do, and why, on one op. */
export interface Remark {
  code: string;
  severity: Severity;
  text: string;
  pass?: number | null;
  op?: number | null;
  span?: Place | null;
  args?: Record<string, Scalar>;
}
/** A further remark of a diagnostic, with its own place. */
export interface DiagnosticNote {
  text: string;
  span?: Place | null;
}
/** One error: a remark with notes, help, and the last stage that exists in spite of it. */
export interface Diagnostic {
  code: string;
  severity: Severity;
  text: string;
  pass?: number | null;
  op?: number | null;
  span?: Place | null;
  args?: Record<string, Scalar>;
  notes?: DiagnosticNote[];
  help?: string | null;
  trace_until?: StageId | null;
}
/** Resident warps of `max` on one multiprocessor, and what limits them ("registers"). */
export interface Occupancy {
  warps: number;
  max: number;
  limit: string;
}
/** What one program takes; `live` is (row of the sass stage, live registers). */
export interface Resources {
  registers?: number | null;
  shared_bytes?: number | null;
  dynamic_shared_bytes?: number | null;
  spill_store_bytes?: number | null;
  spill_load_bytes?: number | null;
  stack_bytes?: number | null;
  barriers?: number | null;
  code_bytes?: number | null;
  occupancy?: Occupancy | null;
  live?: [number, number][];
}
/** One argument of a launch: shape and stride of an array, or the value of a scalar. */
export interface LaunchArgument {
  name: string;
  type: string;
  shape?: number[] | null;
  stride?: number[] | null;
  value?: Scalar;
}
/** One launch; `t` in seconds since 1970; `guarded`: its accesses were checked. */
export interface Launch {
  t: number;
  grid: number[];
  args?: LaunchArgument[];
  device: string;
  milliseconds?: number | null;
  guarded?: boolean;
}
/** One wrong element: which program (linear) and op stored it, None if nobody did. */
export interface Mismatch {
  out: string;
  index: number[];
  got: AnyFloat;
  want: AnyFloat;
  program?: number | null;
  op?: number | null;
}
/** One comparison with a reference; `nan` counts NaNs that the reference does not have. */
export interface Check {
  ok: boolean;
  ref: string;
  wrong: number;
  total: number;
  max_abs: AnyFloat;
  max_rel: AnyFloat;
  nan?: number;
  first?: Mismatch[];
  reference?: string;
  usual?: AnyFloat | null;
  rtol?: number | null;
  atol?: number | null;
  shift?: AnyFloat | null;
  shift_relative?: boolean;
}
/** Where a benchmark ran; clock in MHz, temperature in degrees Celsius, at start and end. */
export interface Environment {
  device: string;
  clock?: number[];
  temp?: number[];
  driver?: string | null;
  others?: number | null;
}
/** One measured series; every column is as long as `x`. */
export interface Bench {
  name: string;
  kind: "self" | "baseline";
  axis?: string;
  x?: (number | string)[];
  milliseconds?: Quantiles[];
  flops?: (number | null)[];
  bytes?: (number | null)[];
  ok?: (boolean | null)[];
  unsteady?: boolean[];
  timed?: ("cold" | "hot" | "host")[];
  metric?: "tflops" | "gbps" | "ms" | "percent" | null;
  env?: Environment | null;
  error?: string | null;
  guarded?: boolean;
}
/** A limit of the device that plots draw: in TFLOP/s or GB/s (1 GB = 1e9 bytes). */
export interface Ceiling {
  name: string;
  unit: "tflops" | "gbps";
  value: number;
  source: "data sheet" | "measured";
}
/** One tried configuration, and why it was rejected or wrong; `timed` as in `Bench`. */
export interface TuneRow {
  config: Record<string, Scalar>;
  milliseconds?: number | null;
  timed?: "cold" | "hot" | "host" | null;
  state: "ok" | "rejected" | "wrong";
  why?: string | null;
  registers?: number | null;
  spills?: number | null;
  shared_bytes?: number | null;
}
/** One search over configurations; `best` is an index into `rows`; `guarded` as in Bench. */
export interface Tune {
  axes: string[];
  rows?: TuneRow[];
  best?: number | null;
  guarded?: boolean;
}
/** What was not done, and why: ("launch", "no CUDA device"). */
export interface Skipped {
  what: string;
  why: string;
}
/** What happened after compilation; no part of it enters the trace's id. */
export interface Runs {
  launches?: Launch[];
  checks?: Check[];
  benches?: Bench[];
  tunes?: Tune[];
  ceilings?: Ceiling[];
  skipped?: Skipped[];
  errors?: Diagnostic[];
}
/** One specialisation's compilation and runs (see the top of this file for the conventions). */
export interface Trace {
  version: number;
  id: string;
  made: Made;
  kernel: Kernel;
  strings: string[];
  sources: Source[];
  stages: Stage[];
  ops: Ops;
  passes: Pass[];
  layouts?: Layout[];
  shared?: SharedBuffer[];
  pipelines?: Pipeline[];
  access?: MemoryAccess[];
  remarks?: Remark[];
  resources: Resources;
  runs: Runs;
  errors?: Diagnostic[];
}
/** An option or a parameter that differs; None where a side does not have it. */
export interface Contrast {
  name: string;
  a?: Scalar;
  b?: Scalar;
}
/** So much of a number's difference comes from a line; both None: from no line. */
export interface Share {
  amount: number;
  words: string;
  a?: [number, number] | null;
  b?: [number, number] | null;
}
/** A number of both sides, and the lines that its difference comes from. */
export interface Quantity {
  name: string;
  title: string;
  unit?: string;
  a?: number | null;
  b?: number | null;
  better?: "less" | "more" | "neither";
  of?: string;
  shares?: Share[];
}
/** A time of both sides: `speed` is how many times as fast B is, `low` to `high` by noise. */
export interface Timing {
  what: string;
  a: [number, number, number];
  b: [number, number, number];
  speed: number;
  low: number;
  high: number;
  verdict: "faster" | "slower" | "same";
}
/** A stage that both sides have: which rows of A and B face each other, all rows in order. */
export interface FacingStage {
  id: StageId;
  rows?: FacingRun[];
}
/** Two traces beside each other; `ops` are pairs of ops of A and B that are each other's. */
export interface Comparison {
  labels: [string, string];
  said?: string;
  options?: Contrast[];
  quantities?: Quantity[];
  timings?: Timing[];
  ops?: [number, number][];
  stages?: FacingStage[];
  notes?: string[];
}
/** One step of a value's way: where, what happened in a sentence, and what to look at. */
export interface Stop {
  where: string;
  sentence: string;
  pass?: number | null;
  stage?: StageId | null;
  rows?: number[];
  ops?: number[];
  layout?: Layout | null;
  buffer?: number | null;
}
/** The way of what was asked, through every pass, layout, buffer and stage. */
export interface Route {
  question: string;
  stops?: Stop[];
}
/** A value: its first elements as text, and a picture of it. */
export interface Tile {
  shape: number[];
  numbers?: string[][];
  picture?: string[];
  low?: string;
  high?: string;
  every?: [number, number];
}
/** One execution of an op; `plumbing`: it only makes a constant, an address or a shape. */
export interface Executed {
  op: number;
  text: string;
  line?: number | null;
  names?: string[];
  round?: number;
  plumbing?: boolean;
  value?: string;
  accessed?: string;
  tile?: Tile | null;
}
/** A step at which the watched element got a value or was read. */
export interface Seen {
  step: number;
  what: string;
  value: string;
  line?: number | null;
}
/** One program of a launch, every op that it executed; `at` is the step that is shown first. */
export interface Walk {
  kernel: string;
  program: number[];
  grid: number[];
  steps?: Executed[];
  at?: number;
  first?: number;
  lines?: number[];
  watched?: string;
  seen?: Seen[];
  notes?: string[];
}
/** A number that squares of a map have. */
export interface SweptNumber {
  title: string;
  unit?: string;
  less?: boolean;
}
/** One choice of values: its numbers and what is written for each, in the order of the map. */
export interface SweptSquare {
  values: string;
  words: string[];
  numbers: (number | null)[];
  note?: string;
  compare?: string;
}
/** A map of what other settings would give; `key` is what the kernel that made it knows it by. */
export interface Sweep {
  key: string;
  title: string;
  axes: [string, string];
  rows: string[];
  columns: string[];
  numbers: SweptNumber[];
  squares: SweptSquare[];
  best?: number | null;
  notes?: string[];
}
