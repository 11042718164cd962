// SPDX-License-Identifier: Apache-2.0
/* Settings.tsx - what is set for a VM: name, tags, idleness, end of life, variables */
import { useState } from 'preact/hooks';
import { api } from '../../lib/api';
import { bytes, dateTime, duration, mib } from '../../lib/format';
import { Button, CopyButton } from '../../ui/Button';
import { Badge, Card, Field } from '../../ui/parts';
import { failed, notify } from '../../ui/Toast';
import { runIn } from './Files';
import { awake, type Vm } from './types';

/** "k=v" lines; what is wrong, or "". */
export function parsePairs(text: string): { pairs: Record<string, string>; error: string } {
	const pairs: Record<string, string> = {};
	for (const [i, line] of text.split('\n').entries()) {
		if (!line.trim())
			continue;
		const at = line.indexOf('=');
		if (at < 1)
			return { pairs: {}, error: `Line ${i + 1} is not of the form name=value` };
		pairs[line.slice(0, at).trim()] = line.slice(at + 1).trim();
	}
	return { pairs, error: '' };
}

function Env({ vm }: { vm: Vm }) {
	const [list, setList] = useState<[string, string][] | null>(null);
	const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
	const load = async (): Promise<void> => {
		const r = await runIn(vm.id, 'cat /etc/pando/environment 2>/dev/null; :');
		setList(r.stdout.split(/[\n\0]/).filter((l) => l.includes('=')).map((l) => [l.slice(0, l.indexOf('=')), l.slice(l.indexOf('=') + 1)]));
	};
	return (
		<Card title="Variables" actions={awake(vm) ? <Button small onClick={load}>{list ? 'Again' : 'Show'}</Button> : undefined}>
			{!list ? <p class="muted">{awake(vm) ? 'Kept in the guest; values are masked until you ask for one.' : `The VM is ${vm.state}; they are read from the guest.`}</p>
				: !list.length ? <p class="muted">None. They are given with <code>env</code> when a VM is created.</p>
					: <dl class="facts">{list.map(([k, v]) => <><dt class="mono">{k}</dt><dd class="row"><span class="mono">{seen.has(k) ? v : '••••••••'}</span>
						<Button small kind="quiet" onClick={() => setSeen((s) => {
							const n = new Set(s);
							if (!n.delete(k))
								n.add(k);
							return n;
						})}>{seen.has(k) ? 'Hide' : 'Show'}</Button><CopyButton text={v} label={`Copy ${k}`} /></dd></>)}</dl>}
		</Card>
	);
}

export function Settings({ vm, reload }: { vm: Vm; reload: () => Promise<void> }) {
	const [name, setName] = useState(vm.name ?? '');
	const [tags, setTags] = useState(vm.tags.join(', '));
	const [metadata, setMetadata] = useState(Object.entries(vm.metadata).map(([k, v]) => `${k}=${v}`).join('\n'));
	const [idle, setIdle] = useState(vm.idleTimeoutSeconds === null ? '' : String(vm.idleTimeoutSeconds));
	const [threshold, setThreshold] = useState(String(vm.activityThresholdBytes));
	const [counts, setCounts] = useState(vm.countExecAsActivity);
	const [life, setLife] = useState('');
	const pairs = parsePairs(metadata);
	const patch = async (body: Record<string, unknown>, what: string): Promise<void> => {
		await api.patch(`/v1/vms/${encodeURIComponent(vm.id)}`, body);
		await reload();
		notify(what, { kind: 'good' });
	};
	return (
		<div class="stack">
			<Card title="Name and tags">
				<form class="form" onSubmit={(e) => {
					e.preventDefault();
					if (!pairs.error)
						patch({ name: name.trim() || null, tags: tags.split(',').map((t) => t.trim()).filter(Boolean), metadata: pairs.pairs }, 'Saved.').catch(failed);
				}}>
					<Field label="Name"><input value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
					<Field label="Tags" hint="Separated by commas."><input value={tags} onInput={(e) => setTags(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
					<Field label="Metadata" hint={pairs.error ? <span class="bad-text">{pairs.error}</span> : 'One name=value per line.'}><textarea class="mono" rows={3} value={metadata} onInput={(e) => setMetadata(e.currentTarget.value)} spellcheck={false} /></Field>
					<div class="row"><Button kind="primary" type="submit" disabled={!!pairs.error}>Save</Button></div>
				</form>
			</Card>
			<Card title="When idle">
				<form class="form" onSubmit={(e) => {
					e.preventDefault();
					patch({ idleTimeoutSeconds: idle.trim() === '' ? null : Number(idle), activityThresholdBytes: Number(threshold), countExecAsActivity: counts }, 'Saved.').catch(failed);
				}}>
					<Field label="Suspend after seconds" hint="Empty: never."><input type="number" min={1} value={idle} onInput={(e) => setIdle(e.currentTarget.value)} /></Field>
					<Field label="Bytes of traffic that count as activity" hint="Per check, every 2 s."><input type="number" min={0} value={threshold} onInput={(e) => setThreshold(e.currentTarget.value)} /></Field>
					<label class="check"><input type="checkbox" checked={counts} onChange={(e) => setCounts(e.currentTarget.checked)} /> Running commands, cells and terminals keep it awake</label>
					<div class="row"><Button kind="primary" type="submit">Save</Button></div>
				</form>
			</Card>
			<Card title="End of life">
				<form class="form" onSubmit={(e) => {
					e.preventDefault();
					patch({ deleteAfterSeconds: life === '' ? null : Number(life) }, life === '' ? 'It has no end now.' : `It is deleted in ${duration(Number(life))}.`).then(() => setLife('')).catch(failed);
				}}>
					<p>{vm.deleteAt ? <>Deleted at <b>{dateTime(vm.deleteAt)}</b>.</> : 'It lives until it is deleted.'}</p>
					<Field label="Delete after seconds, from now" hint="Empty: never."><input type="number" min={1} value={life} onInput={(e) => setLife(e.currentTarget.value)} placeholder="3600" /></Field>
					<div class="row"><Button kind={life ? 'danger' : 'primary'} type="submit">{life ? 'Set the end' : 'Remove the end'}</Button></div>
				</form>
			</Card>
			<Env vm={vm} />
			<Card title="Facts">
				<dl class="facts">
					<dt>Id</dt><dd class="row"><code>{vm.id}</code><CopyButton text={vm.id} label="Copy the id" /></dd>
					<dt>Size</dt><dd>{vm.sizing.vcpuCount} vCPU, {mib(vm.sizing.memSizeMib)} memory, {mib(vm.sizing.rootfsSizeMb)} disk</dd>
					<dt>Persistence</dt><dd>{vm.persistence.type}{vm.persistence.type === 'sticky' ? `, priority ${vm.persistence.priority ?? 5}: may be evicted when the disk is full` : ''}{vm.persistence.type === 'ephemeral' ? `: deleted ${vm.persistence.deleteEvent === 'OnStop' ? 'when stopped' : 'when suspended or stopped'}` : ''}</dd>
					<dt>Created again after a delete</dt><dd>{vm.recreate ? 'yes' : 'no'}</dd>
					<dt>Made from</dt><dd>{vm.parentVmId ? <>a fork of <a href={`/ui/vms/${encodeURIComponent(vm.parentVmId)}`}><code>{vm.parentVmId}</code></a></> : vm.snapshotId ? <>snapshot <code>{vm.snapshotId}</code></> : 'the base image'}{vm.buildId && <>, build <code>{vm.buildId}</code></>}</dd>
					<dt>Working directory</dt><dd>{vm.workdir ?? 'the home directory'}</dd>
					<dt>Access to itself</dt><dd>{vm.selfAccess ? <Badge kind="warn">on</Badge> : 'off'}</dd>
					<dt>Used so far</dt><dd>{duration(vm.usage.cpuSeconds)} CPU, {vm.usage.memoryGbSeconds.toFixed(0)} GB·s memory, {bytes(vm.usage.diskReadBytes)} read, {bytes(vm.usage.diskWriteBytes)} written</dd>
				</dl>
			</Card>
		</div>
	);
}
