// SPDX-License-Identifier: Apache-2.0
/* RepoFiles.tsx - the files of a revision: directories, texts with their syntax in colour, pictures, the README */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { query } from '../../lib/api';
import { bytes } from '../../lib/format';
import { place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button, CopyButton, LinkButton } from '../../ui/Button';
import { Icon } from '../../ui/Icon';
import { Card, Empty, Loaded, Skeleton } from '../../ui/parts';
import { CodeView } from '../vm/CodeView';
import { languageOf } from '../vm/language';
import { decodeText } from '../vm/paths';
import { MarkdownView } from './MarkdownView';
import { at, inPath, readmeOf, unbase64, type Contents, type Entry, type Repo } from './types';

const PICTURES: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', svg: 'image/svg+xml' };
const MAX_SHOWN = 1_500_000;

export const contentsUrl = (repo: string, path: string, rev: string): string => query(`${at(repo)}/contents/${inPath(path)}`, { rev });

/** A link of a README, inside the repository. */
export function inRepo(dir: string, href: string): string | null {
	if (href.startsWith('#'))
		return null;
	const parts = href.startsWith('/') ? [] : dir.split('/').filter(Boolean);
	for (const p of href.replace(/[?#].*$/, '').split('/')) {
		if (p === '..')
			parts.pop();
		else if (p && p !== '.') {
			try {
				parts.push(decodeURIComponent(p));
			} catch {
				parts.push(p);
			}
		}
	}
	return parts.join('/');
}

function hrefTo(path: string, rev: string): string {
	return `${location.pathname}${query('', { rev, path })}`;
}

function Readme({ repo, entry, rev, dir }: { repo: string; entry: Entry; rev: string; dir: string }) {
	const file = useData<Contents>(contentsUrl(repo, entry.path, rev));
	const text = useMemo(() => file.data?.content !== undefined ? decodeText(unbase64(file.data.content)) : null, [file.data]);
	if (!file.data)
		return file.error ? null : <Skeleton lines={6} />;
	if (text === null)
		return null;
	return <Card title={entry.name}>{/\.(md|markdown)$/i.test(entry.name) ? <MarkdownView text={text} resolve={(h) => {
		const p = inRepo(dir, h);
		return p === null ? null : hrefTo(p, rev);
	}} /> : <pre class="ansi">{text}</pre>}</Card>;
}

function FileView({ file, line, rev }: { file: Contents; line: number; rev: string }) {
	const data = useMemo(() => unbase64(file.content ?? ''), [file]);
	const ending = file.name.slice(file.name.lastIndexOf('.') + 1).toLowerCase();
	const mime = PICTURES[ending];
	const text = useMemo(() => mime && ending !== 'svg' || data.length > MAX_SHOWN ? null : decodeText(data), [data]);
	const [rendered, setRendered] = useState(true);
	const [picture, setPicture] = useState<string | null>(null);
	useEffect(() => {
		if (!mime)
			return undefined;
		const u = URL.createObjectURL(new Blob([data as BlobPart], { type: mime }));
		setPicture(u);
		return () => URL.revokeObjectURL(u);
	}, [data, mime]);
	const md = text !== null && /^(md|markdown)$/.test(ending);
	const dir = file.path.slice(0, Math.max(0, file.path.lastIndexOf('/')));
	const save = (): void => {
		const a = document.createElement('a');
		a.href = URL.createObjectURL(new Blob([data as BlobPart]));
		a.download = file.name;
		a.click();
		setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
	};
	return (
		<div class="stack-s">
			<div class="files-bar"><span class="muted">{bytes(data.length)}{text !== null ? `, ${text.split('\n').length - (text.endsWith('\n') ? 1 : 0)} lines` : ''}</span><span class="spacer" />
				{md && <Button small pressed={rendered} onClick={() => setRendered(!rendered)}>Rendered</Button>}
				{text !== null && <CopyButton text={text} label="Copy the text" />}<Button small icon="download" onClick={save}>Download</Button></div>
			{picture && <div class="picture"><img src={picture} alt={file.name} /></div>}
			{text !== null ? md && rendered && !line ? <Card><MarkdownView text={text} resolve={(h) => {
				const p = inRepo(dir, h);
				return p === null ? null : hrefTo(p, rev);
			}} /></Card> : <CodeView text={text} version={file.sha} language={languageOf(file.name, text.slice(0, 200).split('\n')[0])} readOnly grow={text.split('\n').length <= 24} line={line || undefined} label={`Contents of ${file.path}`} />
				: !picture && <Empty icon="file" title={data.length > MAX_SHOWN ? 'Too large to show' : 'Not a text'} />}
		</div>
	);
}

export function RepoFiles({ repo, rev, cloneUrl }: { repo: Repo; rev: string; cloneUrl: string }) {
	const path = place.value.query.get('path') ?? '';
	const line = Number(place.value.query.get('line') ?? 0);
	const data = useData<Contents>(contentsUrl(repo.id, path, rev), { on: ['git.push'] });
	const parts = path.split('/').filter(Boolean);
	const go = (to: string): void => setQuery({ path: to || null, line: null });
	if (data.error && data.data === null && (data.error.status === 404 || data.error.status === 400) && !path)
		return <Empty icon="git" title="Nothing was pushed yet" commands={[{ title: 'Push an existing repository', code: `git remote add pando ${cloneUrl}\ngit push pando HEAD:${repo.defaultBranch ?? 'main'}` }, { title: 'Or begin here', code: `git clone ${cloneUrl}` }]} />;
	return (
		<div class="stack">
			<div class="files-bar">
				<nav class="crumbs" aria-label="Path"><ol><li>{parts.length ? <button type="button" class="link" onClick={() => go('')}>{repo.name || 'root'}</button> : <span aria-current="location">{repo.name || 'root'}</span>}</li>
					<li aria-hidden="true" hidden />{parts.map((p, i) => <li key={i}>{i === parts.length - 1 ? <span aria-current="location">{p}</span> : <button type="button" class="link" onClick={() => go(parts.slice(0, i + 1).join('/'))}>{p}</button>}</li>)}</ol></nav>
				<span class="spacer" />
				<LinkButton small icon="download" href={query(`${at(repo.id)}/tarball`, { rev })} download={`${repo.name || repo.id}.tar.gz`}>tar</LinkButton>
				<LinkButton small icon="download" href={query(`${at(repo.id)}/zip`, { rev })} download={`${repo.name || repo.id}.zip`}>zip</LinkButton>
			</div>
			<Loaded of={data} what={path || 'the files'} lines={8}>{(d) => d.type === 'file' ? <FileView key={d.path + d.sha} file={d} line={line} rev={rev} /> : <>
				<ul class="repo-list" aria-label="Files">
					{parts.length > 0 && <li><button type="button" class="link file-name" onClick={() => go(parts.slice(0, -1).join('/'))}><Icon name="folder" size={16} /><span>..</span></button></li>}
					{[...(d.entries ?? [])].sort((x, y) => x.type === y.type ? x.name.localeCompare(y.name) : x.type === 'dir' ? -1 : 1).slice(0, 3000).map((e) => <li key={e.path}><a class="file-name" href={hrefTo(e.path, rev)}><Icon name={e.type === 'dir' ? 'folder' : 'file'} size={16} /><span>{e.name}</span></a>
						<span class="muted">{e.type === 'file' ? bytes(e.size) : ''}</span></li>)}
				</ul>
				{(() => {
					const r = readmeOf(d.entries ?? []);
					return r && <Readme key={r.sha} repo={repo.id} entry={r} rev={rev} dir={path} />;
				})()}
			</>}</Loaded>
		</div>
	);
}
