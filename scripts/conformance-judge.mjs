// Compares what the conformance suite left in directories with what is expected of it.
//
//   node conformance-judge.mjs EXPECTED DIR [--rmcp]
//
// With --rmcp what is marked `ours` has to be a success.
// In the directory is one for each revision, and `none` for scenarios of no revision.
// Whatever is neither a success nor one of the suite's notes about the wire has to be expected, and whatever is expected has to be there.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const [expectedFile, results, of] = process.argv.slice(2);
const lines = readFileSync(expectedFile, "utf8").split("\n").map((line) => line.trim());
const counts = (line) => line && !line.startsWith("#") && !(of === "--rmcp" && line.endsWith(" ours"));
const expected = lines.filter(counts).map((line) => {
  const [revision, scenario, check, status] = line.split(/\s+/);
  const matches = (id) => (check.endsWith("*") ? id.startsWith(check.slice(0, -1)) : id === check);
  return { line, seen: false, fits: (r, s, c) => r === revision && s === scenario && c.status === status && matches(c.id) };
});

// The suite writes down what it sends and gets as checks that say nothing of the server.
const isTrace = ({ status, id }) => status === "INFO" && /^(incoming|outgoing)-|^stream-closed$/.test(id);

let files = 0;
const problems = [];
for (const revision of readdirSync(results)) {
  for (const name of readdirSync(join(results, revision))) {
    // server-SCENARIO-TIME
    const scenario = name.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, "");
    files += 1;
    for (const check of JSON.parse(readFileSync(join(results, revision, name, "checks.json"), "utf8"))) {
      if (check.status === "SUCCESS" || isTrace(check)) continue;
      const known = expected.find(({ fits }) => fits(revision, scenario, check));
      if (known) known.seen = true;
      else problems.push(`not expected: ${revision} ${scenario} ${check.id} ${check.status}: ${check.errorMessage ?? check.description}`);
    }
  }
}
for (const { line, seen } of expected) if (!seen) problems.push(`expected, and not seen: ${line}`);
if (files === 0) problems.push("there are no results");
for (const problem of problems) console.error(`    ${problem}`);
process.exit(problems.length > 0 ? 1 : 0);
