import fc from "fast-check";
import { expect, test } from "vitest";
import { type Kind, tokenize } from "../src/tokens";

const LANGUAGES = ["python", "ast", "ir", "llvm", "ptx", "sass", "asm", "unknown"];

test("the tokens of a line join to the line", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 390 }), fc.constantFrom(...LANGUAGES), (line, lang) => {
      const joined = tokenize(line, lang).map(([, part]) => part);
      expect(joined.join("")).toBe(line);
    }),
  );
});

test("a very long line is cut, not tokenised whole", () => {
  const parts = tokenize("x".repeat(50_000), "python").map(([, part]) => part);
  expect(parts.join("").length).toBe(2_001);
});

/** Which class a part of a line gets. */
function kindOf(line: string, lang: string, part: string): Kind | undefined {
  return tokenize(line, lang).find(([, text]) => text === part)?.[0];
}

test.each<[string, string, string, Kind]>([
  ["    x = tl.load(p + offs, mask=m)  # read", "python", "tl.load", "value"],
  ["    x = tl.load(p + offs, mask=m)  # read", "python", "# read", "comment"],
  ["for k in range(0, 10):", "python", "for", "keyword"],
  ["for k in range(0, 10):", "python", "10", "number"],
  ["@triton.jit", "python", "@triton.jit", "value"],
  [`s = f"a # b"`, "python", `f"a # b"`, "string"],
  ["  %x.1 = tile.load %p {axis = 0} : tile<8xf32, #L0>", "ir", "tile.load", "keyword"],
  ["  %x.1 = tile.load %p {axis = 0} : tile<8xf32, #L0>", "ir", "%x.1", "value"],
  ["  %x.1 = tile.load %p {axis = 0} : tile<8xf32, #L0>", "ir", "#L0", "value"],
  ["  %7 = fadd float %5, 1.5e+00, !dbg !12", "llvm", "fadd", "keyword"],
  ["  %7 = fadd float %5, 1.5e+00, !dbg !12", "llvm", "1.5e+00", "number"],
  ["\tld.global.v4.b32 \t{%r1, %r2}, [%rd1+16];", "ptx", "ld.global.v4.b32", "keyword"],
  ["\t.reg .pred \t%p<2>;", "ptx", ".reg", "keyword"],
  ["\tmov.b32 \t%f1, 0f3F800000;", "ptx", "0f3F800000", "number"],
  ["/*0010*/ @!P0 LDG.E.128 R4, [R2.64] ;", "sass", "LDG.E.128", "keyword"],
  ["/*0010*/ @!P0 LDG.E.128 R4, [R2.64] ;", "sass", "@!P0", "value"],
  ["/*0010*/ IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;", "sass", "RZ", "value"],
  ["\tvmovups\t(%rdi,%rax,4), %ymm0", "asm", "vmovups", "keyword"],
  ["\tvaddps\tymm0, ymm1, dword ptr [rdi + 4]", "asm", "ymm1", "value"],
  [".LBB0_1:", "asm", ".LBB0_1", "value"],
  ["Call(func=Name(id='x'))", "ast", "Call", "keyword"],
  ["Call(func=Name(id='x'))", "ast", "func", "value"],
])("%s: in %s, %s is a %s", (line, lang, part, kind) => {
  expect(kindOf(line, lang, part)).toBe(kind);
});
