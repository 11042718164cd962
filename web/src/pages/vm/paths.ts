// SPDX-License-Identifier: Apache-2.0
/*
 * paths.ts - file names of guests, which are bytes
 *
 * A path is kept as a string with one character per byte ("raw"), because a name need not be UTF-8 and may hold any
 * byte but NUL and '/'. shown() is for people, segment() for addresses, command() for the guest's shell.
 */

export type RawPath = string;

export interface Entry {
	/** The name's bytes. */
	raw: RawPath;
	kind: "file" | "directory" | "symlink" | "other";
	size: number;
	mtimeMs: number;
	mode: string;
	owner: string;
	/** Where a symlink leads, its bytes. */
	target: RawPath;
	/** A symlink that leads to a directory. */
	toDirectory: boolean;
}

const utf8 = new TextDecoder("utf-8");
const strict = new TextDecoder("utf-8", { fatal: true });

function bytesOf(raw: RawPath): Uint8Array {
	return Uint8Array.from(raw, (c) => c.charCodeAt(0) & 0xff);
}

function rawOf(bytes: Uint8Array): RawPath {
	let s = "";
	for (const b of bytes)
		s += String.fromCharCode(b);
	return s;
}

export function fromText(text: string): RawPath {
	return rawOf(new TextEncoder().encode(text));
}

/** For people: what is not UTF-8 as U+FFFD, controls and direction marks as visible escapes. */
export function shown(raw: RawPath): string {
	return utf8.decode(bytesOf(raw)).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
		(c) => (c === "\n" ? "\\n" : c === "\t" ? "\\t" : `\\u{${c.charCodeAt(0).toString(16)}}`));
}

export function isUtf8(raw: RawPath): boolean {
	try {
		strict.decode(bytesOf(raw));
		return true;
	} catch {
		return false;
	}
}

/** The whole path as one segment of an address. */
export function segment(raw: RawPath): string {
	let s = "";
	for (const c of raw) {
		const b = c.charCodeAt(0);
		s += /[A-Za-z0-9._~-]/.test(c) ? c : "%" + b.toString(16).toUpperCase().padStart(2, "0");
	}
	return s;
}

/** The path in the page's own address: slashes stay. */
export function inAddress(raw: RawPath): string {
	return raw.split("/").map(segment).join("/");
}

export function fromAddress(text: string): RawPath {
	let s = "";
	const bytes = new TextEncoder().encode(text);
	for (let i = 0; i < bytes.length; i++) {
		const hex = bytes[i] === 0x25 ? String.fromCharCode(bytes[i + 1] ?? 0, bytes[i + 2] ?? 0) : "";
		if (/^[0-9A-Fa-f]{2}$/.test(hex)) {
			s += String.fromCharCode(parseInt(hex, 16));
			i += 2;
		} else {
			s += String.fromCharCode(bytes[i] ?? 0);
		}
	}
	return s;
}

export function join(dir: RawPath, name: RawPath): RawPath {
	return dir.endsWith("/") ? dir + name : `${dir}/${name}`;
}

export function parent(path: RawPath): RawPath {
	const at = path.replace(/\/+$/, "").lastIndexOf("/");
	return at <= 0 ? "/" : path.slice(0, at);
}

export function base(path: RawPath): RawPath {
	const p = path.replace(/\/+$/, "");
	return p.slice(p.lastIndexOf("/") + 1);
}

/** Absolute, without "." and "..", as somebody typed it. */
export function normal(path: RawPath, from: RawPath = "/"): RawPath {
	const out: string[] = [];
	for (const part of (path.startsWith("/") ? path : join(from, path)).split("/")) {
		if (part === "..")
			out.pop();
		else if (part !== "" && part !== ".")
			out.push(part);
	}
	return "/" + out.join("/");
}

/** The steps to a path, each with where it leads. */
export function crumbs(path: RawPath): { name: RawPath; path: RawPath }[] {
	const parts = path.split("/").filter(Boolean);
	return [{ name: "/", path: "/" }, ...parts.map((name, i) => ({ name, path: "/" + parts.slice(0, i + 1).join("/") }))];
}

/**
 * The command that lists a directory: records of NUL-terminated fields in base64, so that no byte is lost on the way. The
 * trailing slash follows a directory that is itself a symlink.
 */
export function listCommand(path: RawPath): string {
	return `p=$(printf '${octalOf(path)}/x'); p=\${p%x}; [ -d "$p" ] || { echo "not a directory" >&2; exit 20; }; ` +
		`[ -r "$p" ] && [ -x "$p" ] || { echo "may not be read" >&2; exit 13; }; ` +
		`find "$p" -maxdepth 1 -mindepth 1 -printf '%f\\0%y\\0%Y\\0%s\\0%T@\\0%m\\0%u\\0%l\\0' 2>/dev/null | base64 -w0`;
}

function octalOf(raw: RawPath): string {
	return [...raw].map((c) => (/[A-Za-z0-9_./-]/.test(c) ? c : "\\" + c.charCodeAt(0).toString(8).padStart(3, "0"))).join("");
}

/**
 * `mkdir`, `mv` and the like on paths of any bytes: the command itself stays ASCII, printf writes the bytes by number, and the x
 * keeps a newline at a name's end from being dropped with the substitution's.
 */
export function command(program: string, ...paths: RawPath[]): string {
	const set = paths.map((p, i) => `a${i}=$(printf '${octalOf(p)}x'); a${i}=\${a${i}%x}`).join("; ");
	return `${set}; ${program} ${paths.map((_, i) => `"$a${i}"`).join(" ")}`;
}

const KINDS: Record<string, Entry["kind"]> = { f: "file", d: "directory", l: "symlink" };

export function parseListing(base64: string): Entry[] {
	const fields = atob(base64.trim()).split("\0");
	const out: Entry[] = [];
	for (let i = 0; i + 8 <= fields.length; i += 8) {
		const [name, type, led, size, time, mode, owner, target] = fields.slice(i, i + 8) as
			[string, string, string, string, string, string, string, string];
		out.push({
			raw: name, kind: KINDS[type] ?? "other", size: Number(size) || 0, mtimeMs: Math.round(Number(time) * 1000) || 0,
			mode, owner, target, toDirectory: type === "l" && led === "d",
		});
	}
	return out;
}

export type SortKey = "name" | "size" | "mtime";

/** Directories first, then by the key; names as people sort them. */
export function sorted(list: Entry[], by: SortKey, down: boolean, hidden: boolean): Entry[] {
	const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
	const dir = (e: Entry): number => (e.kind === "directory" || e.toDirectory ? 0 : 1);
	return list.filter((e) => hidden || !e.raw.startsWith(".")).sort((a, b) => {
		const n = names.compare(shown(a.raw), shown(b.raw)) || (a.raw < b.raw ? -1 : 1);
		const d = by === "size" ? a.size - b.size : by === "mtime" ? a.mtimeMs - b.mtimeMs : n;
		return dir(a) - dir(b) || (down ? -d : d) || n;
	});
}

/** A name for a new file or folder; what is wrong with it, or "". */
export function badName(text: string): string {
	if (text === "")
		return "A name is needed";
	if (text === "." || text === ".." || text.includes("/"))
		return "A name cannot be . or .. or contain a slash";
	if (text.includes("\0") || fromText(text).length > 255)
		return "A name has at most 255 bytes";
	return "";
}

/** Text, or something else? Looks at the beginning, as git does. */
export function looksBinary(bytes: Uint8Array): boolean {
	return bytes.subarray(0, 8000).includes(0);
}

export function decodeText(bytes: Uint8Array): string | null {
	if (looksBinary(bytes))
		return null;
	try {
		return strict.decode(bytes);
	} catch {
		return null;
	}
}
