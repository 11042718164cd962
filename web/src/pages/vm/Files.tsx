// SPDX-License-Identifier: Apache-2.0
/*
 * Files.tsx - the files of a VM: browse, edit, up and down
 *
 * The directory is part of the address (?path=), the open file too (?file=). Names are bytes (paths.ts). A save is checked against the file's ETag
 * of when it was read: what somebody else changed meanwhile is not overwritten without a question.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ApiError, messageOf } from '../../lib/api';
import { bytes } from '../../lib/format';
import { place, setQuery } from '../../lib/route';
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Icon } from '../../ui/Icon';
import { Menu } from '../../ui/Menu';
import { Ago, Empty, Failure, Field, Progress, Skeleton } from '../../ui/parts';
import { confirmOnce, failed, notify, pending, undoable } from '../../ui/Toast';
import { FileEdit } from './FileEdit';
import { badName, base, command, crumbs, fromAddress, fromText, inAddress, join, listCommand, normal, parent, parseListing, segment, shown, sorted, type Entry, type RawPath, type SortKey } from './paths';
import { awake, type Vm, word } from './types';
import { dropped, upload, type Dropped } from './upload';

interface Sending { id: number; name: string; sent: number; total: number; error?: string; abort(): void }
interface Ran { stdout: string; stderr: string; statusCode: number }

export const fileUrl = (vmId: string, path: RawPath): string => `/v1/vms/${encodeURIComponent(vmId)}/raw-files/${segment(path)}`;

export async function runIn(vmId: string, cmd: string): Promise<Ran> {
	return await api.post<Ran>(`/v1/vms/${encodeURIComponent(vmId)}/exec-await`, { command: cmd, timeoutMs: 60_000 });
}

async function must(vmId: string, cmd: string): Promise<string> {
	const r = await runIn(vmId, cmd);
	if (r.statusCode !== 0)
		throw new Error(r.stderr.trim().split('\n')[0] || `The command ended with ${r.statusCode}.`);
	return r.stdout;
}

let ids = 0;

function NameDialog(p: { title: string; value: string; action: string; onClose(): void; onDone(name: string): Promise<void> }) {
	const [name, setName] = useState(p.value);
	const wrong = badName(name);
	return (
		<Dialog title={p.title} onClose={p.onClose} small>
			<form onSubmit={(e) => {
				e.preventDefault();
				if (!wrong)
					p.onDone(name).then(p.onClose, failed);
			}}>
				<Field label="Name" hint={name && wrong}><input value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></Field>
				<div class="dialog-actions"><Button onClick={p.onClose}>Cancel</Button><Button kind="primary" type="submit" disabled={!!wrong}>{p.action}</Button></div>
			</form>
		</Dialog>
	);
}

export function Files({ vm, onWake }: { vm: Vm; onWake: () => Promise<unknown> }) {
	const dir = normal(fromAddress(place.value.query.get('path') ?? '/root'));
	const open = place.value.query.get('file');
	const [list, setList] = useState<Entry[] | null>(null);
	const [at, setAt] = useState<RawPath | null>(null);
	const [error, setError] = useState<unknown>(null);
	const [hidden, setHidden] = useState(false);
	const [by, setBy] = useState<SortKey>('name');
	const [down, setDown] = useState(false);
	const [asking, setAsking] = useState<{ kind: 'folder' | 'file' } | { kind: 'rename'; entry: Entry } | null>(null);
	const [sending, setSending] = useState<Sending[]>([]);
	const [over, setOver] = useState(false);
	const pick = useRef<HTMLInputElement>(null);
	const wanted = useRef(dir);
	wanted.current = dir;

	const load = async (): Promise<void> => {
		const path = dir;
		try {
			const entries = parseListing(await must(vm.id, listCommand(path)));
			if (wanted.current !== path)
				return;
			setList(entries);
			setAt(path);
			setError(null);
		} catch (e) {
			if (wanted.current !== path)
				return;
			setError(e);
			setList(null);
			setAt(path);
		}
	};
	useEffect(() => {
		if (awake(vm))
			void load();
	}, [dir, awake(vm)]);

	const go = (path: RawPath): void => setQuery({ path: inAddress(path), file: null });
	const send = async (all: Dropped[]): Promise<void> => {
		const there = new Set(at === dir ? list?.map((e) => e.raw) : []);
		const clash = [...new Set(all.map((d) => d.path.split('/')[0] as string))].filter((n) => there.has(fromText(n)));
		if (clash.length && !await confirmOnce(`Replace ${clash.length === 1 ? clash[0] : `${clash.length} files`}?`, { text: 'Something with this name is here already.', action: 'Replace', danger: true }))
			return;
		const dirs = [...new Set(all.map((d) => d.path.slice(0, d.path.lastIndexOf('/') + 1)).filter(Boolean))];
		const to = dir;
		for (let i = 0; i < dirs.length; i += 50)
			await must(vm.id, command('mkdir -p --', ...dirs.slice(i, i + 50).map((d) => join(to, fromText(d)))));
		for (const d of all) {
			const id = ++ids;
			const u = upload(fileUrl(vm.id, join(to, fromText(d.path))), d.file, (sent, total) => setSending((s) => s.map((x) => x.id === id ? { ...x, sent, total } : x)));
			setSending((s) => [...s, { id, name: d.path, sent: 0, total: d.file.size, abort: u.abort }]);
			try {
				await u.done;
				setSending((s) => s.filter((x) => x.id !== id));
			} catch (e) {
				if ((e as { name?: string }).name === 'AbortError')
					setSending((s) => s.filter((x) => x.id !== id));
				else
					setSending((s) => s.map((x) => x.id === id ? { ...x, error: messageOf(e) } : x));
			}
		}
		notify(all.length === 1 ? `${all[0]?.path} was uploaded.` : `${all.length} files were uploaded.`, { kind: 'good' });
		await load();
	};
	const remove = (e: Entry): void => {
		const path = join(dir, e.raw);
		undoable(`Deleting ${shown(e.raw)}`, async () => {
			await api.del(`${fileUrl(vm.id, path)}?recursive=true`);
			await load();
		}, { key: `file:${vm.id}:${path}` });
	};
	const make = async (name: string): Promise<void> => {
		if (asking?.kind === 'rename')
			await must(vm.id, command('mv -nT --', join(dir, asking.entry.raw), join(dir, fromText(name))) + ' && [ ! -e "$a0" -a ! -L "$a0" ] || { echo "there is something with that name already" >&2; exit 1; }');
		else if (asking?.kind === 'folder')
			await must(vm.id, command('mkdir --', join(dir, fromText(name))));
		else {
			const path = join(dir, fromText(name));
			if (list?.some((e) => e.raw === fromText(name)))
				throw new Error('There is something with that name already.');
			await upload(fileUrl(vm.id, path), new Blob([]), () => undefined).done;
			setQuery({ file: inAddress(path) });
		}
		await load();
	};

	if (!awake(vm))
		return <Empty icon="folder" title={`The VM is ${vm.state}`} action={<Button kind="primary" icon="resume" onClick={onWake}>{vm.state === 'stopped' ? 'Start it' : 'Resume it'}</Button>}>Looking at its files resumes it.</Empty>;
	if (open !== null) {
		const path = normal(fromAddress(open));
		return <FileEdit key={path} vmId={vm.id} path={path} onClose={() => {
			setQuery({ file: null, path: inAddress(parent(path)) });
			void load();
		}} />;
	}
	const sort = (key: SortKey): void => {
		setDown(by === key ? !down : key !== 'name');
		setBy(key);
	};
	const head = (key: SortKey, title: string, cls = '') => <th class={cls} aria-sort={by === key ? (down ? 'descending' : 'ascending') : undefined}>
		<button type="button" class="sort" onClick={() => sort(key)}>{title}{by === key && <Icon name={down ? 'down' : 'up'} size={12} />}</button></th>;
	const rows = list ? sorted(list, by, down, hidden).filter((e) => !pending.value.has(`file:${vm.id}:${join(dir, e.raw)}`)) : [];
	const unseen = list && !hidden ? list.filter((e) => e.raw.startsWith('.')).length : 0;
	const fresh = at === dir;
	return (
		<div class={`files ${over ? 'over' : ''}`} onDragOver={(e) => {
			if (e.dataTransfer?.types.includes('Files')) {
				e.preventDefault();
				setOver(true);
			}
		}} onDragLeave={(e) => {
			if (!e.currentTarget.contains(e.relatedTarget as Node | null))
				setOver(false);
		}} onDrop={(e) => {
			e.preventDefault();
			setOver(false);
			if (e.dataTransfer)
				dropped(e.dataTransfer).then(send).catch(failed);
		}}>
			<div class="files-bar">
				<nav class="crumbs" aria-label="Directory"><ol>{crumbs(dir).map((c, i, all) => <li key={c.path}>
					{i === all.length - 1 ? <span aria-current="location">{shown(c.name)}</span> : <button type="button" class="link" onClick={() => go(c.path)}>{shown(c.name)}</button>}</li>)}</ol></nav>
				<span class="spacer" />
				<Button small icon="plus" onClick={() => setAsking({ kind: 'folder' })}>Folder</Button>
				<Button small icon="plus" onClick={() => setAsking({ kind: 'file' })}>File</Button>
				<Button small kind="primary" icon="up" onClick={() => pick.current?.click()}>Upload</Button>
				<input ref={pick} type="file" multiple hidden aria-label="Files to upload" onChange={(e) => {
					const all = [...e.currentTarget.files ?? []].map((file) => ({ path: file.name, file }));
					e.currentTarget.value = '';
					if (all.length)
						send(all).catch(failed);
				}} />
				<Menu label="More" items={[
					{ label: hidden ? 'Hide hidden files' : 'Show hidden files', icon: 'list', run: () => setHidden(!hidden) },
					{ label: 'Download as tar.gz', icon: 'download', run: () => {
						const a = document.createElement('a');
						a.href = `/v1/vms/${encodeURIComponent(vm.id)}/tar/${segment(dir)}?gzip=true`;
						a.download = `${shown(base(dir)) || 'root'}.tar.gz`;
						a.click();
					} },
					{ label: 'Reload', icon: 'refresh', run: load },
				]} />
			</div>
			{sending.length > 0 && <ul class="sendings" aria-label="Uploads">{sending.map((s) => <li key={s.id}>
				<span class="grow">{s.name}</span><span class="muted">{s.error ?? `${bytes(s.sent)} of ${bytes(s.total)}`}</span>
				<Button small kind="quiet" icon="close" label={`Stop ${s.name}`} onClick={() => s.error ? setSending((x) => x.filter((y) => y.id !== s.id)) : s.abort()} />
				{!s.error && <Progress value={s.total ? s.sent / s.total : null} label={`Upload of ${s.name}`} />}
			</li>)}</ul>}
			{fresh && error ? <Failure error={error instanceof ApiError ? error : new ApiError(0, 'FILES', messageOf(error))} retry={load} what={shown(dir)} />
				: !fresh && !list ? <Skeleton lines={10} />
					: <div class={`table-box ${fresh ? '' : 'stale'}`}><table class="table file-table" aria-label={`Files in ${shown(dir)}`}>
						<thead><tr>{head('name', 'Name', 'grow')}{head('size', 'Size', 'end')}{head('mtime', 'Changed')}<th class="hide-narrow">Mode</th><th class="hide-narrow">Owner</th><th><span class="off-screen">Actions</span></th></tr></thead>
						<tbody>
							{dir !== '/' && <tr><td class="grow"><button type="button" class="link file-name" onClick={() => go(parent(dir))}><Icon name="folder" size={16} /><span>..</span></button></td><td class="end" /><td /><td class="hide-narrow" /><td class="hide-narrow" /><td /></tr>}
							{rows.slice(0, 2000).map((e) => {
								const path = join(dir, e.raw), isDir = e.kind === 'directory' || e.toDirectory, name = shown(e.raw);
								return (
									<tr key={e.raw}>
										<td class="grow"><button type="button" class="link file-name" disabled={e.kind === 'other'} onClick={() => isDir ? go(path) : setQuery({ file: inAddress(path) })}>
											<Icon name={isDir ? 'folder' : e.kind === 'symlink' ? 'open' : 'file'} size={16} /><span>{name}</span></button>
										{e.kind === 'symlink' && <span class="muted file-target"> → {shown(e.target)}</span>}</td>
										<td class="end" data-title="Size">{e.kind === 'file' ? bytes(e.size) : ''}</td>
										<td data-title="Changed"><Ago at={e.mtimeMs} /></td>
										<td class="hide-narrow mono">{e.mode}</td><td class="hide-narrow">{shown(e.owner)}</td>
										<td class="end"><Menu label={`More for ${name}`} items={[
											isDir ? { label: 'Download as tar.gz', icon: 'download', run: () => save(`/v1/vms/${encodeURIComponent(vm.id)}/tar/${segment(path)}?gzip=true`, `${name}.tar.gz`) }
												: { label: 'Download', icon: 'download', disabled: e.kind === 'other', run: () => save(fileUrl(vm.id, path), name) },
											{ label: 'Rename', icon: 'settings', run: () => setAsking({ kind: 'rename', entry: e }) },
											{ label: 'Delete', icon: 'trash', danger: true, run: () => remove(e) },
										]} /></td>
									</tr>
								);
							})}
						</tbody>
					</table>
					{rows.length > 2000 && <p class="muted pad">The first 2,000 of {rows.length} entries. Use a terminal for the rest.</p>}
					{fresh && list && !rows.length && <Empty icon="folder" title={unseen ? 'Only hidden files here' : 'Nothing here'} action={unseen ? <Button onClick={() => setHidden(true)}>Show hidden files</Button> : undefined}
						commands={[{ title: 'Fill it', code: `pando cp ./file ${word(vm)}:${shown(dir)}/` }]}>Drop files here to upload them.</Empty>}
					</div>}
			<p class="files-foot muted">{fresh && list ? `${rows.length} ${rows.length === 1 ? 'entry' : 'entries'}${unseen ? `, ${unseen} hidden` : ''}. Drop files or folders anywhere here to upload them.` : ''}</p>
			{asking && <NameDialog title={asking.kind === 'rename' ? `Rename ${shown(asking.entry.raw)}` : asking.kind === 'folder' ? 'New folder' : 'New file'}
				value={asking.kind === 'rename' ? shown(asking.entry.raw) : ''} action={asking.kind === 'rename' ? 'Rename' : 'Create'} onClose={() => setAsking(null)} onDone={make} />}
			{over && <div class="drop-here" aria-hidden="true">Upload to {shown(dir)}</div>}
		</div>
	);
}

function save(href: string, name: string): void {
	const a = document.createElement('a');
	a.href = href;
	a.download = name;
	a.click();
}
