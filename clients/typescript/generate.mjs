// SPDX-License-Identifier: Apache-2.0
// generate.mjs - makes gen/ from docs/openapi.json: the types of the API, and the list of its calls
//
// Theory of operation: the description comes from the server's route table, so this client knows a route, a member or an error code
// as soon as the server has it. Two files are made. api.d.ts has an interface for each schema and one method of Calls for each
// operation; calls.js has what api.js needs to make them: method, path, where each argument goes, what comes back. An operation
// that answers JSON or a stream, as asked, becomes two calls: code() and codeStream(), vmExecStream() and vmExecStreamJson(). What the
// description leaves open is 'unknown'.
//
//     node generate.mjs            writes gen/
//     node generate.mjs --check    ends with 1 when gen/ is not what it would write
//     node generate.mjs --open     lists what the description leaves open
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const SOURCE = fileURLToPath(new URL("../../docs/openapi.json", import.meta.url));
const HEAD = `// SPDX-License-Identifier: Apache-2.0
// Made by generate.mjs from docs/openapi.json. Do not edit: run 'npm run generate'.
`;

const KIND_OF_TYPE = {
  "application/json": "json",
  "text/event-stream": "events",
  "application/x-ndjson": "lines",
  "text/plain": "text",
};
const RESULT_OF_KIND = {
  events: "AsyncGenerator<ServerEvent, void, undefined>",
  lines: "AsyncGenerator<unknown, void, undefined>",
  text: "Promise<string>",
  bytes: "Promise<Response>",
};

/** Stats of what is open, by the place where it was met. */
const open = new Set();

const isName = (text) => /^[A-Za-z_$][\w$]*$/.test(text);
const member = (text) => (isName(text) ? text : JSON.stringify(text));
const refName = (ref) => ref.slice(ref.lastIndexOf("/") + 1);
const camel = (text) => {
  const words = text.split(/[-_]/);
  return words.map((w, i) => (i ? w[0].toUpperCase() + w.slice(1) : w[0].toLowerCase() + w.slice(1))).join("");
};
const comment = (text, indent) => (text ? `${indent}/** ${text.replaceAll("*/", "* /")} */\n` : "");

/** A schema as a type. 'where' names it when it says nothing. */
export function typeOf(schema, where, indent = "") {
  if (!schema || Object.keys(schema).filter((k) => k !== "description").length === 0) {
    open.add(where);
    return "unknown";
  }
  if (schema.$ref) return refName(schema.$ref);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(" | ");
  for (const [key, glue] of [["allOf", " & "], ["anyOf", " | "], ["oneOf", " | "]])
    if (schema[key]) {
      const parts = schema[key].map((s, i) => typeOf(s, `${where}.${key}[${i}]`, indent));
      return parts.map((p) => (glue === " & " && p.includes(" | ") ? `(${p})` : p)).join(glue);
    }
  const types = [schema.type].flat();
  return types.map((t) => plainType(t, schema, where, indent)).join(" | ");
}

function plainType(type, schema, where, indent) {
  switch (type) {
    case "string":
    case "boolean":
    case "null":
    case "number":
      return type;
    case "integer":
      return "number";
    case "array": {
      const item = typeOf(schema.items, `${where}[]`, indent);
      return /[|&]/.test(item) && !item.startsWith("{") ? `Array<${item}>` : `${item.startsWith("{") ? `Array<${item}>` : `${item}[]`}`;
    }
    case "object":
      return objectType(schema, where, indent);
    default:
      throw new Error(`${where}: generate.mjs does not know the type ${JSON.stringify(type)}; teach it`);
  }
}

function objectType(schema, where, indent) {
  const { properties = {}, required = [], additionalProperties: more } = schema;
  const names = Object.keys(properties);
  if (names.length === 0) {
    if (more && Object.keys(more).length) return `Record<string, ${typeOf(more, `${where}{}`, indent)}>`;
    open.add(where);
    return "Record<string, unknown>";
  }
  const deeper = `${indent}  `;
  const lines = names.map((n) => {
    const p = properties[n];
    return `${comment(p.description, deeper)}${deeper}${member(n)}${required.includes(n) ? "" : "?"}: ${typeOf(p, `${where}.${n}`, deeper)};\n`;
  });
  if (more) lines.push(`${deeper}[member: string]: unknown;\n`);
  return `{\n${lines.join("")}${indent}}`;
}

/** The name of one of two ways in which an operation answers. */
function nameOf(id, kind) {
  if (id.endsWith("Stream")) return kind === "events" ? id : `${id}Json`;
  return kind === "events" ? `${id}Stream` : id;
}

/** Every call: an operation with one of the ways in which it answers. */
export function callsOf(api) {
  const calls = [];
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, op] of Object.entries(methods)) {
      const args = (op.parameters ?? []).map((given) => {
        const p = given.$ref ? api.components.parameters[refName(given.$ref)] : given;
        return { ...p, arg: camel(given.$ref ? refName(given.$ref) : p.name) };
      });
      const sent = Object.entries(op.requestBody?.content ?? {});
      if (sent.length > 1) throw new Error(`${op.operationId}: more than one kind of body; teach generate.mjs`);
      const common = { path, method: method.toUpperCase(), op, args, sent: sent[0], needsBody: op.requestBody?.required === true };
      if (new Set(args.map((a) => a.arg)).size !== args.length) throw new Error(`${op.operationId}: two arguments of one name`);
      if (op.responses["101"]) {
        calls.push({ ...common, name: op.operationId, kind: "socket" });
        continue;
      }
      const answers = new Map();
      for (const [status, r] of Object.entries(op.responses))
        if (/^2/.test(status))
          for (const [type, content] of Object.entries(r.content ?? {})) {
            const kind = KIND_OF_TYPE[type] ?? "bytes";
            if (!answers.has(kind)) answers.set(kind, { type, schemas: [] });
            answers.get(kind).schemas.push({ status, schema: content.schema });
          }
      const streams = answers.size > 1;
      for (const [kind, { type, schemas }] of answers)
        calls.push({ ...common, name: streams ? nameOf(op.operationId, kind) : op.operationId, kind, accept: type, schemas });
    }
  const names = calls.map((c) => c.name);
  const twice = names.find((n, i) => names.indexOf(n) !== i);
  if (twice) throw new Error(`two calls are named ${twice}; teach generate.mjs`);
  return calls;
}

function argType(call) {
  const lines = call.args.map(
    (a) => `${comment(a.description, "    ")}    ${a.arg}${a.required ? "" : "?"}: ${typeOf(a.schema, `${call.name}(${a.arg})`, "    ")};\n`,
  );
  if (call.sent) {
    const [type, { schema }] = call.sent;
    const body = type === "application/json" || type.endsWith("+json") ? typeOf(schema, `${call.name}(body)`, "    ") : "Bytes";
    lines.push(`    body${call.needsBody ? "" : "?"}: ${body};\n`);
  }
  const must = call.args.some((a) => a.required) || (call.sent && call.needsBody);
  return { text: lines.length ? `{\n${lines.join("")}  }` : "Record<string, never>", must };
}

function resultType(call) {
  if (call.kind !== "json") return RESULT_OF_KIND[call.kind];
  const types = call.schemas.map(({ status, schema }) => typeOf(schema, `${call.name}() ${status}`, "  "));
  return `Promise<${[...new Set(types)].join(" | ")}>`;
}

function declarations(api, calls) {
  let out = `${HEAD}import type { Bytes, CallOptions, ServerEvent } from "../common.js";\n\n`;
  out += `/** The version of the server that this was made from. */\nexport const API_VERSION: string;\n\n`;
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const type = typeOf(schema, name);
    out += comment(schema.description, "");
    out += type.startsWith("{") && type.lastIndexOf("\n}") === type.length - 2 && !type.includes("\n} ")
      ? `export interface ${name} ${type}\n\n` : `export type ${name} = ${type};\n\n`;
  }
  const codes = Object.keys(api["x-error-codes"]);
  out += `/** What PandoError.code may be; a newer server may have more. */\nexport type ErrorCode =\n${codes.map((c) => `  | ${JSON.stringify(c)}`).join("\n")};\n\n`;
  out += "/** Every call of the API. Arguments of path, query and header are members of the first argument, as is 'body'. */\nexport interface Calls {\n";
  for (const call of calls.filter((c) => c.kind !== "socket")) {
    const args = argType(call);
    const doc = [`${call.method} ${call.path}: ${call.op.summary}`, call.op.description].filter(Boolean).join(". ");
    out += `${comment(doc, "  ")}  ${call.name}(args${args.must ? "" : "?"}: ${args.text}, options?: CallOptions): ${resultType(call)};\n`;
  }
  out += "}\n\n";
  out += `/** Where each call goes. */\nexport interface Route {
  method: string;
  path: string;
  kind: "json" | "text" | "bytes" | "events" | "lines" | "socket";
  accept?: string;
  /** The type of the body. */
  sends?: string;
  /** argument: name in the query */
  query?: Record<string, string>;
  /** argument: name of the header */
  header?: Record<string, string>;
  /** argument: name in the path */
  inPath?: Record<string, string>;
}\nexport type CallName = ${calls.map((c) => JSON.stringify(c.name)).join(" | ")};\nexport const CALLS: Readonly<Record<CallName, Route>>;\n`;
  return out;
}

function table(api, calls) {
  let out = `${HEAD}export const API_VERSION = ${JSON.stringify(api.info.version)};\n\nexport const CALLS = {\n`;
  for (const c of calls) {
    const route = { method: c.method, path: c.path, kind: c.kind, accept: c.accept, sends: c.sent?.[0] };
    for (const [key, place] of [["inPath", "path"], ["query", "query"], ["header", "header"]]) {
      const of = c.args.filter((a) => a.in === place);
      if (of.length) route[key] = Object.fromEntries(of.map((a) => [a.arg, a.name]));
    }
    out += `  ${c.name}: ${JSON.stringify(route)},\n`;
  }
  return `${out}};\n`;
}

function main(args) {
  const api = JSON.parse(readFileSync(SOURCE, "utf8"));
  const calls = callsOf(api);
  const files = { "gen/api.d.ts": declarations(api, calls), "gen/api.js": table(api, calls) };
  let stale = 0;
  for (const [name, text] of Object.entries(files)) {
    const path = fileURLToPath(new URL(name, import.meta.url));
    if (!args.includes("--check")) {
      writeFileSync(path, text);
      continue;
    }
    let now = "";
    try {
      now = readFileSync(path, "utf8");
    } catch {
      // not there: stale
    }
    if (now !== text) {
      console.error(`clients/typescript/${name} is not what docs/openapi.json says: run 'node clients/typescript/generate.mjs' and commit it`);
      stale = 1;
    }
  }
  if (args.includes("--open")) console.log([...open].join("\n"));
  process.exitCode = stale;
}

if (process.argv[1] && fileURLToPath(import.meta.url) === process.argv[1]) main(process.argv.slice(2));
