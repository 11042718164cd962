// SPDX-License-Identifier: Apache-2.0
// One run: how it is or how it ended, what it returned, what it said, what it was. The server tells of its start and its end.
import { useEffect } from 'preact/hooks';
import { plural } from '../../lib/format';
import { useData } from '../../lib/state';
import type { PageProps } from '../../routes';
import { CopyButton } from '../../ui/Button';
import { Ago, Badge, Card, Code, Empty, Failure, Loaded, PageHead, Progress, Skeleton } from '../../ui/parts';
import { CodeView } from '../vm/CodeView';
import { took } from './RunList';
import { kindOf, runPath, runState, scheduleAt, type RunDetail, type RunOutput } from './types';

const SHOWN = 100_000; // characters of a result

export default function RunPage({ params }: PageProps) {
	return <One key={params['run']} id={params['run'] as string} />;
}

function text(result: unknown): string {
	const s = typeof result === 'string' ? result : JSON.stringify(result, null, 2) ?? 'null';
	return s.length > SHOWN ? `${s.slice(0, SHOWN)}\n… and ${s.length - SHOWN} more characters` : s;
}

function Names({ of }: { of: Record<string, string> }) {
	const names = Object.keys(of);
	return names.length ? <>{names.map((n, i) => <span key={n}>{i > 0 && ', '}<code>{n}</code></span>)}</> : <span class="muted">none</span>;
}

function Output({ o, going }: { o: RunOutput; going: boolean }) {
	return (
		<>
			{o.error && <Card title="Why it failed"><pre class="ansi field-error">{o.error}</pre></Card>}
			{!going && !o.error && <Card title="Result" actions={<CopyButton text={text(o.result)} label="Copy the result" />}><Code text={text(o.result)} copy={false} /></Card>}
			<Card title="Log">{o.logs.length ? <div class="log-box" tabIndex={0} role="region" aria-label="Log"><ol class="log-lines">{o.logs.map((l, i) => <li key={i} class={l.type === 'error' ? 'bad' : ''}><span>{l.message}</span></li>)}</ol></div>
				: <p class="muted">{going ? 'It is shown when the run is over.' : 'The script printed nothing.'}</p>}</Card>
		</>
	);
}

function One({ id }: { id: string }) {
	const data = useData<RunDetail>(runPath(id), { on: ['run.*'], every: 500, poll: 20_000 });
	const output = useData<RunOutput>(`${runPath(id)}/output`, { on: ['run.*'], every: 500, poll: 20_000 });
	useEffect(() => {
		document.title = `${id} · Pando`;
	}, [id]);
	if (!data.data)
		return data.error ? (data.error.status === 404 ? <Empty icon="runs" title="There is no such run" action={<a class="button plain" href="/ui/runs">All runs</a>}>The newest 1000 of an account are kept.</Empty>
			: <Failure error={data.error} retry={data.reload} what="the run" />) : <Skeleton lines={8} />;
	const r = data.data.metadata;
	const state = runState(r);
	const going = r.state !== 'complete';
	const code = data.data.code;
	return (
		<div>
			<PageHead title={<span class="mono">{id}</span>} sub={<div class="vm-facts"><Badge kind={kindOf(state)}>{state}</Badge><span>asked for <Ago at={r.provisionedAt} /></span>{r.startedAt && <span>{going ? 'for' : 'took'} {took(r)}</span>}</div>} />
			<div class="vm-busy">{going && <Progress label="The script is running" />}</div>
			<div class="stack">
				<Loaded of={output} what="its output" lines={4}>{(o) => <Output o={o} going={going} />}</Loaded>
				<Card title="How it was run"><dl class="facts">
					<dt>Asked for by</dt><dd>{r.scheduleId ? <a href={scheduleAt(r.scheduleId)}>a schedule</a> : 'a request'}</dd>
					<dt>VM</dt><dd>{r.vmId && going ? <a href={`/ui/vms/${encodeURIComponent(r.vmId)}`}>{r.vmId}</a> : <span class="muted">{going ? 'not made yet' : 'deleted when it ended'}</span>}</dd>
					<dt>Variables</dt><dd><Names of={r.envVars} /></dd>
					<dt>Packages</dt><dd>{code && Object.keys(code.nodeModules).length ? Object.entries(code.nodeModules).map(([n, v], i) => <span key={n}>{i > 0 && ', '}<code>{n} {v}</code></span>) : <span class="muted">none</span>}</dd>
					{r.tags.length > 0 && <><dt>{plural(r.tags.length, 'Tag').replace(/^\S+ /, '')}</dt><dd>{r.tags.map((t) => <Badge key={t}>{t}</Badge>)}</dd></>}
				</dl></Card>
				<Card title="Script">{code ? <div class="stack-s"><CodeView text={code.code} language="ts" readOnly grow lineNumbers label="The script" /></div>
					: <p class="muted">It was not kept: the run asked for zero retention.</p>}</Card>
			</div>
		</div>
	);
}
