// SPDX-License-Identifier: Apache-2.0
/* types.ts - replies of the Git routes, and small things computed from them */

export interface Sig { date: string; name: string; email: string }
export interface Commit { sha: string; author: Sig; committer: Sig; message: string; tree: { sha: string }; parents: { sha: string }[] }
export interface Repo { id: string; name: string | null; accountId: string; visibility: 'public' | 'private'; defaultBranch: string | null; createdAt: string; pushedAt?: string | null; bytes: number; branches?: Record<string, unknown>; tags?: Record<string, unknown> }
export interface Entry { type: 'file' | 'dir'; name: string; path: string; sha: string; size?: number; entries?: Entry[] }
export interface Contents extends Entry { content?: string; encoding?: string }
export interface CompareFile { sha: string | null; filename: string; status: string; additions: number; deletions: number; changes: number; previous_filename?: string | null }
export interface Comparison { status: string; ahead_by: number; behind_by: number; total_commits: number; files: CompareFile[] }
export interface Trigger { id: string; trigger: { event: string; branches: string[] | null; globs: string[] | null }; action: { action: 'webhook'; endpoint: string } | { action: 'vm'; snapshotId: string | null; command: string }; createdAt: string }
export interface Delivery { id: string; triggerId: string; action: string; branch: string | null; commit: string; state: string; attempts: number; createdAt: string; updatedAt: string; nextAttemptAt: string | null; error: string | null; statusCode?: number | null; exitCode?: number | null; status?: string; vmId?: string | null; output?: string }
export interface Sync { githubRepoName: string; url: string; state: string; lastSyncAt: string | null; error: string | null; conflicts: unknown[]; hookPath: string }

export const repoName = (r: { id: string; name: string | null }): string => r.name || r.id.slice(0, 8);
export const short = (sha: string): string => sha.slice(0, 8);
export const at = (repo: string): string => `/git/v1/repo/${encodeURIComponent(repo)}`;
/** A path in a repository as a part of an address: every segment escaped, slashes kept. */
export const inPath = (path: string): string => path.split('/').map(encodeURIComponent).join('/');

/** The first line of a message, and the rest. */
export function subject(message: string): { title: string; body: string } {
	const m = message.replace(/\s+$/, '');
	const nl = m.indexOf('\n');
	return nl < 0 ? { title: m, body: '' } : { title: m.slice(0, nl), body: m.slice(nl + 1).replace(/^\n+/, '') };
}

/** Every file below a directory of a recursive listing. */
export function filesOf(dir: Entry): Entry[] {
	return (dir.entries ?? []).flatMap((e) => e.type === 'file' ? [e] : filesOf(e));
}

/** What base64 holds, as bytes. */
export function unbase64(text: string): Uint8Array {
	return Uint8Array.from(atob(text.replace(/\s+/g, '')), (c) => c.charCodeAt(0));
}

/** The file that is shown below a listing. */
export function readmeOf(entries: Entry[]): Entry | undefined {
	const rank = (n: string): number => ['readme.md', 'readme.markdown', 'readme', 'readme.txt', 'readme.rst'].indexOf(n.toLowerCase());
	return entries.filter((e) => e.type === 'file' && rank(e.name) >= 0).sort((a, b) => rank(a.name) - rank(b.name))[0];
}

/** A conflict of a mirror, whatever its form, as words. */
export function conflictText(c: unknown): { ref: string; why: string } {
	if (typeof c === 'string') {
		const m = /^(\S+?):?\s+(.+)$/.exec(c);
		return m ? { ref: m[1] as string, why: m[2] as string } : { ref: c, why: '' };
	}
	const o = (c ?? {}) as Record<string, unknown>;
	const text = (...keys: string[]): string => String(keys.map((k) => o[k]).find((v) => typeof v === 'string') ?? '');
	return { ref: text('ref', 'name', 'branch') || JSON.stringify(c), why: text('reason', 'why', 'message', 'kind') };
}
