// SPDX-License-Identifier: Apache-2.0
/* RepoParts.tsx - branches and tags, search, the mirror, and settings of a repository */
import { useEffect, useState } from 'preact/hooks';
import { api, ApiError, messageOf, query } from '../../lib/api';
import { bytes, dateTime, plural } from '../../lib/format';
import { navigate, place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button, CopyButton } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Ago, Badge, Card, Code, Empty, Failure, Field, Loaded, Progress } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { confirmOnce, failed, notify, undoable } from '../../ui/Toast';
import { Changed } from './Commits';
import { at, conflictText, repoName, short, type Repo, type Sync } from './types';
import { word } from '../vm/types';

interface Branch { name: string; commit: string | null }
interface Tag { name: string; message: string | null; target: { sha: string }; tagger: { name: string; date: string } | null }

export function Refs({ repo }: { repo: Repo }) {
	const branches = useData<{ branches: Branch[] }>(`${at(repo.id)}/git/refs/heads/`, { on: ['git.push'], poll: 20_000 });
	const tags = useData<{ tags: Tag[] }>(`${at(repo.id)}/git/refs/tags/`, { on: ['git.push'], poll: 20_000 });
	const [making, setMaking] = useState(false);
	const [name, setName] = useState('');
	const [base, setBase] = useState<string | null>(null);
	return (
		<div class="stack">
			<Card title="Branches" actions={<Button small icon="plus" onClick={() => setMaking(true)}>New branch</Button>}>
				<Loaded of={branches} what="the branches">{(d) => <Table label="Branches" page={100} rows={d.branches} rowKey={(b) => b.name} columns={[
					{ key: 'name', title: 'Branch', grow: true, sort: (b) => b.name, cell: (b) => <><a href={`/ui/git/${encodeURIComponent(repo.id)}${query('', { rev: b.name })}`}><code>{b.name}</code></a> {b.name === repo.defaultBranch && <Badge kind="info">default</Badge>}</> },
					{ key: 'sha', title: 'Commit', cell: (b) => b.commit ? <button type="button" class="link mono" onClick={() => setQuery({ tab: 'commits', commit: b.commit })}>{short(b.commit)}</button> : '–' },
					{ key: 'acts', title: '', cell: (b) => b.name !== repo.defaultBranch && repo.defaultBranch ? <Button small onClick={() => setBase(base === b.name ? null : b.name)} pressed={base === b.name}>Compare</Button> : null },
				]} empty={<Empty title="No branch yet" commands={[{ title: 'Push one', code: `git push ${location.origin}/${repo.id} HEAD:main` }]} />} />}</Loaded>
			</Card>
			{base && repo.defaultBranch && <Card title={<>What <code>{base}</code> has that <code>{repo.defaultBranch}</code> has not</>}><Changed key={base} repo={repo.id} base={repo.defaultBranch} head={base} /></Card>}
			<Card title="Tags">
				<Loaded of={tags} what="the tags">{(d) => <Table label="Tags" page={100} rows={d.tags} rowKey={(t) => t.name} columns={[
					{ key: 'name', title: 'Tag', sort: (t) => t.name, cell: (t) => <a href={`/ui/git/${encodeURIComponent(repo.id)}${query('', { rev: t.name })}`}><code>{t.name}</code></a> },
					{ key: 'message', title: 'Message', grow: true, cell: (t) => t.message?.split('\n')[0] ?? '' },
					{ key: 'who', title: 'By', cell: (t) => t.tagger ? <>{t.tagger.name}, <Ago at={t.tagger.date} /></> : '', hideNarrow: true },
					{ key: 'sha', title: 'Commit', cell: (t) => <button type="button" class="link mono" onClick={() => setQuery({ tab: 'commits', commit: t.target.sha })}>{short(t.target.sha)}</button> },
				]} empty={<Empty title="No tags" commands={[{ title: 'Make one', code: 'git tag v1.0 && git push --tags' }]} />} />}</Loaded>
			</Card>
			{making && <Dialog title="New branch" onClose={() => setMaking(false)} small><form onSubmit={(e) => {
				e.preventDefault();
				api.post(`${at(repo.id)}/branches`, { name: name.trim() }).then(async () => {
					setMaking(false);
					setName('');
					await branches.reload();
				}).catch(failed);
			}}><Field label="Name" hint={`Begins at ${repo.defaultBranch ?? 'the default branch'}.`}><input value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
				<div class="dialog-actions"><Button onClick={() => setMaking(false)}>Cancel</Button><Button kind="primary" type="submit" disabled={!name.trim()}>Create</Button></div></form></Dialog>}
		</div>
	);
}

interface Match { lineNumber: number; line: string; startColumn: number; endColumn: number; isAddition?: boolean }
interface Found {
	totalFiles?: number; totalMatches?: number; totalCommits?: number; hasMore?: boolean;
	files?: { path: string; size?: number; matches?: Match[] }[];
	commits?: { sha: string; message: string; authorName: string; timestamp: string; files?: { path: string; matches: Match[] }[] }[];
}
const KINDS = [['', 'Text in files'], ['/files', 'File names'], ['/commits', 'Commit messages'], ['/diffs', 'Changed lines']] as const;

/** A line with its match marked; columns are bytes of UTF-8. */
function Marked({ m }: { m: Match }) {
	const b = new TextEncoder().encode(m.line);
	const part = (from: number, to?: number): string => new TextDecoder().decode(b.subarray(from, to));
	return <>{part(0, m.startColumn)}<mark>{part(m.startColumn, m.endColumn)}</mark>{part(m.endColumn)}</>;
}

export function Search({ repo, rev }: { repo: Repo; rev: string }) {
	const q = place.value.query;
	const text = q.get('q') ?? '', kind = q.get('in') ?? '';
	const [typed, setTyped] = useState(text);
	const [regex, setRegex] = useState(q.get('regex') === '1');
	const [exact, setExact] = useState(q.get('case') === '1');
	const found = useData<Found>(text ? query(`${at(repo.id)}/search${KINDS.some(([k]) => k === kind) ? kind : ''}`, { query: text, rev, isRegex: regex || null, caseSensitive: exact || null, maxResults: 50 }) : null);
	const file = (path: string, line?: number): string => `/ui/git/${encodeURIComponent(repo.id)}${query('', { rev, path, line })}`;
	const r = found.data;
	return (
		<div class="stack">
			<form class="search-form" role="search" onSubmit={(e) => {
				e.preventDefault();
				setQuery({ q: typed, regex: regex ? '1' : null, case: exact ? '1' : null });
			}}>
				<input type="search" aria-label="Search for" placeholder="Search" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} spellcheck={false} autocomplete="off" />
				<select aria-label="Where" value={kind} onChange={(e) => setQuery({ in: e.currentTarget.value || null, q: typed })}>{KINDS.map(([k, t]) => <option key={k} value={k}>{t}</option>)}</select>
				<label class="check"><input type="checkbox" checked={regex} onChange={(e) => setRegex(e.currentTarget.checked)} /> expression</label>
				<label class="check"><input type="checkbox" checked={exact} onChange={(e) => setExact(e.currentTarget.checked)} /> case</label>
				<Button kind="primary" type="submit" icon="search" disabled={!typed}>Search</Button>
			</form>
			{!text ? <Empty icon="search" title="Search this repository" commands={[{ title: 'On the command line', code: `pando git search ${word(repo)} 'main('` }]}>Text in files, names, commit messages, or what commits added and removed.</Empty>
				: found.error && !r ? <Failure error={found.error} retry={found.reload} what="the results" />
					: !r ? <Progress label="Searching" />
						: <>
							<p class="muted" role="status">{r.totalMatches !== undefined ? `${plural(r.totalMatches, 'match', 'matches')} in ${plural(r.totalFiles ?? 0, 'file')}` : r.totalCommits !== undefined ? plural(r.totalCommits, 'commit') : plural(r.totalFiles ?? 0, 'file')}{r.hasMore ? ', the first of them here' : ''}</p>
							{(r.files ?? []).map((f) => <Card key={f.path} title={<a class="mono" href={file(f.path)}>{f.path}</a>} class="found">
								{f.matches ? <ul class="found-lines">{f.matches.slice(0, 30).map((m, i) => <li key={i}><a class="num" href={file(f.path, m.lineNumber)} aria-label={`Line ${m.lineNumber}`}>{m.lineNumber}</a><span class="line"><Marked m={m} /></span></li>)}</ul> : <span class="muted">{bytes(f.size)}</span>}
							</Card>)}
							{(r.commits ?? []).map((c) => <Card key={c.sha} class="found" title={<button type="button" class="link" onClick={() => setQuery({ tab: 'commits', commit: c.sha, q: null, in: null })}>{c.message || '(no message)'}</button>} actions={<code class="muted">{short(c.sha)}</code>}>
								<span class="muted">{c.authorName}, <Ago at={c.timestamp} /></span>
								{c.files?.map((f) => <div key={f.path}><b class="mono">{f.path}</b><ul class="found-lines">{f.matches.slice(0, 10).map((m, i) => <li key={i} class={m.isAddition ? 'added' : 'removed'}><span class="num">{m.isAddition ? '+' : '−'}</span><span class="line"><Marked m={m} /></span></li>)}</ul></div>)}
							</Card>)}
							{!r.files?.length && !r.commits?.length && <Empty icon="search" title="Nothing found" />}
						</>}
		</div>
	);
}

const SYNC_KIND: Record<string, 'good' | 'bad' | 'info'> = { synced: 'good', conflict: 'bad', failed: 'bad' };

export function Mirror({ repo }: { repo: Repo }) {
	const path = `${at(repo.id)}/github-sync`;
	const sync = useData<Sync | null>(path, { on: ['git.sync', 'git.push'], poll: 5000 });
	const [url, setUrl] = useState('');
	const [token, setToken] = useState('');
	if (sync.loading && sync.data === null && !sync.error)
		return <Progress label="Loading" />;
	if (sync.error && !sync.data)
		return <Failure error={sync.error} retry={sync.reload} what="the mirror" />;
	const s = sync.data;
	if (!s)
		return (
			<Card title="Keep in step with another server">
				<form class="form" onSubmit={(e) => {
					e.preventDefault();
					const name = /^[\w.-]+\/[\w.-]+$/.test(url.trim());
					api.post(path, { ...(name ? { githubRepoName: url.trim() } : { url: url.trim() }), ...(token ? { token } : {}) }).then(async () => {
						setToken('');
						await sync.reload();
					}).catch(failed);
				}}>
					<p class="muted">Branches, tags and deletions go both ways. Nothing is force-pushed: what diverged stays as it is and is listed as a conflict.</p>
					<Field label="Repository there" hint="owner/name on GitHub, or an address"><input value={url} onInput={(e) => setUrl(e.currentTarget.value)} placeholder="owner/name" autocomplete="off" spellcheck={false} /></Field>
					<Field label="Token" hint="Kept sealed and never shown. Empty: the account's credential for that server."><input type="password" value={token} onInput={(e) => setToken(e.currentTarget.value)} autocomplete="off" /></Field>
					<div class="row"><Button kind="primary" type="submit" disabled={!url.trim()}>Mirror</Button></div>
				</form>
				<Code text={`pando git sync enable ${word(repo)} owner/name`} />
			</Card>
		);
	return (
		<div class="stack">
			<Card title="Mirror" actions={<><Button small icon="refresh" onClick={async () => {
				await api.post(`${path}/run`);
				await sync.reload();
			}}>Sync now</Button><Button small kind="danger" onClick={async () => {
				if (await confirmOnce('Stop mirroring?', { text: 'Both repositories stay as they are.', action: 'Stop', danger: true })) {
					await api.del(path);
					await sync.reload();
				}
			}}>Stop</Button></>}>
				<dl class="facts"><dt>Other side</dt><dd>{s.githubRepoName || s.url}</dd><dt>State</dt><dd><Badge kind={SYNC_KIND[s.state] ?? 'info'}>{s.state}</Badge></dd><dt>Last sync</dt><dd><Ago at={s.lastSyncAt} /></dd>
					{s.error && <><dt>Error</dt><dd class="bad-text">{s.error}</dd></>}
					<dt>Address for its webhook</dt><dd class="row tight"><code>{location.origin + s.hookPath}</code><CopyButton text={location.origin + s.hookPath} /></dd></dl>
			</Card>
			{s.conflicts.length > 0 && <Card title="Conflicts"><Table label="Conflicts" rows={s.conflicts.map(conflictText)} rowKey={(c) => c.ref} columns={[{ key: 'ref', title: 'Reference', cell: (c) => <code>{c.ref}</code> }, { key: 'why', title: 'Why', cell: (c) => c.why, grow: true }]} />
				<p class="muted pad">Merge on either side and push; the next sync resolves it.</p></Card>}
		</div>
	);
}

interface Grant { identity: string; level: 'read' | 'write' }

function Permissions({ repo }: { repo: Repo }) {
	const [list, setList] = useState<Grant[] | null>(null);
	const [all, setAll] = useState<string[]>([]);
	const [error, setError] = useState<unknown>(null);
	const [who, setWho] = useState('');
	const [level, setLevel] = useState<'read' | 'write'>('read');
	const path = (id: string): string => `/identity/v1/identities/${encodeURIComponent(id)}/permissions/git/${encodeURIComponent(repo.id)}`;
	const load = async (): Promise<void> => {
		try {
			const ids = (await api.get<{ identities: { id: string }[] }>('/identity/v1/identities?limit=200&offset=0')).identities.map((i) => i.id);
			const got: Grant[] = [];
			for (let i = 0; i < ids.length; i += 8)
				got.push(...(await Promise.all(ids.slice(i, i + 8).map(async (id): Promise<Grant | null> => {
					const p = await api.get<{ accessLevel?: 'read' | 'write' | null }>(path(id)).catch((e) => {
						if (e instanceof ApiError && e.status === 404)
							return { accessLevel: null };
						throw e;
					});
					return p.accessLevel ? { identity: id, level: p.accessLevel } : null;
				}))).filter((g): g is Grant => g !== null));
			setAll(ids);
			setList(got);
			setError(null);
		} catch (e) {
			setError(e);
		}
	};
	useEffect(() => {
		void load();
	}, [repo.id]);
	return (
		<Card title="Who else may use it">
			{error ? <Failure error={error instanceof ApiError ? error : new ApiError(0, 'PAGE', messageOf(error))} retry={load} what="the permissions" /> : !list ? <Progress label="Loading" /> : <Table label="Permissions" rows={list} rowKey={(g) => g.identity} columns={[
				{ key: 'who', title: 'Identity', grow: true, cell: (g) => <code>{g.identity}</code> },
				{ key: 'level', title: 'May', cell: (g) => <select aria-label={`What ${g.identity} may do`} value={g.level} onChange={(e) => {
					api.put(path(g.identity), { permission: e.currentTarget.value }).then(load).catch(failed);
				}}><option value="read">read</option><option value="write">read and write</option></select> },
				{ key: 'acts', title: '', cell: (g) => <Button small kind="quiet" icon="trash" label={`Revoke ${g.identity}`} onClick={() => undoable(`Revoking what ${g.identity} may do`, async () => {
					await api.del(path(g.identity));
					await load();
				}, { key: `grant:${repo.id}:${g.identity}` })} /> },
			]} empty={<Empty title="No identity" commands={[{ title: 'Make one', code: 'pando identity create' }]}>Keys of this account may do everything; identities only what is granted here.</Empty>} />}
			{all.length > 0 && <form class="row" onSubmit={(e) => {
				e.preventDefault();
				api.post(path(who || (all[0] as string)), { permission: level }).then(load).catch(failed);
			}}><select aria-label="Identity" value={who || all[0]} onChange={(e) => setWho(e.currentTarget.value)}>{all.map((id) => <option key={id}>{id}</option>)}</select>
				<select aria-label="Permission" value={level} onChange={(e) => setLevel(e.currentTarget.value as 'read')}><option value="read">read</option><option value="write">read and write</option></select><Button small type="submit" icon="plus">Grant</Button></form>}
		</Card>
	);
}

export function RepoSettings({ repo, reload }: { repo: Repo; reload: () => Promise<void> }) {
	const branches = useData<{ branches: Branch[] }>(`${at(repo.id)}/git/refs/heads/`);
	const ssh = `git clone ssh://${repo.id}@${location.hostname}/${repo.id}`;
	return (
		<div class="stack">
			<Card title="Clone"><div class="stack-s">
				<Code text={`git clone ${location.origin}/${repo.id}${word(repo) === repo.id ? '' : ` ${word(repo)}`}`} />
				<Code text={`pando git clone ${word(repo)}`} />
				<Code text={ssh} />
				<p class="muted">The password is an API key or an identity's token: <code>{location.protocol}//x-access-token:TOKEN@{location.host}/{repo.id}</code></p></div></Card>
			<Card title="General"><form class="form" onSubmit={(e) => e.preventDefault()}>
				<Field label="Default branch"><select value={repo.defaultBranch ?? ''} onChange={(e) => {
					api.put(`${at(repo.id)}/default-branch`, { defaultBranch: e.currentTarget.value }).then(reload).catch(failed);
				}}>{(branches.data?.branches ?? [{ name: repo.defaultBranch ?? 'main', commit: null }]).map((b) => <option key={b.name}>{b.name}</option>)}</select></Field>
				<Field label="Who may read it"><select value={repo.visibility} onChange={(e) => {
					const v = e.currentTarget.value;
					(async () => {
						if (v === 'public' && !await confirmOnce('Make it public?', { text: 'Anyone who reaches this server can read all of its history.', action: 'Make it public', danger: true })) {
							await reload();
							return;
						}
						await api.put(`${at(repo.id)}/visibility`, { visibility: v });
						await reload();
						notify(`It is ${v} now.`, { kind: 'good' });
					})().catch(failed);
				}}><option value="private">this account and whom it allows</option><option value="public">anyone</option></select></Field>
			</form>
			<dl class="facts"><dt>Id</dt><dd class="row tight"><code>{repo.id}</code><CopyButton text={repo.id} /></dd><dt>Size</dt><dd>{bytes(repo.bytes)}</dd><dt>Created</dt><dd>{dateTime(repo.createdAt)}</dd><dt>Last push</dt><dd><Ago at={repo.pushedAt} /></dd></dl></Card>
			<Permissions repo={repo} />
			<Card title="Delete"><p class="pad-b">The repository goes with all of its history, triggers and permissions.</p><Button kind="danger" icon="trash" onClick={async () => {
				if (!await confirmOnce(`Delete ${repoName(repo)}?`, { text: 'Its history is gone for good.', action: 'Delete', danger: true, type: repoName(repo) }))
					return;
				undoable(`Deleting ${repoName(repo)}`, () => api.del(at(repo.id)), { key: `repo:${repo.id}` });
				navigate('/ui/git');
			}}>Delete this repository</Button></Card>
		</div>
	);
}
