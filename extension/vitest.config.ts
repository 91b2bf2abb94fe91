import { defineConfig } from "vitest/config";

// style.css enters the bundle as text (esbuild's --loader:.css=text).
const cssAsText = {
  name: "css-as-text",
  enforce: "pre" as const,
  transform(code: string, id: string): string | undefined {
    return id.endsWith(".css") ? `export default ${JSON.stringify(code)};` : undefined;
  },
};

export default defineConfig({
  plugins: [cssAsText],
  test: {
    environment: "jsdom",
    include: ["tests/*.test.ts"],
    setupFiles: ["tests/setup.ts"],
    isolate: false, // making a page for every file anew took two thirds of the time
    testTimeout: 30_000, // other checks run beside these
  },
});
