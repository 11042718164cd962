// SPDX-License-Identifier: Apache-2.0
// The search index: words to the sections they are in. Made when the site is built, loaded by the first search, and
// searched by find(), which the tests run too.

export type Entry = { page: string; title: string; heading: string; id: string; text: string };
/** word -> [section, weight, section, weight, ...] */
export type Index = { sections: [url: string, title: string, heading: string, excerpt: string][]; words: Record<string, number[]> };
export type Found = { url: string; title: string; heading: string; excerpt: string; score: number };

const EXCERPT = 150;

export function wordsOf(text: string): string[] {
	return (text.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}_-]*/gu) ?? []).flatMap((w) => {
		const parts = w.split(/[_-]+/).filter(Boolean);
		return parts.length > 1 ? [w, ...parts] : [w];
	}).filter((w) => w.length < 40);
}

export function makeIndex(entries: Entry[]): Index {
	const index: Index = { sections: [], words: Object.create(null) as Record<string, number[]> };
	const bodies = entries.map((e) => wordsOf(e.text));
	const usual = bodies.reduce((n, words) => n + words.length, 0) / Math.max(entries.length, 1);
	entries.forEach((e, at) => {
		const weights = new Map<string, number>();
		const add = (words: string[], weight: number, most: number) => {
			for (const w of words)
				weights.set(w, Math.min((weights.get(w) ?? 0) + weight, most));
		};
		/* a word says less of a long section, which has them all: THREATS is one table */
		const share = 1 / (0.6 + 0.4 * bodies[at]!.length / Math.max(usual, 1));
		add(bodies[at]!, 1, 4);
		for (const [w, weight] of weights)
			weights.set(w, Math.max(Math.round(10 * weight * share) / 10, 0.1));
		add(wordsOf(e.heading), 8, 12);
		add(wordsOf(e.title), e.heading ? 3 : 10, 14);
		index.sections.push([e.page + (e.id ? `#${e.id}` : ''), e.title, e.heading, e.text.replace(/\s+/g, ' ').slice(0, EXCERPT).trim()]);
		for (const [w, weight] of weights)
			(index.words[w] ??= []).push(at, weight);
	});
	return index;
}

/** Sections that have all words of the query; the last one may be the beginning of a word. */
export function find(index: Index, query: string, limit = 20): Found[] {
	const asked = query.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}_-]*/gu) ?? [];
	let scores: Map<number, number> | null = null;
	asked.forEach((word, i) => {
		const here = new Map<number, number>();
		const add = (list: number[] | undefined, factor: number) => {
			for (let k = 0; list && k < list.length; k += 2)
				here.set(list[k]!, Math.max(here.get(list[k]!) ?? 0, list[k + 1]! * factor));
		};
		/* rare words say more */
		const rare = (n: number) => Math.log(1 + index.sections.length / (1 + n / 2));
		const exact = index.words[word];
		add(exact, 1.5 * rare(exact?.length ?? 0));
		if (i === asked.length - 1)
			for (const [w, list] of Object.entries(index.words))
				if (w.startsWith(word) && w !== word)
					add(list, rare(list.length) * word.length / w.length);
		if (scores === null) {
			scores = here;
			return;
		}
		const both = new Map<number, number>();
		for (const [at, score] of scores as Map<number, number>)
			if (here.has(at))
				both.set(at, score + here.get(at)!);
		scores = both;
	});
	return [...((scores ?? new Map()) as Map<number, number>)].sort((a, b) => b[1] - a[1]).slice(0, limit).map(([at, score]) => {
		const [url, title, heading, excerpt] = index.sections[at]!;
		return { url, title, heading, excerpt, score };
	});
}
