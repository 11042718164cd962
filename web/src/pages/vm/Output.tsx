// SPDX-License-Identifier: Apache-2.0
/*
 * Output.tsx - what a cell showed
 *
 * All of it comes from a guest. Text goes into text nodes, images into <img> (which runs no script). A table in HTML is read by the browser's
 * inert parser and shown as a table of this page; any other HTML is put in a frame that may do nothing: no scripts, no origin.
 */
import { useMemo, useState } from 'preact/hooks';
import { bytes } from '../../lib/format';
import { Button, LinkButton } from '../../ui/Button';
import { AnsiText } from './AnsiText';
import { imageSource, richest, type Piece } from './notebook';
import { fromText, segment, shown } from './paths';

const MAX_ROWS = 500;

interface TableData { head: string[][]; rows: string[][]; caption: string }

/** The only table of some HTML, as texts; null if the HTML is anything else. */
export function tableOf(html: string): TableData | null {
	/* Only its texts are wanted; styles would be refused, and reported, by the page's policy even here. */
	const plain = html.replace(/<style[\s\S]*?<\/style\s*>/gi, '').replace(/<[a-z][^>]*>/gi, (tag) => tag.replace(/\sstyle\s*=\s*("[^"]*"|'[^']*'|[^\s>]+)/gi, ''));
	const doc = new DOMParser().parseFromString(plain, 'text/html');
	const tables = doc.querySelectorAll('table');
	const table = tables[0];
	if (tables.length !== 1 || !table || doc.querySelector('img, svg, iframe, form, video, [colspan]:not([colspan="1"]), [rowspan]:not([rowspan="1"])'))
		return null;
	const texts = (rows: Iterable<Element>): string[][] => [...rows].map((r) => [...r.querySelectorAll('th, td')].map((c) => (c.textContent ?? '').trim()));
	const head = texts(table.querySelectorAll('thead tr'));
	const rows = texts([...table.querySelectorAll('tr')].filter((r) => !r.closest('thead')));
	doc.querySelectorAll('style, script').forEach((e) => e.remove());
	table.remove();
	const rest = (doc.body.textContent ?? '').replace(/\s+/g, ' ').trim();
	return rows.length || head.length ? { head, rows, caption: rest.slice(0, 200) } : null;
}

function TableView({ of }: { of: TableData }) {
	return (
		<div class="cell-table" tabIndex={0} role="region" aria-label="Table">
			<table>
				<thead>{of.head.map((r, i) => <tr key={i}>{r.map((c, k) => <th key={k} scope="col">{c}</th>)}</tr>)}</thead>
				<tbody>{of.rows.slice(0, MAX_ROWS).map((r, i) => <tr key={i}>{r.map((c, k) => k === 0 && of.head.length ? <th key={k} scope="row">{c}</th> : <td key={k}>{c}</td>)}</tr>)}</tbody>
			</table>
			{(of.rows.length > MAX_ROWS || of.caption) && <small class="muted">{of.rows.length > MAX_ROWS ? `The first ${MAX_ROWS} of ${of.rows.length} rows. ` : ''}{of.caption}</small>}
		</div>
	);
}

function Html({ html }: { html: string }) {
	const table = useMemo(() => tableOf(html), [html]);
	if (table)
		return <TableView of={table} />;
	return <iframe class="cell-frame" title="HTML result, without scripts" sandbox="" srcdoc={html} referrerpolicy="no-referrer" />;
}

function Result({ data }: { data: Record<string, string> }) {
	const forms = Object.keys(data);
	const [form, setForm] = useState(() => richest(data));
	const value = data[form] ?? '';
	const image = form.startsWith('image/') ? imageSource(form, value) : null;
	return (
		<div class="cell-result">
			{image ? <a href={image} download={`result.${form.slice(6).replace('+xml', '')}`} title="Save the image"><img src={image} alt={data['text/plain'] ? `Image: ${data['text/plain'].slice(0, 120)}` : 'Image made by the cell'} /></a>
				: form === 'text/html' ? <Html html={value} />
					: <AnsiText text={value} class="out" />}
			{forms.length > 1 && <div class="cell-forms">{forms.map((f) => <Button key={f} small kind="quiet" pressed={f === form} onClick={() => setForm(f)}>{f}</Button>)}</div>}
		</div>
	);
}

export function PieceView({ piece, vmId }: { piece: Piece; vmId: string }) {
	switch (piece.kind) {
	case 'stdout':
		return <AnsiText text={piece.text} class="out" />;
	case 'stderr':
		return <AnsiText text={piece.text} class="out err" />;
	case 'result':
		return <Result data={piece.data} />;
	case 'error':
		return (
			<div class="cell-error" role="alert">
				<b>{piece.name}</b>{piece.value && <span>: {piece.value}</span>}
				{piece.traceback && <AnsiText text={piece.traceback} label="Traceback" />}
			</div>
		);
	case 'file': {
		const raw = fromText(piece.path);
		return <div class="cell-file"><LinkButton small icon="download" kind="quiet" download={shown(raw.slice(raw.lastIndexOf('/') + 1))}
			href={`/v1/vms/${encodeURIComponent(vmId)}/raw-files/${segment(raw)}`}>{shown(raw)}</LinkButton><span class="muted">{bytes(piece.size)}</span></div>;
	}
	case 'note':
		return <p class="cell-note">{piece.text}</p>;
	}
}
