// SPDX-License-Identifier: Apache-2.0
/*
 * notebook.ts - code cells: their text, kept per VM for this tab, and what a run puts below them
 *
 * Contexts and variables are on the server (docs/CODE.md); what is kept here is only what was typed and shown.
 * Output is bounded, so that a cell that prints without end slows down nothing: the newest part is kept.
 */

export type Language = "python" | "javascript" | "typescript" | "bash";
export const LANGUAGES: readonly Language[] = ["python", "javascript", "typescript", "bash"];

export type Piece =
	| { kind: "stdout" | "stderr"; text: string }
	| { kind: "result"; data: Record<string, string> }
	| { kind: "error"; name: string; value: string; traceback: string }
	| { kind: "file"; path: string; size: number; mime: string }
	| { kind: "note"; text: string };

export interface Cell {
	id: string;
	language: Language;
	/** "" is the VM's default context of the language. */
	contextId: string;
	code: string;
	running: boolean;
	count: number | null;
	durationMs: number | null;
	pieces: Piece[];
}

export const TEXT_KEPT = 200_000;
const STORED = 400_000;

export function newCell(language: Language, code = "", contextId = ""): Cell {
	const id = Math.random().toString(36).slice(2, 10);
	return { id, language, contextId, code, running: false, count: null, durationMs: null, pieces: [] };
}

function text(v: unknown): string {
	return typeof v === "string" ? v : "";
}

function decode(data: string, encoding: unknown): string {
	if (encoding !== "base64")
		return data;
	const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
	return new TextDecoder().decode(bytes);
}

function append(pieces: Piece[], kind: "stdout" | "stderr", add: string): Piece[] {
	const last = pieces[pieces.length - 1];
	if (!last || last.kind !== kind)
		return [...pieces, { kind, text: add.slice(-TEXT_KEPT) }];
	let all = last.text + add;
	if (all.length > TEXT_KEPT) {
		const cut = all.indexOf("\n", all.length - TEXT_KEPT);
		all = "[earlier output is not shown]\n" + all.slice(cut < 0 ? all.length - TEXT_KEPT : cut + 1);
	}
	return [...pieces.slice(0, -1), { kind, text: all }];
}

/** One event of a run, applied to its cell. Unknown events change nothing. */
export function applyEvent(cell: Cell, event: string, data: unknown): Cell {
	const d = (typeof data === "object" && data !== null ? data : {}) as Record<string, unknown>;
	switch (event) {
	case "started":
		return { ...cell, running: true, contextId: cell.contextId };
	case "stdout":
	case "stderr":
		return { ...cell, pieces: append(cell.pieces, event, decode(text(d["data"]), d["encoding"])) };
	case "result": {
		const kept: Record<string, string> = {};
		for (const [mime, value] of Object.entries(d))
			kept[mime] = typeof value === "string" ? value : JSON.stringify(value);
		return { ...cell, pieces: [...cell.pieces, { kind: "result", data: kept }] };
	}
	case "file":
		return { ...cell, pieces: [...cell.pieces,
			{ kind: "file", path: text(d["path"]), size: Number(d["size"]) || 0, mime: text(d["mime"]) }] };
	case "end":
		return ended(cell, d);
	case "error":
		return { ...cell, running: false,
			pieces: [...cell.pieces, { kind: "error", name: text(d["code"]), value: text(d["message"]), traceback: "" }] };
	default:
		return cell;
	}
}

function ended(cell: Cell, d: Record<string, unknown>): Cell {
	const pieces = [...cell.pieces];
	const err = d["error"] as Record<string, unknown> | null | undefined;
	if (err)
		pieces.push({ kind: "error", name: text(err["name"]), value: text(err["value"]), traceback: text(err["traceback"]) });
	if (d["timedOut"])
		pieces.push({ kind: "note", text: "The cell ran out of time and was interrupted; its variables are still there." });
	else if (d["interrupted"])
		pieces.push({ kind: "note", text: "Interrupted." });
	if (d["kernelRestarted"])
		pieces.push({ kind: "note", text: "The kernel was started again: earlier variables are gone." });
	if (d["stdoutTruncated"] || d["stderrTruncated"])
		pieces.push({ kind: "note", text: "There was more output than is kept." });
	const seen = new Set(pieces.map((p) => (p.kind === "file" ? p.path : "")));
	for (const f of Array.isArray(d["files"]) ? (d["files"] as Record<string, unknown>[]) : [])
		if (!seen.has(text(f["path"])))
			pieces.push({ kind: "file", path: text(f["path"]), size: Number(f["size"]) || 0, mime: text(f["mime"]) });
	const count = typeof d["executionCount"] === "number" ? d["executionCount"] : cell.count;
	const ms = typeof d["durationMs"] === "number" ? d["durationMs"] : null;
	return { ...cell, running: false, count, durationMs: ms, pieces };
}

/** The richest form that this page shows: images first, then tables and HTML, then text. */
const RICHNESS = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "text/html", "text/markdown", "text/latex",
	"application/json", "text/plain"];

export function richest(data: Record<string, string>): string {
	return RICHNESS.find((m) => m in data) ?? Object.keys(data)[0] ?? "text/plain";
}

/** Only base64 may become a part of an image's address. */
export function imageSource(mime: string, data: string): string | null {
	if (mime === "image/svg+xml") {
		// An <img> runs no script of an SVG and loads nothing for it.
		const svg = data.trimStart().startsWith("<") ? data : null;
		if (svg === null)
			return null;
		return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
	}
	const clean = data.replace(/\s+/g, "");
	return /^[A-Za-z0-9+/]*={0,2}$/.test(clean) ? `data:${mime};base64,${clean}` : null;
}

function key(vmId: string): string {
	return `pando.cells.${vmId}`;
}

/** The VM's cells of this tab, as they were left; the ones that ran then are shown as finished. */
export function loadCells(store: Pick<Storage, "getItem">, vmId: string): Cell[] {
	try {
		const all = JSON.parse(store.getItem(key(vmId)) ?? "[]") as Cell[];
		return (Array.isArray(all) ? all : [])
			.filter((c) => c && typeof c.id === "string" && typeof c.code === "string" && LANGUAGES.includes(c.language))
			.map((c) => ({ ...newCell(c.language), ...c, running: false, pieces: Array.isArray(c.pieces) ? c.pieces : [] }));
	} catch {
		return [];
	}
}

/** Keeps code always, and as much output as there is room for, the newest cells first. */
export function saveCells(store: Pick<Storage, "setItem">, vmId: string, cells: Cell[]): void {
	let room = STORED;
	const kept = [...cells].reverse().map((c) => {
		const size = JSON.stringify(c.pieces).length;
		room -= size;
		return room >= 0 ? c : { ...c, pieces: [] };
	}).reverse();
	try {
		store.setItem(key(vmId), JSON.stringify(kept));
	} catch {
		try {
			store.setItem(key(vmId), JSON.stringify(cells.map((c) => ({ ...c, pieces: [] }))));
		} catch {
			// No room in this tab: the cells live as long as the page does.
		}
	}
}
