// One regular expression per language, run on visible rows only. Five alternatives, each in a group
// that names its class. Tokens are [class, text] and become text nodes.

export type Kind = "" | "comment" | "string" | "keyword" | "number" | "value";
export type Token = [kind: Kind, text: string];

const KINDS = ["comment", "string", "keyword", "number", "value"] as const;

interface Patterns {
  comment: string;
  string: string;
  keyword: string;
  value: string;
}

const raw = String.raw;
const NUMBER = raw`(?<![\w.%$@#])-?(?:0[xXfFdD][\da-fA-F]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\b`;
const QUOTED = raw`"(?:[^"\\]|\\.)*"`;

/** The patterns hold no capturing groups of their own; context goes into lookarounds. */
function grammar({ comment, string, keyword, value }: Patterns): RegExp {
  const parts = { comment, string, keyword, number: NUMBER, value };
  return new RegExp(KINDS.map((kind) => `(?<${kind}>${parts[kind]})`).join("|"), "g");
}

function words(list: string): string {
  return raw`\b(?:${list.trim().split(/\s+/).join("|")})\b`;
}

const GRAMMARS: Record<string, RegExp> = {
  python: grammar({
    comment: "#.*$",
    string: raw`\b[rRbBfFuU]{0,2}(?:"""(?:[^"\\]|\\.|"(?!""))*(?:"""|$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|"""(?:[^"\\]|\\.|"(?!""))*(?:"""|$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`,
    keyword: words(`def for in if else elif while return import from as and or not is None True
      False class with assert pass lambda break continue global nonlocal raise try except finally
      yield del`),
    value: raw`@[\w.]+|\b(?:tl|triton)(?:\.\w+)+`,
  }),
  ast: grammar({
    comment: "#.*$",
    string: raw`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`,
    keyword: raw`\b[A-Z]\w*(?=\()`,
    value: raw`\b\w+(?==)`,
  }),
  ir: grammar({
    comment: "//.*$",
    string: QUOTED,
    keyword: raw`\b(?:tile|gpu|nvidia|scf|control|arith|debug|func|program)\.[\w.]+|\b(?:func|kernel|module|return|yield|for|if|else|while|to|step)\b`,
    value: raw`[%#@^!][\w.$#]+`,
  }),
  llvm: grammar({
    comment: ";.*$",
    string: QUOTED,
    keyword: words(`define declare attributes target source_filename br switch ret unreachable call
      tail invoke load store getelementptr inbounds phi icmp fcmp select asm sideeffect extractvalue
      insertvalue extractelement insertelement shufflevector bitcast addrspacecast inttoptr ptrtoint
      add sub mul sdiv udiv srem urem fadd fsub fmul fdiv frem fneg zext sext trunc fpext fptrunc
      sitofp uitofp fptosi fptoui shl lshr ashr and or xor atomicrmw cmpxchg fence freeze alloca nsw
      nuw fast contract`),
    value: raw`[%@!#][\w.$-]+`,
  }),
  ptx: grammar({
    comment: raw`//.*$|/\*.*?\*/`,
    string: QUOTED,
    keyword: raw`(?<![\w%.$])[a-z_]+\d*(?:\.[\w:]+)+|(?<![\w%.$])(?:bra|ret|exit)\b|(?<!\w)\.[a-z_]\w*(?:\.\w+)*`,
    value: raw`%[\w.]+|\$[\w$]+`,
  }),
  sass: grammar({
    comment: raw`/\*.*?\*/|//.*$`,
    string: "`\\([^)]*\\)",
    keyword: raw`\b(?!U?R\d|U?RZ\b|U?PT?\d*\b|SR_)[A-Z][A-Z0-9]+(?:\.[A-Z0-9_]+)*\b(?=\s|;|$)`,
    value: raw`@?!?\bU?P(?:T|\d+)\b|\b(?:U?R\d+|U?RZ|SR_\w+)\b`,
  }),
  asm: grammar({
    comment: raw`[#;].*$|//.*$`,
    string: QUOTED,
    keyword: raw`(?<=^\s*(?:[\w.$@]+:\s*)?)(?:(?:lock|rep)\s+)?[a-z][a-z0-9]*(?:\.\w+)?(?=\s|$)|(?<=^\s*)\.[a-z_]\w*`,
    value: raw`%[a-z][a-z0-9]*|\b(?:[re]?[abcd]x|[re]?[sd]i|[re]?[sb]p|r(?:[89]|1[0-5])[dwb]?|[xyz]mm\d+|k[0-7])\b|\.L\w+`,
  }),
};

const ALIASES: Record<string, string> = { tile: "ir", gpu: "ir", x86: "asm" };
const LONGEST = 2_000; // columns; longer lines are cut: one 20 kB line must not stall a frame

/** Split a line into classed parts that join to the line again (up to LONGEST columns). */
export function tokenize(line: string, lang: string): Token[] {
  const text = line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
  const rules = GRAMMARS[ALIASES[lang] ?? lang];
  if (!rules) return text === "" ? [] : [["", text]];
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(rules)) {
    if (match[0] === "") continue;
    if (match.index > end) tokens.push(["", text.slice(end, match.index)]);
    tokens.push([KINDS.find((kind) => match.groups?.[kind] !== undefined) ?? "", match[0]]);
    end = match.index + match[0].length;
  }
  if (end < text.length) tokens.push(["", text.slice(end)]);
  return tokens;
}

export function appendTokens(to: HTMLElement, tokens: readonly Token[]): void {
  for (const [kind, text] of tokens) {
    if (kind === "") {
      to.append(text);
    } else {
      const span = document.createElement("span");
      span.className = `wb-${kind}`;
      span.textContent = text;
      to.append(span);
    }
  }
}
