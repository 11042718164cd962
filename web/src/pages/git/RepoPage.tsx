// SPDX-License-Identifier: Apache-2.0
/* RepoPage.tsx - one repository; tab, revision, path and commit are in the address */
import { useEffect } from 'preact/hooks';
import { bytes } from '../../lib/format';
import { place, setQuery } from '../../lib/route';
import { useData } from '../../lib/state';
import type { PageProps } from '../../routes';
import { CopyButton } from '../../ui/Button';
import { Ago, Badge, Empty, Failure, PageHead, Skeleton } from '../../ui/parts';
import { Tabs } from '../../ui/Tabs';
import { Commits } from './Commits';
import { RepoFiles } from './RepoFiles';
import { Mirror, Refs, RepoSettings, Search } from './RepoParts';
import { Triggers } from './Triggers';
import { at, repoName, type Repo } from './types';

const TABS = [{ key: 'files', title: 'Files' }, { key: 'commits', title: 'History' }, { key: 'refs', title: 'Branches and tags' }, { key: 'search', title: 'Search' },
	{ key: 'triggers', title: 'Triggers' }, { key: 'mirror', title: 'Mirror' }, { key: 'settings', title: 'Settings' }];

export default function RepoPage({ params }: PageProps) {
	return <One key={params['repo']} id={params['repo'] as string} />;
}

function One({ id }: { id: string }) {
	const data = useData<Repo>(at(id), { on: ['git.push'], poll: 20_000 });
	const branches = useData<{ branches: { name: string }[] }>(`${at(id)}/git/refs/heads/`, { on: ['git.push'] });
	const repo = data.data;
	const q = place.value.query;
	const tab = TABS.some((t) => t.key === q.get('tab')) ? q.get('tab') as string : 'files';
	useEffect(() => {
		if (repo)
			document.title = `${repoName(repo)} · Pando`;
	}, [repo?.name, tab]);
	if (!repo)
		return data.error ? (data.error.status === 404 ? <Empty icon="git" title="There is no such repository" commands={[{ title: 'See what there is', code: 'pando git list' }]} /> : <Failure error={data.error} retry={data.reload} what="the repository" />) : <Skeleton lines={8} />;
	const rev = q.get('rev') ?? repo.defaultBranch ?? 'main';
	const clone = `${location.origin}/${repo.id}`;
	const names = branches.data?.branches.map((b) => b.name) ?? [];
	return (
		<div>
			<PageHead title={repoName(repo)} sub={<div class="vm-facts"><Badge kind={repo.visibility === 'public' ? 'info' : 'plain'}>{repo.visibility}</Badge><span>{bytes(repo.bytes)}</span><span>{repo.pushedAt ? <>pushed <Ago at={repo.pushedAt} /></> : <>created <Ago at={repo.createdAt} /></>}</span>
				<span class="row tight"><code class="clone">{clone}</code><CopyButton text={`git clone ${clone}`} label="Copy the clone command" /></span></div>}>
				{(tab === 'files' || tab === 'commits' || tab === 'search') && <select aria-label="Revision" value={rev} onChange={(e) => setQuery({ rev: e.currentTarget.value === repo.defaultBranch ? null : e.currentTarget.value, commit: null })}>
					{!names.includes(rev) && <option>{rev}</option>}{names.map((n) => <option key={n}>{n}</option>)}</select>}
			</PageHead>
			<Tabs label="Parts of the repository" tabs={TABS} current={tab} onChange={(key) => setQuery({ tab: key === 'files' ? null : key, commit: null })}>
				{tab === 'files' && <RepoFiles repo={repo} rev={rev} cloneUrl={clone} />}
				{tab === 'commits' && <Commits repo={repo.id} rev={rev} />}
				{tab === 'refs' && <Refs repo={repo} />}
				{tab === 'search' && <Search repo={repo} rev={rev} />}
				{tab === 'triggers' && <Triggers repo={repo} />}
				{tab === 'mirror' && <Mirror repo={repo} />}
				{tab === 'settings' && <RepoSettings repo={repo} reload={data.reload} />}
			</Tabs>
		</div>
	);
}
