import { describe, expect, it } from "vitest";
import { explainRow } from "../src/glossary";
import { overrideCell, settings } from "../src/offers";

describe("tooltips of instructions", () => {
  it("finds the longest prefix that is known", () => {
    expect(explainRow("sass", "  /*0010*/  @!P0 LDG.E.128 R2, [R4] ;")).toMatch(/^LDG d, \[a\]: /);
    expect(explainRow("ptx", "\tcp.async.commit_group;")).toMatch(/^cp\.async\.commit_group: /);
    expect(explainRow("gpu", "  %a.1, %b = tile.load %3 : tile<4xf32>")).toMatch(/^tile\.load: /);
    expect(explainRow("gpu", "  gpu.barrier")).toMatch(/^gpu\.barrier: /);
  });

  it("says nothing of other rows", () => {
    expect(explainRow("ptx", "$L__BB0_2:")).toBe("");
    expect(explainRow("llvm", "  ret void")).toBe("");
    expect(explainRow("sass", ".L_x_4:")).toBe("");
  });
});

describe("what is offered to paste", () => {
  it("is built of names, numbers and plain words", () => {
    const config = { BM: 128, x: 0.5, flag: true, mode: "relu" };
    expect(settings(config)).toBe("--set BM=128 --set x=0.5 --set flag=True --set \"mode='relu'\"");
  });

  it("is nothing where a trace holds anything else", () => {
    for (const text of ["{boom()}", "a b", "a\n--make boom", "boom()", "a'", 'a"', "a{b"]) {
      expect(settings({ BM: text })).toBeNull();
      expect(settings({ [text]: 1 })).toBeNull();
    }
  });
});

describe("the cell in which a stage is edited", () => {
  const kernel = { name: "add", target: "sm_90a", file: "In[1]" };

  it("holds the text and says where it is from", () => {
    expect(overrideCell(kernel, "ptx", ["ret;", ""])).toBe(
      "%%override add@sm_90a ptx\n// from a viewer's trace of In[1]\nret;\n",
    );
  });

  it("is not offered where a name is none", () => {
    for (const name of ["{boom()}", "a b", "a\n!rm", "", "a;b", "a{b"]) {
      expect(overrideCell({ ...kernel, name }, "ptx", ["ret;"])).toBeNull();
      expect(overrideCell({ ...kernel, target: name }, "ptx", ["ret;"])).toBeNull();
    }
    expect(overrideCell(kernel, "sass", ["EXIT ;"])).toBeNull();
    const cell = overrideCell({ ...kernel, file: "x\n{boom()}" }, "llvm", ["ret void"]);
    expect(cell?.split("\n")[1]).toBe("; from a viewer's trace of x boom ");
  });
});
