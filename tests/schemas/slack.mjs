// Checks what crossed the wire to Slack's stand-in in the tests, against the shapes
// that Slack publishes.
//
//   node slack.mjs RECORD.jsonl...
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createGenerator } from "ts-json-schema-generator";
import Ajv from "ajv";

const types = new URL("./node_modules/@slack/types/dist/index.d.ts", import.meta.url).pathname;

function schemaOf(additionalProperties, lines) {
  const dir = mkdtempSync(join(new URL(".", import.meta.url).pathname, ".generated-"));
  const file = join(dir, "slack.ts");
  writeFileSync(file, [`import type * as All from "${types}";`, ...lines].join("\n"));
  try {
    const config = { path: file, type: "*", skipTypeCheck: true, additionalProperties };
    return createGenerator(config).createSchema("*");
  } finally {
    rmSync(dir, { recursive: true });
  }
}

// What we send has nothing that Slack doesn't know; what it sends may have more
// than is published.
const ours = schemaOf(false, [
  "export type Blocks = All.KnownBlock[];",
  "export type Window = All.ModalView;",
]);
const theirs = schemaOf(true, [
  "export type AMessage = All.GenericMessageEvent;",
  "export type AReaction = All.ReactionAddedEvent;",
  "export type AMention = All.AppMentionEvent;",
]);
const ajv = new Ajv({ allErrors: true, strict: false, allowUnionTypes: true });
ajv.addSchema(ours, "ours");
ajv.addSchema(theirs, "theirs");
const validators = new Map();
const validator = (where, name) => {
  const path = `${where}#/definitions/${name}`;
  if (!validators.has(path)) validators.set(path, ajv.compile({ $ref: path }));
  return validators.get(path);
};

// What is checked of one line: the schema and the part.
function parts(line) {
  if (line.forced) return [];
  if (line.kind === "call") {
    const { blocks, view } = line.body;
    return [
      ...(Array.isArray(blocks) ? [["ours", "Blocks", blocks]] : []),
      ...(view ? [["ours", "Window", view]] : []),
    ];
  }
  const event = line.kind === "events_api" ? line.body.event : undefined;
  if (event?.type === "message" && event.subtype === undefined) return [["theirs", "AMessage", event]];
  // The real one leaves out whose message it is now and then, and so do the tests.
  if (event?.type === "reaction_added" && event.item_user) return [["theirs", "AReaction", event]];
  if (event?.type === "app_mention") return [["theirs", "AMention", event]];
  return [];
}

const counts = {};
let [checked, wrong] = [0, 0];
for (const path of process.argv.slice(2)) {
  for (const text of readFileSync(path, "utf8").split("\n").filter(Boolean)) {
    for (const [where, name, part] of parts(JSON.parse(text))) {
      const validate = validator(where, name);
      checked += 1;
      counts[name] = (counts[name] ?? 0) + 1;
      if (validate(part)) continue;
      wrong += 1;
      if (wrong > 10) continue;
      console.error(name, JSON.stringify(part).slice(0, 600));
      for (const error of validate.errors.slice(0, 6)) {
        console.error("   ", error.instancePath || "/", error.message, JSON.stringify(error.params));
      }
    }
  }
}
console.log(`${checked} parts checked:`, JSON.stringify(counts));
if (checked === 0 || wrong > 0) {
  console.error(checked === 0 ? "nothing was recorded" : `${wrong} parts are not what Slack describes`);
  process.exit(1);
}
