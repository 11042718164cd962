// SPDX-License-Identifier: Apache-2.0
// Which pages there are, in the order in which they are read. A page of docs/ that is in no group fails the build.
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

export type Page = {
	/** below /docs: "guides/agents"; "" is the start */
	slug: string;
	/** from the root of the repository, or null for a generated page */
	file: string | null;
	title: string;
	group: string;
	/** Markdown, without the first heading */
	text: string;
};

/* "*" stands for the rest of a folder, sorted. */
const groups: [string, string[]][] = [
	['Start', ['docs/QUICKSTART.md', 'docs/CONCEPTS.md']],
	['Guides', ['docs/guides/README.md', 'docs/guides/code-interpreter.md', 'docs/guides/agents.md', 'docs/guides/fork-and-explore.md',
		'docs/guides/preview-urls.md', 'docs/guides/private-networks.md', 'docs/guides/git-triggers.md', 'docs/guides/self-hosting-kvm.md',
		'docs/guides/operations.md', 'docs/guides/backup.md', 'docs/guides/security-model.md', 'docs/guides/*']],
	['VMs', ['docs/LIFE.md', 'docs/TREE.md', 'docs/CODE.md', 'docs/RUNS.md', 'docs/DEPLOYMENTS.md', 'docs/STREAMS.md', 'docs/PTY.md', 'docs/SELF.md', 'docs/MCP.md', 'docs/SSH.md']],
	['Networks and Git', ['docs/NETWORK.md', 'docs/EDGE.md', 'docs/DNS.md', 'docs/GIT.md', 'docs/WEBHOOKS.md']],
	['Reference', ['docs/COMMANDS.md', 'docs/CLI.md', 'docs/SETTINGS.md', 'docs/ERRORS.md', 'docs/LIMITS.md']],
	['API', ['api']],
	['Operate', ['docs/ACCOUNTS.md', 'docs/OPERATIONS.md', 'docs/*', 'CHANGELOG.md']],
	['Inside', ['docs/ARCHITECTURE.md', 'docs/PRIV.md', 'docs/PROTOCOL.agent.md', 'docs/THREATS.md']],
	['Decisions', ['docs/decisions/*']],
];

export function slugOf(file: string): string {
	const name = file.replace(/^docs\//, '').replace(/\.md$/, '').toLowerCase();
	return name.replace(/\/readme$/, '').replaceAll('.', '-');
}

async function markdownIn(root: string, folder: string): Promise<string[]> {
	const names = await readdir(path.join(root, folder));
	return names.filter((n) => n.endsWith('.md')).sort().map((n) => `${folder}/${n}`);
}

export async function readPages(root: string): Promise<Page[]> {
	const named = new Set(groups.flatMap(([, list]) => list));
	const pages: Page[] = [];
	for (const [group, list] of groups)
		for (const entry of list) {
			if (!entry.endsWith('.md') && !entry.endsWith('/*')) {
				pages.push({ slug: entry, file: null, title: '', group, text: '' });
				continue;
			}
			const files = entry.endsWith('/*')
				? (await markdownIn(root, entry.slice(0, -2))).filter((f) => !named.has(f)) : [entry];
			for (const file of files) {
				const text = await readFile(path.join(root, file), 'utf8');
				const title = /^# (.+)$/m.exec(text);
				if (!title)
					throw new Error(`${file}: a page begins with its title, '# ...'`);
				pages.push({ slug: slugOf(file), file, title: title[1]!.replaceAll('`', ''), group,
					text: text.slice(0, title.index) + text.slice(title.index + title[0].length) });
			}
		}
	return pages;
}
