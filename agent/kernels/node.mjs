// SPDX-License-Identifier: Apache-2.0
//
// node.mjs - the kernel of JavaScript and TypeScript contexts: V8's own REPL mode, fed with cells by the agent
//
// Theory of operation: descriptor 3 is a socket to the agent. A worker thread reads it, so that an interrupt is noticed
// while the main thread is busy. The main thread evaluates cells through the inspector in REPL mode: top-level await,
// `let` and `const` may be declared again, the last expression has a value. Results go back as frames (u32 length, u8 kind,
// u8 more, payload; docs/PROTOCOL.agent.md), DONE last. V8's Math.random cannot be seeded, so it is replaced by one that can:
// when /run/pando/generation shows that this process has become a copy, it is seeded again, and node:crypto draws from the system. TypeScript's types are stripped first.
import fs from "node:fs";
import inspector from "node:inspector";
import { createRequire, syncBuiltinESMExports } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import util from "node:util";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

const CONTROL_FD = 3;
const FRAME_MAX = 32 << 10; // bytes of one frame's payload
const RESULT_MAX = 16 << 20; // bytes of one result as JSON
const JSON_MAX = 1 << 20; // bytes of a value that is also given as JSON
const RESULTS_MAX = 256; // results of one cell
const KIND = { RESULT: 3, ERROR: 4, READY: 6, DONE: 7 };
const GENERATION = "/run/pando/generation";
const ACK_MS = 500; // for the main thread to notice an interrupt; else it is busy
const NODE_LIB = "/usr/share/nodejs/"; // where Debian keeps the modules that come with Node.js

// ---- the worker: reads the socket, breaks a loop ----

function listen({ flags }) {
	const session = new inspector.Session();
	let pending = Buffer.alloc(0);
	const fill = () => {
		const piece = Buffer.alloc(65536);
		const n = fs.readSync(CONTROL_FD, piece, 0, piece.length, null);
		pending = Buffer.concat([pending, piece.subarray(0, n)]);
		return n > 0;
	};
	const interrupt = () => {
		Atomics.store(flags, 0, 0);
		parentPort.postMessage({ word: "INT" });
		while (Atomics.wait(flags, 0, 0, ACK_MS) === "timed-out") {
			if (!Atomics.load(flags, 1)) continue; // not busy with the cell, but slow
			Atomics.store(flags, 2, 1);
			session.post("Runtime.terminateExecution");
			return;
		}
	};
	session.connectToMainThread();
	for (;;) {
		let end;
		while ((end = pending.indexOf(10)) < 0) if (!fill()) process.exit(0);
		const [word, size] = pending.toString("latin1", 0, end).split(" ");
		pending = pending.subarray(end + 1);
		if (word === "INT") {
			interrupt();
			continue;
		}
		while (pending.length < Number(size)) if (!fill()) process.exit(0);
		parentPort.postMessage({ word, code: pending.toString("utf8", 0, Number(size)) });
		pending = Buffer.from(pending.subarray(Number(size)));
	}
}

// ---- a random generator that can be seeded again ----

class Random {
	constructor() {
		this.state = new Uint32Array(4);
		this.left = 0;
		try {
			this.fd = fs.openSync(GENERATION, "r");
		} catch {
			this.fd = -1;
		}
		this.seed();
		this.seen = this.now();
	}
	now() {
		if (this.fd < 0) return "";
		const b = Buffer.alloc(32);
		return b.toString("latin1", 0, fs.readSync(this.fd, b, 0, 32, 0));
	}
	seed() {
		const fd = fs.openSync("/dev/urandom", "r");
		fs.readSync(fd, new Uint8Array(this.state.buffer), 0, 16, null);
		fs.closeSync(fd);
		this.state[0] |= 1; // all zero would stay zero
	}
	check() {
		const now = this.now();
		this.left = 1024; // draws until the next check: a loop that never yields must notice too
		if (now === this.seen) return;
		this.seen = now;
		this.seed();
		drawFromSystem();
	}
	word() { // xoshiro128**
		const s = this.state;
		const r = Math.imul(s[1], 5);
		const t = s[1] << 9;
		s[2] ^= s[0];
		s[3] ^= s[1];
		s[1] ^= s[2];
		s[0] ^= s[3];
		s[2] ^= t;
		s[3] = (s[3] << 11) | (s[3] >>> 21);
		return Math.imul((r << 7) | (r >>> 25), 9) >>> 0;
	}
	next() {
		if (this.left-- <= 0) this.check();
		return ((this.word() >>> 5) * 67108864 + (this.word() >>> 6)) / 9007199254740992;
	}
}

// OpenSSL has a generator in this process that is duplicated in a copy of the machine, and Node.js cannot reseed it: in
// copies, random numbers of node:crypto come from the system instead.
let drawn = false;
function drawFromSystem() {
	if (drawn) return;
	drawn = true;
	const fd = fs.openSync("/dev/urandom", "r");
	const bytes = (view) => {
		const u8 = ArrayBuffer.isView(view) ? new Uint8Array(view.buffer, view.byteOffset, view.byteLength) : new Uint8Array(view);
		for (let done = 0; done < u8.length;) done += fs.readSync(fd, u8, done, u8.length - done, null);
		return view;
	};
	const part = (buf, offset = 0, size) => {
		const unit = buf.BYTES_PER_ELEMENT ?? 1;
		const end = size === undefined ? buf.byteLength : (offset + size) * unit;
		bytes(new Uint8Array(buf.buffer ?? buf, (buf.byteOffset ?? 0) + offset * unit, end - offset * unit));
		return buf;
	};
	const later = (f, call) => {
		try {
			const value = f();
			process.nextTick(call, null, value);
		} catch (e) {
			process.nextTick(call, e);
		}
	};
	const uuid = () => {
		const b = bytes(Buffer.alloc(16));
		b[6] = (b[6] & 15) | 64;
		b[8] = (b[8] & 63) | 128;
		return b.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
	};
	const int = (min, max) => { // whole numbers below 2^48, all equally likely
		const range = max - min;
		if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max) || range <= 0 || range >= 2 ** 48)
			throw new RangeError(`The range from ${min} to ${max} is empty or too large`);
		for (const limit = 2 ** 48 - (2 ** 48 % range);;) {
			const n = bytes(Buffer.alloc(6)).readUIntBE(0, 6);
			if (n < limit) return min + (n % range);
		}
	};
	const crypto = own("node:crypto");
	const checked = { randomBytes: crypto.randomBytes, randomFillSync: crypto.randomFillSync, values: crypto.webcrypto.getRandomValues };
	const randomBytes = (size, call) => {
		if (typeof size !== "number" || !(size >= 0)) return checked.randomBytes(size, call); // it says what is wrong
		return call ? later(() => bytes(Buffer.alloc(size)), call) : bytes(Buffer.alloc(size));
	};
	Object.assign(crypto, {
		randomBytes, pseudoRandomBytes: randomBytes, rng: randomBytes, prng: randomBytes, randomUUID: uuid,
		randomFillSync: (buf, offset, size) => part(checked.randomFillSync(buf, offset, size), offset, size),
		randomFill: (buf, ...rest) => {
			const call = rest.pop();
			later(() => part(checked.randomFillSync(buf, ...rest), ...rest), call);
		},
		randomInt: (...args) => {
			const call = typeof args.at(-1) === "function" ? args.pop() : null;
			const [min, max] = args.length > 1 ? args : [0, args[0]];
			return call ? later(() => int(min, max), call) : int(min, max);
		},
	});
	const proto = Object.getPrototypeOf(crypto.webcrypto);
	proto.getRandomValues = function (view) {
		return bytes(checked.values.call(this, view));
	};
	proto.randomUUID = uuid;
	syncBuiltinESMExports();
}

// ---- source text ----

const own = createRequire(import.meta.url);
let acorn, babel;

function dependency(name) {
	for (const where of [name, NODE_LIB + name]) {
		try {
			return own(where);
		} catch (e) {
			if (e.code !== "MODULE_NOT_FOUND") throw e;
		}
	}
	return null;
}

function stripTypes(code) {
	const { stripTypeScriptTypes } = own("node:module");
	if (stripTypeScriptTypes) return stripTypeScriptTypes(code, { mode: "transform" });
	babel ??= dependency("@babel/core");
	const preset = babel && dependency("@babel/preset-typescript");
	if (!preset) throw new Error("TypeScript needs Node.js 22.13, or the package node-babel7 of Debian; this machine has neither");
	return babel.transformSync(code, {
		filename: "cell.ts", configFile: false, babelrc: false, sourceType: "module", retainLines: true, comments: false,
		presets: [[preset, { onlyRemoveTypeImports: true }]],
	}).code;
}

// `import ... from` becomes `const ... = await import()`, and import() goes through our loader: REPL mode has none.
function rewriteImports(code) {
	if (!/\bimport\b/.test(code)) return code;
	acorn ??= dependency("acorn");
	if (!acorn) return code;
	let tree;
	const edits = [];
	try {
		tree = acorn.parse(code, { ecmaVersion: "latest", sourceType: "module", allowAwaitOutsideFunction: true });
	} catch {
		return code; // V8's error message is better
	}
	const bind = (n) => {
		const from = `await __pandoImport(${JSON.stringify(n.source.value)})`;
		const named = [];
		let out = "";
		for (const s of n.specifiers) {
			if (s.type === "ImportNamespaceSpecifier") out += `var ${s.local.name} = ${from}; `;
			else if (s.type === "ImportDefaultSpecifier") named.push(`default: ${s.local.name}`);
			else named.push(`${JSON.stringify(s.imported.name ?? s.imported.value)}: ${s.local.name}`);
		}
		if (named.length) out += `var { ${named.join(", ")} } = ${from};`;
		return out || `${from};`;
	};
	const walk = (n) => {
		if (!n || typeof n !== "object") return;
		if (Array.isArray(n)) return n.forEach(walk);
		if (n.type === "ImportDeclaration") return void edits.push([n.start, n.end, bind(n)]);
		if (n.type === "ImportExpression") edits.push([n.start, n.start + 6, "__pandoImport"]);
		for (const k in n) if (k !== "type" && k !== "start" && k !== "end") walk(n[k]);
	};
	walk(tree.body);
	for (const [start, end, text] of edits.sort((a, b) => b[0] - a[0])) code = code.slice(0, start) + text + code.slice(end);
	return code;
}

// ---- the main thread ----

class Interrupted extends Error {
	constructor() {
		super("the cell was interrupted");
		this.name = "Interrupted";
	}
}

class Kernel {
	constructor(typescript) {
		this.typescript = typescript;
		this.count = 0;
		this.sent = 0;
		this.interrupt = null;
		this.random = new Random();
		this.flags = new Int32Array(new SharedArrayBuffer(12)); // an interrupt was heard; a cell runs; it was terminated
		this.session = new inspector.Session();
		this.session.connect();
	}

	post(method, params) {
		return new Promise((ok, no) => this.session.post(method, params, (e, r) => (e ? no(e) : ok(r))));
	}

	send(kind, payload) {
		let off = 0;
		do {
			const piece = payload.subarray(off, off + FRAME_MAX);
			off += piece.length;
			const frame = Buffer.alloc(6 + piece.length);
			frame.writeUInt32BE(piece.length + 2, 0);
			frame[4] = kind;
			frame[5] = off < payload.length ? 1 : 0;
			piece.copy(frame, 6);
			for (let done = 0; done < frame.length;) done += fs.writeSync(CONTROL_FD, frame, done);
		} while (off < payload.length);
	}

	result(bundle) {
		if (this.sent >= RESULTS_MAX) return;
		if (++this.sent === RESULTS_MAX) bundle = { "text/plain": `[results cut here: the cell showed more than ${RESULTS_MAX}]` };
		let text = Buffer.from(JSON.stringify(bundle));
		if (text.length > RESULT_MAX)
			text = Buffer.from(JSON.stringify({ "text/plain": `[result left out: ${text.length} bytes, more than ${RESULT_MAX}]` }));
		this.send(KIND.RESULT, text);
	}

	show(value) {
		const bundle = { "text/plain": util.inspect(value, { depth: 6, maxArrayLength: 200, maxStringLength: 65536 }) };
		const proto = value && typeof value === "object" ? Object.getPrototypeOf(value) : undefined;
		if (Array.isArray(value) || proto === Object.prototype || proto === null) {
			try {
				const text = JSON.stringify(value);
				if (text && text.length <= JSON_MAX) bundle["application/json"] = JSON.parse(text);
			} catch {
				// circular, or a bigint inside: the text says it
			}
		}
		this.result(bundle);
	}

	display(value) {
		const keys = value && typeof value === "object" ? Object.keys(value) : [];
		if (!keys.length || !keys.every((k) => /^[a-z]+\/[\w.+-]+$/.test(k))) return this.show(value);
		const out = {};
		for (const k of keys) out[k] = ArrayBuffer.isView(value[k]) ? Buffer.from(value[k]).toString("base64") : value[k];
		this.result(out);
	}

	failed(e, where) {
		const isError = e instanceof Error || (e && typeof e === "object" && typeof e.stack === "string");
		const lines = isError ? String(e.stack).split("\n") : [];
		const end = lines.findIndex((l) => l.includes("node:inspector") || l.includes(import.meta.url) || l.includes("kernels/node.mjs"));
		const trace = (end < 0 ? lines : lines.slice(0, end)).join("\n");
		const error = isError
			? { name: String(e.name), value: String(e.message), traceback: where ? `${where}\n${trace}` : trace }
			: { name: "Error", value: util.inspect(e), traceback: `thrown: ${util.inspect(e)}` };
		this.send(KIND.ERROR, Buffer.from(JSON.stringify(error)));
	}

	// The value of an inspector's remote object.
	async value(remote) {
		if (remote.type === "undefined") return undefined;
		const argument = remote.objectId ? { objectId: remote.objectId }
			: remote.unserializableValue ? { unserializableValue: remote.unserializableValue } : { value: remote.value ?? null };
		await this.post("Runtime.callFunctionOn", {
			functionDeclaration: "function(v) { globalThis[Symbol.for('pando.value')] = v; }",
			executionContextId: this.context, arguments: [argument], silent: true,
		});
		const key = Symbol.for("pando.value");
		const value = globalThis[key];
		delete globalThis[key];
		if (remote.objectId) await this.post("Runtime.releaseObject", { objectId: remote.objectId });
		return value;
	}

	async evaluate(code, name) {
		const source = rewriteImports(this.typescript ? stripTypes(code) : code);
		const stop = new Promise((_, no) => {
			this.interrupt = () => no(new Interrupted());
		});
		stop.catch(() => {});
		const r = await Promise.race([stop, this.post("Runtime.evaluate", {
			expression: `${source}\n//# sourceURL=${name}`, replMode: true, awaitPromise: true, silent: true,
		})]);
		const d = r.exceptionDetails;
		if (!d) return { value: await this.value(r.result) };
		const error = await this.value(d.exception ?? r.result);
		const where = error instanceof SyntaxError ? `${name}:${d.lineNumber + 1}:${d.columnNumber + 1}` : "";
		return { error, where };
	}

	// An empty cell only loads and compiles everything a cell needs, and runs it once.
	async warm() {
		const sent = this.send;
		this.send = () => {};
		this.random.next();
		drawFromSystem();
		try {
			const typed = "interface P { n: number }\nconst p: P = { n: 1 }; enum E { A }; type Q = P | null;\n" +
				"async function f<T>(x: T): Promise<T> { return x as T }\nclass C implements P { constructor(public n: number) {} }\nawait f(p.n)";
			for (let i = 0; i < 3; i++) await this.evaluate(`await (async () => { ${rewriteImports(stripTypes(typed))} })()`, "warm");
			rewriteImports("import fs from 'fs'; await import('os')");
			for (const code of ["1 + 1", "({ a: [1, 'x', null] })", "await 1", "null.x", "let q = ;"]) {
				const r = await this.evaluate(`await (async () => { return ${code} })()`, "warm");
				if ("error" in r) this.failed(r.error, r.where);
				else this.show({ a: [1, "x"], b: null });
			}
		} catch (e) {
			process.stderr.write(`${e.stack ?? e}\n`);
		} finally {
			this.send = sent;
		}
	}

	// Turns a spare process into a context's kernel: language, directory, variables.
	set(text) {
		const [language, cwd, ...env] = text.split("\0");
		this.typescript = language === "typescript";
		for (const one of env) process.env[one.slice(0, one.indexOf("="))] = one.slice(one.indexOf("=") + 1);
		this.move(cwd);
	}

	move(cwd) {
		try {
			process.chdir(cwd);
		} catch (e) {
			process.stderr.write(`enter directory '${cwd}': ${e.code}\n`);
		}
		this.globals();
	}

	async run(code) {
		if (!code) {
			await this.warm();
			return this.done();
		}
		const name = `cell-${++this.count}`;
		this.sent = 0;
		this.random.check();
		Atomics.store(this.flags, 2, 0);
		Atomics.store(this.flags, 1, 1);
		try {
			const r = await this.evaluate(code, name);
			if ("error" in r) this.failed(r.error, r.where);
			else if (r.value !== undefined) this.show(r.value);
		} catch (e) {
			// Node.js 20 says "Execution was terminated", 24 "Internal error".
			this.failed(Atomics.load(this.flags, 2) ? new Interrupted() : e, "");
		}
		Atomics.store(this.flags, 1, 0);
		this.interrupt = null;
		this.done();
	}

	done() {
		const count = Buffer.alloc(4);
		count.writeUInt32BE(this.count);
		this.send(KIND.DONE, count);
	}

	globals() {
		const here = pathToFileURL(path.join(process.cwd(), "cell.js"));
		Object.assign(globalThis, {
			require: createRequire(here), __filename: "cell", __dirname: process.cwd(), display: (v) => this.display(v),
		});
		const resolver = createRequire(here);
		const load = (what, options) => {
			const text = String(what);
			if (/^(node|data|file|https?):/.test(text)) return import(text, options);
			if (/^\.{0,2}\//.test(text)) return import(pathToFileURL(path.resolve(text)).href, options);
			try {
				const found = resolver.resolve(text);
				if (path.isAbsolute(found)) return import(pathToFileURL(found).href, options);
			} catch {
				// only import() may find it; if not, it reports the error
			}
			return import(text, options);
		};
		Object.defineProperty(globalThis, "__pandoImport", { value: load, enumerable: false, writable: true });
		Math.random = () => this.random.next();
		process.exit = (code) => {
			throw new Error(`process.exit(${code ?? ""}) was called: the kernel goes on`);
		};
	}

	async start() {
		const contexts = [];
		this.session.on("Runtime.executionContextCreated", (m) => contexts.push(m.params.context));
		await this.post("Runtime.enable");
		this.context = contexts[0].id;
		const complain = (e) => process.stderr.write(`Uncaught ${util.inspect(e)}\n`);
		process.on("uncaughtException", complain);
		process.on("unhandledRejection", complain);
		process.on("SIGINT", () => {}); // interrupts come over the socket
		process.on("SIGURG", () => this.random.check());
		const worker = new Worker(new URL(import.meta.url), { workerData: { flags: this.flags }, stdout: false });
		worker.on("message", ({ word, code }) => {
			if (word === "RUN") return void this.run(code);
			if (word === "SET") return this.set(code);
			if (word === "CD") return this.move(code);
			Atomics.store(this.flags, 0, 1);
			Atomics.notify(this.flags, 0);
			this.interrupt?.();
		});
		worker.on("exit", () => process.reallyExit(0));
		this.globals();
		this.send(KIND.READY, Buffer.alloc(0));
	}
}

if (isMainThread) await new Kernel(process.argv.includes("--typescript")).start();
else listen(workerData);
