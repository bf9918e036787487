// Bundles the packages of package-lock.json into xscl/web/static/codemirror.js, with their licences
// beside it and its hash in this folder.  `npm ci --ignore-scripts && npm run bundle`

import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const target = join(here, "../../xscl/web/static");

const built = await build({
  absWorkingDir: here,
  bundle: true,
  charset: "utf8",
  entryPoints: ["entry.mjs"],
  format: "esm",
  legalComments: "none",
  metafile: true,
  minify: true,
  target: "es2022",
  write: false,
});

const packages = new Set();
for (const input of Object.keys(built.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}

const versions = [];
const licences = new Map();
for (const name of [...packages].sort()) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (!file || !existsSync(join(folder, file))) throw new Error(`${name} has no licence`);
  const text = readFileSync(join(folder, file), "utf8").trim();
  versions.push(`${name} ${version} (${license})`);
  licences.set(text, [...(licences.get(text) ?? []), name]);
}

const head = `/* CodeMirror, bundled by tools/codemirror; licences in codemirror.LICENSE.txt.\n${versions.map((each) => ` * ${each}`).join("\n")}\n */\n`;
const code = Buffer.concat([Buffer.from(head), Buffer.from(built.outputFiles[0].contents)]);
const told = [...licences].map(([text, names]) => `${names.join(", ")}\n\n${text}\n`).join(`\n${"-".repeat(80)}\n\n`);

writeFileSync(join(target, "codemirror.js"), code);
writeFileSync(join(target, "codemirror.LICENSE.txt"), told);
const sums = ["codemirror.LICENSE.txt", "codemirror.js"].map((name) => {
  const hash = createHash("sha256").update(readFileSync(join(target, name))).digest("hex");
  return `${hash}  xscl/web/static/${name}\n`;
});
writeFileSync(join(here, "SHA256SUMS"), sums.join(""));
console.log(`${code.length} bytes of ${packages.size} packages`);
