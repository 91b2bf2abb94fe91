// Package lib/index.js as a prebuilt JupyterLab extension, without the files of an earlier build.
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(import.meta.url);
const root = path.resolve(import.meta.dirname, "..");
const { jupyterlab } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
rmSync(path.resolve(root, jupyterlab.outputDir), { recursive: true, force: true });
execFileSync(
  process.execPath,
  [
    require.resolve("@jupyter/builder/lib/build-labextension.js"),
    "--core-package-file",
    require.resolve("@jupyterlab/core-meta/core.package.json"),
    root,
  ],
  { stdio: "inherit" },
);
