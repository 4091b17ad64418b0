// Checks what crossed the wire in the tests, both ways, against the shapes of
// the Bot API as the maintainers of grammY describe it.
//
//   node check.mjs RECORD.jsonl...
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createGenerator } from "ts-json-schema-generator";
import ts from "typescript";
import Ajv from "ajv";

const methods = [
  "sendMessage", "editMessageText", "sendDocument", "answerCallbackQuery",
  "getUpdates", "setWebhook", "deleteWebhook", "getChatMember",
];
const types = new URL("./node_modules/@grammyjs/types/", import.meta.url).pathname;

// The generator can't take a parameter out of a method's type: its text is.
function inputs() {
  const file = join(types, "methods.d.ts");
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
  const found = new Map();
  const visit = (node) => {
    if (ts.isMethodSignature(node) && methods.includes(node.name.getText())) {
      found.set(node.name.getText(), node.parameters[0]?.type.getText() ?? "{}");
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  const imports = source.statements.filter(ts.isImportDeclaration).map((node) => node.getText());
  const lines = [...found].map(([name, text]) => `export type In_${name} = ${text};`);
  return { imports: imports.join("\n").replaceAll('"./', `"${types}`), lines };
}

function schemas() {
  const dir = mkdtempSync(join(new URL(".", import.meta.url).pathname, ".generated-"));
  const { imports, lines } = inputs();
  const file = join(dir, "telegram.ts");
  writeFileSync(file, [
    imports,
    `import type * as All from "${types}mod.d.ts";`,
    "type F = string;",
    ...lines,
    "export type AnUpdate = All.Update;",
    "export type Out_getMe = All.UserFromGetMe;",
    "export type Out_sendMessage = All.Message;",
    "export type Out_editMessageText = All.Message;",
    "export type Out_sendDocument = All.Message;",
    "export type Out_getWebhookInfo = All.WebhookInfo;",
    "export type Out_getChatMember = All.ChatMember;",
  ].join("\n"));
  try {
    const config = { path: file, type: "*", skipTypeCheck: true, additionalProperties: false };
    return createGenerator(config).createSchema("*");
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const schema = schemas();
const ajv = new Ajv({ allErrors: true, strict: false, allowUnionTypes: true });
ajv.addSchema(schema, "telegram");
const validators = new Map();
const validator = (name) => {
  if (!validators.has(name)) {
    const known = schema.definitions[name];
    if (!known || JSON.stringify(known) === '{"not":{}}') throw new Error(`no schema for ${name}`);
    validators.set(name, ajv.compile({ $ref: `telegram#/definitions/${name}` }));
  }
  return validators.get(name);
};

// What the tests send on purpose and no server does.
const isOnPurpose = (line) => line.kind === "update" && line.forced;

let checked = 0;
const counts = {};
let wrong = 0;
for (const path of process.argv.slice(2)) {
  for (const text of readFileSync(path, "utf8").split("\n").filter(Boolean)) {
    const line = JSON.parse(text);
    if (isOnPurpose(line)) continue;
    const name =
      line.kind === "update" ? "AnUpdate" : line.kind === "call" ? `In_${line.method}` : `Out_${line.method}`;
    const hasShape = schema.definitions[name] !== undefined;
    if (!hasShape) continue;
    const validate = validator(name);
    checked += 1;
    counts[name] = (counts[name] ?? 0) + 1;
    if (!validate(line.body)) {
      wrong += 1;
      if (wrong <= 10) {
        console.error(name, JSON.stringify(line.body).slice(0, 600));
        for (const error of validate.errors.slice(0, 8)) {
          console.error("   ", error.instancePath || "/", error.message, JSON.stringify(error.params));
        }
      }
    }
  }
}
console.log(`${checked} bodies checked:`, JSON.stringify(counts));
if (checked === 0) {
  console.error("nothing was recorded");
  process.exit(1);
}
if (wrong > 0) {
  console.error(`${wrong} bodies are not what the Bot API describes`);
  process.exit(1);
}
