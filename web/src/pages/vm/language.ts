// SPDX-License-Identifier: Apache-2.0
/* language.ts - which of the editor's languages a file name stands for */

const BY_ENDING: Record<string, string> = {
	js: 'js', mjs: 'js', cjs: 'js', jsx: 'js', ts: 'ts', mts: 'ts', cts: 'ts', tsx: 'tsx', py: 'py', pyi: 'py', ipynb: 'json',
	c: 'c', h: 'c', cc: 'c', cpp: 'c', cxx: 'c', hpp: 'c', hh: 'c', ino: 'c', json: 'json', jsonl: 'json', webmanifest: 'json', css: 'css', scss: 'css',
	less: 'css', html: 'html', htm: 'html', svg: 'xml', xml: 'xml', md: 'md', markdown: 'md', sh: 'sh', bash: 'sh', zsh: 'sh', ksh: 'sh',
	yml: 'yaml', yaml: 'yaml', toml: 'toml', go: 'go', rs: 'rust', rb: 'ruby', sql: 'sql', ini: 'ini', conf: 'ini', cfg: 'ini',
	properties: 'ini', service: 'ini', desktop: 'ini', env: 'sh', diff: 'diff', patch: 'diff', java: 'java', kt: 'java', cs: 'java', dart: 'java',
};
const BY_NAME: Record<string, string> = {
	dockerfile: 'docker', containerfile: 'docker', gemfile: 'ruby', rakefile: 'ruby', '.bashrc': 'sh', '.profile': 'sh', '.bash_profile': 'sh',
	'.gitconfig': 'ini', '.npmrc': 'ini', '.editorconfig': 'ini', 'package-lock.json': 'json',
};

/** A key for makeEditor(), '' where none is known. */
export function languageOf(name: string, firstLine = ''): string {
	const lower = name.toLowerCase();
	const ending = lower.slice(lower.lastIndexOf('.') + 1);
	const known = BY_NAME[lower] ?? (lower.includes('.') ? BY_ENDING[ending] : undefined);
	if (known !== undefined)
		return known;
	if (/^#!.*\b(ba|da|z|k)?sh\b/.test(firstLine))
		return 'sh';
	if (/^#!.*\bpython/.test(firstLine))
		return 'py';
	return /^#!.*\b(node|deno|bun)\b/.test(firstLine) ? 'js' : '';
}
