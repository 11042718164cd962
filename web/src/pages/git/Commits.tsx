// SPDX-License-Identifier: Apache-2.0
/* Commits.tsx - the history of a branch, and what a commit changed */
import { useEffect, useState } from 'preact/hooks';
import { api, messageOf, query } from '../../lib/api';
import { dateTime, plural } from '../../lib/format';
import { place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button, CopyButton } from '../../ui/Button';
import { Icon } from '../../ui/Icon';
import { Ago, Badge, Card, Empty, Loaded, Skeleton } from '../../ui/parts';
import { decodeText } from '../vm/paths';
import { DiffView } from './DiffView';
import { contentsUrl } from './RepoFiles';
import { at, filesOf, short, subject, unbase64, type Commit, type CompareFile, type Comparison, type Contents } from './types';

interface Page { commits: Commit[]; total: number | null; next_commit: string | null }
interface Status { state: string | null; runs: { id: string; status?: string; vmId?: string | null; triggerId: string }[] }

const KIND: Record<string, 'good' | 'bad' | 'warn' | 'info' | 'plain'> = { success: 'good', failure: 'bad', error: 'bad', running: 'info', pending: 'info' };

async function textAt(repo: string, path: string, rev: string): Promise<string | null> {
	const c = await api.get<Contents>(contentsUrl(repo, path, rev));
	return c.content === undefined ? null : decodeText(unbase64(c.content));
}

function FileChange({ repo, file, base, head, open }: { repo: string; file: CompareFile; base: string | null; head: string; open: boolean }) {
	const [shown, setShown] = useState(open);
	const [texts, setTexts] = useState<[string, string] | null>(null);
	const [error, setError] = useState('');
	const [two, setTwo] = useState(false);
	useEffect(() => {
		if (!shown || texts || error)
			return;
		const before = file.status === 'added' || base === null ? Promise.resolve('') : textAt(repo, file.previous_filename || file.filename, base);
		const after = file.status === 'removed' ? Promise.resolve('') : textAt(repo, file.filename, head);
		Promise.all([before, after]).then(([a, b]) => a === null || b === null ? setError('Not a text.') : setTexts([a, b]), (e) => setError(messageOf(e)));
	}, [shown]);
	return (
		<section class="file-change" aria-label={file.filename}>
			<header><button type="button" class="link" aria-expanded={shown} onClick={() => setShown(!shown)}><Icon name={shown ? 'down' : 'right'} size={14} /><span class="mono">{file.previous_filename ? `${file.previous_filename} → ` : ''}{file.filename}</span></button>
				<span class="spacer" /><Badge kind={file.status === 'added' ? 'good' : file.status === 'removed' ? 'bad' : 'plain'}>{file.status}</Badge>
				<span class="mono"><span class="plus">+{file.additions}</span> <span class="minus">−{file.deletions}</span></span>
				{shown && <Button small kind="quiet" pressed={two} onClick={() => setTwo(!two)}>Two columns</Button>}</header>
			{shown && (error ? <p class="muted pad">{error}</p> : texts ? <DiffView a={texts[0]} b={texts[1]} two={two} label={`Changes in ${file.filename}`} /> : <Skeleton lines={4} />)}
		</section>
	);
}

export function Changed({ repo, base, head }: { repo: string; base: string | null; head: string }) {
	const diff = useData<Comparison>(base === null ? null : query(`${at(repo)}/compare`, { base, head }));
	const root = useData<Contents>(base === null ? query(`${at(repo)}/contents`, { rev: head, recursive: true }) : null);
	const files = (list: CompareFile[]) => list.length ? <div class="stack-s">
		<p class="muted">{plural(list.length, 'file')} changed, <span class="plus">+{list.reduce((n, f) => n + f.additions, 0)}</span> <span class="minus">−{list.reduce((n, f) => n + f.deletions, 0)}</span></p>
		{list.slice(0, 300).map((f, i) => <FileChange key={f.filename} repo={repo} file={f} base={base} head={head} open={i < 5 && f.changes <= 600} />)}
		{list.length > 300 && <p class="muted">The first 300 of {list.length} files.</p>}
	</div> : <Empty title="No file differs" />;
	return base === null ? <Loaded of={root} what="the files">{(d) => files(filesOf(d).map((e) => ({ sha: e.sha, filename: e.path, status: 'added', additions: 0, deletions: 0, changes: 0 })))}</Loaded>
		: <Loaded of={diff} what="the changes">{(d) => files(d.files)}</Loaded>;
}

function One({ repo, sha }: { repo: string; sha: string }) {
	const commit = useData<Commit>(`${at(repo)}/git/commits/${encodeURIComponent(sha)}`);
	const status = useData<Status>(/^[0-9a-f]{40}$/.test(sha) ? `${at(repo)}/git/commits/${sha}/status` : null, { on: ['git.delivery'] });
	return (
		<div class="stack">
			<div><Button small kind="quiet" icon="left" onClick={() => setQuery({ commit: null })}>History</Button></div>
			<Loaded of={commit} what="the commit">{(c) => {
				const m = subject(c.message);
				return <>
					<Card>
						<h2 class="commit-title">{m.title || '(no message)'}</h2>
						{m.body && <pre class="ansi commit-body">{m.body}</pre>}
						<dl class="facts"><dt>Author</dt><dd>{c.author.name} &lt;{c.author.email}&gt;, {dateTime(c.author.date)}</dd>
							{(c.committer.name !== c.author.name || c.committer.date !== c.author.date) && <><dt>Committed</dt><dd>{c.committer.name}, {dateTime(c.committer.date)}</dd></>}
							<dt>Commit</dt><dd class="row tight"><code>{c.sha}</code><CopyButton text={c.sha} label="Copy the hash" /></dd>
							{c.parents.length > 0 && <><dt>{c.parents.length === 1 ? 'Parent' : 'Parents'}</dt><dd class="row">{c.parents.map((p) => <button type="button" key={p.sha} class="link mono" onClick={() => setQuery({ commit: p.sha })}>{short(p.sha)}</button>)}</dd></>}
							{status.data?.state && <><dt>Triggers</dt><dd><Badge kind={KIND[status.data.state] ?? 'plain'}>{status.data.state}</Badge> {plural(status.data.runs.length, 'run')}</dd></>}
						</dl>
					</Card>
					<Changed repo={repo} base={c.parents[0]?.sha ?? null} head={c.sha} />
				</>;
			}}</Loaded>
		</div>
	);
}

export function CommitRow({ c }: { c: Commit }) {
	const m = subject(c.message);
	return <li><div class="commit-main"><button type="button" class="link" onClick={() => setQuery({ tab: 'commits', commit: c.sha })}>{m.title || '(no message)'}</button><span class="muted">{c.author.name}, <Ago at={c.author.date} /></span></div><code class="muted">{short(c.sha)}</code></li>;
}

export function Commits({ repo, rev }: { repo: string; rev: string }) {
	const sha = place.value.query.get('commit');
	const first = useData<Page>(sha ? null : query(`${at(repo)}/git/commits`, { branch: rev, limit: 50 }), { on: ['git.push'], poll: 20_000 });
	const [more, setMore] = useState<Commit[]>([]);
	const [end, setEnd] = useState(false);
	useEffect(() => {
		setMore([]);
		setEnd(false);
	}, [rev, first.data?.commits[0]?.sha]);
	if (sha)
		return <One key={sha} repo={repo} sha={sha} />;
	return (
		<Loaded of={first} what="the history" lines={10}>{(d) => {
			const all = [...d.commits, ...more];
			if (!all.length)
				return <Empty icon="git" title="No commits yet" commands={[{ title: 'Make one', code: `git commit --allow-empty -m first && git push` }]} />;
			return <>
				<ol class="commit-list" aria-label="Commits">{all.map((c) => <CommitRow key={c.sha} c={c} />)}</ol>
				{!end && d.commits.length === 50 && <Button onClick={async () => {
					const p = await api.get<Page>(query(`${at(repo)}/git/commits`, { branch: rev, limit: 100, offset: all.length }));
					setMore([...more, ...p.commits]);
					setEnd(p.commits.length < 100);
				}}>Show older commits</Button>}
			</>;
		}}</Loaded>
	);
}
