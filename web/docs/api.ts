// SPDX-License-Identifier: Apache-2.0
// The API reference, from docs/openapi.json: routes by section, then the named types.
import { codeBlock, type Rendered } from './markdown';
import { anchorMaker, esc } from './html';

type Json = { [name: string]: unknown };
export type Schema = {
	$ref?: string; type?: string | string[]; enum?: unknown[]; items?: Schema; properties?: Record<string, Schema>; required?: string[];
	additionalProperties?: Schema; anyOf?: Schema[]; allOf?: Schema[]; format?: string; contentEncoding?: string; minimum?: number; maximum?: number;
	maxLength?: number; description?: string;
};
type Parameter = { $ref?: string; name: string; in: string; required: boolean; description?: string; schema: Schema };
type Media = Record<string, { schema: Schema }>;
type Operation = {
	operationId: string; summary: string; description?: string; tags: string[]; parameters?: Parameter[];
	requestBody?: { content: Media }; responses: Record<string, { description: string; content?: Media; 'x-codes'?: string[] }>;
	security: Json[];
};
export type OpenApi = {
	info: { version: string; description: string }; tags: { name: string }[]; paths: Record<string, Record<string, Operation>>;
	components: { schemas: Record<string, Schema>; parameters: Record<string, Parameter> };
};

const nameOf = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1);

/** A type in words: "string or null", with links to named ones. */
export function typeText(s: Schema): string {
	if (s.$ref)
		return `<a href="/docs/api/types#${nameOf(s.$ref).toLowerCase()}">${nameOf(s.$ref)}</a>`;
	if (s.enum)
		return s.enum.map((v) => v === null ? 'null' : `<code>${esc(JSON.stringify(v))}</code>`).join(' or ');
	if (s.anyOf)
		return s.anyOf.map(typeText).join(' or ');
	if (s.allOf)
		return s.allOf.map(typeText).join(' and ');
	const types = (Array.isArray(s.type) ? s.type : [s.type ?? 'anything']).map((t) => {
		if (t === 'array')
			return `list of ${typeText(s.items ?? {})}`;
		if (t === 'object' && s.additionalProperties && !s.properties)
			return Object.keys(s.additionalProperties).length ? `object of ${typeText(s.additionalProperties)}` : 'object';
		if (t === 'string' && (s.format ?? s.contentEncoding))
			return s.format === 'date-time' ? 'time' : s.contentEncoding ? 'base64' : s.format!;
		return t;
	});
	const range = s.minimum !== undefined && s.maximum !== undefined ? `, ${s.minimum} to ${s.maximum}`
		: s.minimum !== undefined ? `, from ${s.minimum}` : s.maxLength !== undefined ? `, up to ${s.maxLength} bytes` : '';
	return types.join(' or ') + range;
}

function members(s: Schema): string {
	const parts = s.allOf ?? [s];
	const named = parts.filter((p) => p.$ref).map(typeText);
	const rows = parts.flatMap((p) => Object.entries(p.properties ?? {}).map(([name, t]) => {
		const inner = t.type === 'object' && t.properties ? members(t)
			: t.items?.properties ? members(t.items) : '';
		return `<tr><td><code>${esc(name)}</code>${p.required?.includes(name) ? '' : ' <span class="opt">optional</span>'}</td>` +
			`<td>${typeText(t)}${t.description ? `<br><span class="words">${esc(t.description)}</span>` : ''}${inner}</td></tr>`;
	}));
	const lead = named.length && s.allOf ? `<p>All members of ${named.join(' and ')}${rows.length ? ', and:' : '.'}</p>` : '';
	return lead + (rows.length ? `<div class="table" tabindex="0"><table class="members"><tbody>${rows.join('')}</tbody></table></div>` : '');
}

function shape(s: Schema): string {
	return s.properties || s.allOf ? members(s) : `<p>${typeText(s)}</p>`;
}

/** An example value, for the curl line: only what is required. */
function sample(s: Schema, api: OpenApi, depth = 0): unknown {
	if (s.$ref)
		return sample(api.components.schemas[nameOf(s.$ref)] ?? {}, api, depth + 1);
	if (depth > 6)
		return {};
	if (s.enum)
		return s.enum[0];
	if (s.allOf)
		return Object.assign({}, ...s.allOf.map((p) => sample(p, api, depth + 1)));
	if (s.anyOf)
		return sample(s.anyOf[0]!, api, depth + 1);
	const t = Array.isArray(s.type) ? s.type[0] : s.type;
	switch (t) {
	case 'object':
		return Object.fromEntries((s.required ?? []).map((n) => [n, sample(s.properties?.[n] ?? {}, api, depth + 1)]));
	case 'array':
		return [sample(s.items ?? {}, api, depth + 1)];
	case 'integer':
	case 'number':
		return s.minimum ?? 1;
	case 'boolean':
		return true;
	case 'string':
		return '...';
	default:
		return null;
	}
}

function curl(method: string, route: string, op: Operation, params: Parameter[], api: OpenApi): string {
	const url = route.replace(/\{(\w+)\}/g, (_all, name: string) => `$${name.toUpperCase()}`);
	const query = params.filter((p) => p.in === 'query' && p.required).map((p) => `${p.name}=...`).join('&');
	const lines = [`curl ${method === 'get' ? '' : `-X ${method.toUpperCase()} `}"$PANDO_URL${url}${query ? `?${query}` : ''}"`];
	if (op.security.length)
		lines.push('-H "Authorization: Bearer $PANDO_API_KEY"');
	const [media, body] = Object.entries(op.requestBody?.content ?? {})[0] ?? [];
	if (media === 'application/json')
		lines.push(`-H 'Content-Type: application/json' -d '${JSON.stringify(sample(body!.schema, api))}'`);
	else if (media)
		lines.push(`-H 'Content-Type: ${media}' --data-binary @FILE`);
	return codeBlock(lines.join(' \\\n  ') + '\n', 'sh');
}

function who(op: Operation): string {
	const names = op.security.flatMap((s) => Object.keys(s));
	if (op.tags[0] === 'From inside a VM')
		return 'From inside a VM, through its agent; no key.';
	if (!names.length)
		return 'Without a key.';
	return names.includes('identityToken') ? 'With an API key or an identity token.' : names.includes('basic')
		? 'As Git does: a key or token as password; without one for public repositories.' : 'With an API key.';
}

function operation(method: string, route: string, op: Operation, api: OpenApi): string {
	const params = (op.parameters ?? []).map((p) => p.$ref ? api.components.parameters[nameOf(p.$ref)]! : p);
	let html = `<p class="route"><span class="method ${method}">${method.toUpperCase()}</span> <code>${esc(route)}</code></p>`;
	if (op.description)
		html += `<p>${esc(op.description)}</p>`;
	html += `<p class="words">${who(op)} <code>${esc(op.operationId)}</code></p>`;
	if (params.length)
		html += `<h3>Parameters</h3><div class="table" tabindex="0"><table class="members"><tbody>${params.map((p) =>
			`<tr><td><code>${esc(p.name)}</code> <span class="opt">${p.in}${p.required ? '' : ', optional'}</span></td>` +
			`<td>${typeText(p.schema)}${p.description ? `<br><span class="words">${esc(p.description)}</span>` : ''}</td></tr>`).join('')}</tbody></table></div>`;
	for (const [media, m] of Object.entries(op.requestBody?.content ?? {}))
		html += `<h3>Body</h3>${media === 'application/json' ? shape(m.schema) : `<p><code>${esc(media)}</code></p>`}`;
	const errors: string[] = [];
	for (const [status, r] of Object.entries(op.responses)) {
		if (r['x-codes']) {
			errors.push(`<tr><td>${status}</td><td>${r['x-codes'].map((c) => `<a href="/docs/errors"><code>${c}</code></a>`).join(' ')}</td></tr>`);
			continue;
		}
		html += `<h3>Reply ${status}</h3>`;
		for (const [media, m] of Object.entries(r.content ?? {}))
			html += media === 'application/json' ? shape(m.schema) : `<p><code>${esc(media)}</code></p>`;
		if (!r.content)
			html += `<p>${esc(r.description)}</p>`;
	}
	html += curl(method, route, op, params, api);
	if (errors.length)
		html += `<details><summary>Errors</summary><div class="table" tabindex="0"><table class="errors"><tbody>${errors.join('')}</tbody></table></div></details>`;
	return html;
}

const heading = (level: number, id: string, text: string) =>
	`<h${level} id="${id}">${esc(text)}<a class="anchor" href="#${id}" aria-label="Link to this heading">#</a></h${level}>`;

export type ApiPage = Rendered & { slug: string; title: string; markdown: string };

const empty = (slug: string, title: string): ApiPage => ({ slug, title, html: '', markdown: '', headings: [], sections: [], links: [] });

/** The overview, a page per section, and the types. */
export function apiPages(api: OpenApi): ApiPage[] {
	const slugOf = anchorMaker();
	const start = empty('api', 'API');
	const pages = [start];
	start.html = `<p>${esc(api.info.description)}</p><p>These pages are made from <a href="/openapi.json"><code>/openapi.json</code></a> ` +
		'(OpenAPI 3.1), which the server makes from its own table of routes. Named types are on <a href="/docs/api/types">a page of their own</a>, ' +
		'error codes <a href="/docs/errors">too</a>.</p>';
	start.markdown = `\n${api.info.description} The same for programs: /openapi.json (OpenAPI 3.1).\n`;
	for (const tag of api.tags) {
		const page = empty(`api/${slugOf(tag.name)}`, tag.name);
		pages.push(page);
		start.headings.push({ level: 2, id: page.slug.slice(4), text: tag.name });
		start.html += `${heading(2, page.slug.slice(4), tag.name)}<ul class="routes">`;
		start.markdown += `\n## ${tag.name}\n\n`;
		for (const [route, methods] of Object.entries(api.paths))
			for (const [method, op] of Object.entries(methods)) {
				if (op.tags[0] !== tag.name)
					continue;
				const id = op.operationId.toLowerCase();
				const names = (op.parameters ?? []).filter((p) => p.in === 'query').map((p) => p.name);
				const line = `- \`${method.toUpperCase()} ${route}\` (${op.operationId}): ${op.summary}${names.length ? `; query: ${names.join(', ')}` : ''}\n`;
				page.html += heading(2, id, op.summary) + operation(method, route, op, api);
				page.headings.push({ level: 2, id, text: op.summary });
				page.sections.push({ id, title: op.summary, text: `${method.toUpperCase()} ${route} ${op.operationId} ${names.join(' ')}` });
				page.markdown += `\n${line}`;
				start.markdown += line;
				start.html += `<li><a href="/docs/${page.slug}#${id}"><span class="method ${method}">${method.toUpperCase()}</span> <code>${esc(route)}</code> ` +
					`<span>${esc(op.summary)}</span></a></li>`;
			}
		start.html += '</ul>';
	}
	const types = empty('api/types', 'Types');
	pages.push(types);
	types.markdown = '\nThe named types of the API, as JSON Schema: `components.schemas` of /openapi.json.\n';
	for (const [name, s] of Object.entries(api.components.schemas)) {
		const id = name.toLowerCase();
		types.html += heading(2, id, name) + (shape(s) || '<p>object</p>');
		types.headings.push({ level: 2, id, text: name });
		types.sections.push({ id, title: name, text: Object.keys(s.properties ?? {}).join(' ') });
	}
	return pages;
}
