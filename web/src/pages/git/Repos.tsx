// SPDX-License-Identifier: Apache-2.0
/* Repos.tsx - the account's repositories, and new ones */
import { useState } from 'preact/hooks';
import { api, query } from '../../lib/api';
import { bytes, plural } from '../../lib/format';
import { navigate } from '../../lib/route';
import { useData } from '../../lib/state';
import { Button, CopyButton } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Icon } from '../../ui/Icon';
import { useCommands } from '../../ui/Palette';
import { Ago, Badge, Empty, Field, Loaded, PageHead } from '../../ui/parts';
import { Table } from '../../ui/Table';
import { failed, notify, pending } from '../../ui/Toast';
import { repoName, type Repo } from './types';

const PAGE = 100;

function Create({ onClose }: { onClose(): void }) {
	const [name, setName] = useState('');
	const [from, setFrom] = useState('');
	const [open, setOpen] = useState(false);
	const [readme, setReadme] = useState(true);
	const [busy, setBusy] = useState(false);
	const make = async (): Promise<void> => {
		const r = await api.post<{ repoId: string }>('/git/v1/repo', {
			...(name.trim() ? { name: name.trim() } : {}), public: open,
			...(from.trim() ? { source: { url: from.trim(), allBranches: true } } : readme ? { import: { type: 'files', files: { 'README.md': `# ${name.trim() || 'New repository'}\n` }, commitMessage: 'First commit' } } : {}),
		});
		notify(`Repository ${name.trim() || r.repoId} was created.`, { kind: 'good' });
		navigate(`/ui/git/${encodeURIComponent(r.repoId)}`);
	};
	return (
		<Dialog title="New repository" onClose={onClose} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				setBusy(true);
				make().then(onClose, failed).finally(() => setBusy(false));
			}}>
				<Field label="Name"><input value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
				<Field label="Copy from" hint="The address of another repository, http or https; its history and branches come along."><input type="url" value={from} onInput={(e) => setFrom(e.currentTarget.value)} placeholder="https://github.com/owner/name" autocomplete="off" /></Field>
				{!from.trim() && <p><label class="check"><input type="checkbox" checked={readme} onChange={(e) => setReadme(e.currentTarget.checked)} /> Begin with a README</label></p>}
				<p><label class="check"><input type="checkbox" checked={open} onChange={(e) => setOpen(e.currentTarget.checked)} /> Public: anyone may read it</label></p>
				<div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" busy={busy}>Create</Button></div>
			</form>
		</Dialog>
	);
}

export default function Repos() {
	const [search, setSearch] = useState('');
	const [limit, setLimit] = useState(PAGE);
	const [creating, setCreating] = useState(false);
	const list = useData<{ repositories: Repo[]; total: number }>(query('/git/v1/repo', { limit, offset: 0, search }), { on: ['git.*'], poll: 20_000 });
	useCommands([{ title: 'New repository', icon: 'plus', group: 'Git', run: () => setCreating(true) }]);
	return (
		<div class="stack">
			<PageHead title="Repositories" sub={list.data ? plural(list.data.total, 'repository', 'repositories') : ' '}>
				<div class="search" role="search"><Icon name="search" /><input type="search" aria-label="Search repositories" placeholder="Name" value={search} onInput={(e) => setSearch(e.currentTarget.value)} /></div>
				<Button kind="primary" icon="plus" onClick={() => setCreating(true)}>New repository</Button>
			</PageHead>
			<Loaded of={list} what="the repositories" lines={8}>{(d) => <div class={d.repositories.length ? 'card' : ''}>
				<Table label="Repositories" rows={d.repositories} rowKey={(r) => r.id} order="name" rowClass={(r) => pending.value.has(`repo:${r.id}`) ? 'going' : undefined} columns={[
					{ key: 'name', title: 'Name', grow: true, sort: (r) => repoName(r).toLowerCase(), cell: (r) => <a href={`/ui/git/${encodeURIComponent(r.id)}`}><b>{repoName(r)}</b></a> },
					{ key: 'see', title: 'Who may read', cell: (r) => <Badge kind={r.visibility === 'public' ? 'info' : 'plain'}>{r.visibility}</Badge>, sort: (r) => r.visibility },
					{ key: 'branch', title: 'Default branch', cell: (r) => <code>{r.defaultBranch ?? '–'}</code>, hideNarrow: true },
					{ key: 'n', title: 'Branches', cell: (r) => Object.keys(r.branches ?? {}).length, align: 'end', hideNarrow: true },
					{ key: 'size', title: 'Size', cell: (r) => bytes(r.bytes), sort: (r) => r.bytes, align: 'end' },
					{ key: 'at', title: 'Created', cell: (r) => <Ago at={r.createdAt} />, sort: (r) => Date.parse(r.createdAt) },
					{ key: 'copy', title: '', cell: (r) => <CopyButton text={`${location.origin}/${r.id}`} label={`Copy the clone address of ${repoName(r)}`} /> },
				]} empty={search ? <Empty icon="search" title="No repository has that name" /> : <Empty icon="git" title="No repository yet" action={<Button kind="primary" icon="plus" onClick={() => setCreating(true)}>New repository</Button>}
					commands={[{ title: 'On the command line', code: 'pando git create hello' }, { title: 'With the SDK', code: "const { repoId } = await freestyle.git.repos.create({ name: 'hello' });" }]}>Repositories can be cloned into VMs, and pushes can start them.</Empty>} />
				{d.total > d.repositories.length && <Button onClick={() => setLimit(limit + 4 * PAGE)}>Show more ({d.total - d.repositories.length} left)</Button>}
			</div>}</Loaded>
			{creating && <Create onClose={() => setCreating(false)} />}
		</div>
	);
}
