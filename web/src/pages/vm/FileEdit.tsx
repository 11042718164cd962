// SPDX-License-Identifier: Apache-2.0
/* FileEdit.tsx - one file of a VM: as text in the editor, as a picture, or only to download */
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ApiError, messageOf } from '../../lib/api';
import { bytes } from '../../lib/format';
import { Button, LinkButton } from '../../ui/Button';
import { Badge, Empty, Failure, Skeleton } from '../../ui/parts';
import { confirmOnce, failed, notify } from '../../ui/Toast';
import { CodeView } from './CodeView';
import { languageOf } from './language';
import { base, decodeText, segment, shown, type RawPath } from './paths';
import { upload } from './upload';

const MAX_EDIT = 2_000_000;
const PICTURES: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', svg: 'image/svg+xml', bmp: 'image/bmp', ico: 'image/x-icon' };

interface Loaded { text: string | null; picture: string | null; size: number; etag: string | null }

export function FileEdit({ vmId, path, onClose }: { vmId: string; path: RawPath; onClose(): void }) {
	const url = `/v1/vms/${encodeURIComponent(vmId)}/raw-files/${segment(path)}`;
	const name = shown(base(path));
	const [file, setFile] = useState<Loaded | null>(null);
	const [error, setError] = useState<unknown>(null);
	const [version, setVersion] = useState(0);
	const [dirty, setDirty] = useState(false);
	const text = useRef('');
	const etag = useRef<string | null>(null);

	const load = async (): Promise<void> => {
		try {
			const head = await api.raw(url, { method: 'HEAD' });
			const size = Number(head.headers.get('content-length') ?? 0);
			const picture = PICTURES[name.slice(name.lastIndexOf('.') + 1).toLowerCase()] ?? null;
			if (size > MAX_EDIT && !picture) {
				setFile({ text: null, picture: null, size, etag: null });
				return;
			}
			const res = await api.raw(url);
			const body = new Uint8Array(await res.arrayBuffer());
			etag.current = res.headers.get('etag');
			const t = picture && picture !== 'image/svg+xml' ? null : decodeText(body);
			text.current = t ?? '';
			setFile({ text: t, picture: picture ? URL.createObjectURL(new Blob([body], { type: picture })) : null, size: body.length, etag: etag.current });
			setVersion((v) => v + 1);
			setDirty(false);
			setError(null);
		} catch (e) {
			setError(e);
		}
	};
	useEffect(() => {
		void load();
	}, [url]);
	useEffect(() => () => {
		if (file?.picture)
			URL.revokeObjectURL(file.picture);
	}, [file?.picture]);
	useEffect(() => {
		if (!dirty)
			return undefined;
		const stay = (e: BeforeUnloadEvent): void => e.preventDefault();
		addEventListener('beforeunload', stay);
		return () => removeEventListener('beforeunload', stay);
	}, [dirty]);

	const save = async (): Promise<void> => {
		const now = await api.raw(url, { method: 'HEAD' }).then((r) => r.headers.get('etag'), (e) => {
			if (e instanceof ApiError && e.status === 404)
				return null;
			throw e;
		});
		if (etag.current !== null && now !== etag.current) {
			const yes = await confirmOnce(now === null ? `${name} was deleted meanwhile` : `${name} was changed meanwhile`,
				{ text: 'Somebody or something in the VM changed it since it was opened here. Saving replaces that.', action: 'Replace it', danger: true });
			if (!yes)
				return;
		}
		const sent = text.current;
		await upload(url, new Blob([sent]), () => undefined).done;
		etag.current = (await api.raw(url, { method: 'HEAD' })).headers.get('etag');
		setDirty(text.current !== sent);
		notify(`${name} was saved.`, { kind: 'good' });
	};
	const close = async (): Promise<void> => {
		if (!dirty || await confirmOnce('Discard your changes?', { text: `${name} was not saved.`, action: 'Discard', danger: true }))
			onClose();
	};

	return (
		<div class="file-edit">
			<div class="files-bar">
				<Button small kind="quiet" icon="left" onClick={close}>Back</Button>
				<h2 class="file-title" title={shown(path)}>{shown(path)}</h2>
				{dirty && <Badge kind="warn">not saved</Badge>}
				<span class="spacer" />
				{file && <span class="muted">{bytes(file.size)}</span>}
				<LinkButton small icon="download" href={url} download={name}>Download</LinkButton>
				<Button small icon="refresh" label="Load again" onClick={async () => {
					if (!dirty || await confirmOnce('Load the file again?', { text: 'Your changes are lost.', action: 'Load', danger: true }))
						await load();
				}} />
				{file?.text !== null && <Button small kind="primary" icon="check" title="Ctrl-S" disabled={!dirty} onClick={save}>Save</Button>}
			</div>
			{error ? <Failure error={error instanceof ApiError ? error : new ApiError(0, 'FILE', messageOf(error))} retry={load} what={name} />
				: !file ? <Skeleton height={400} />
					: <>
						{file.picture && <div class="picture"><img src={file.picture} alt={name} /></div>}
						{file.text !== null ? <CodeView class="file-code" text={file.text} version={version} language={languageOf(name, file.text.slice(0, 200).split('\n')[0])} label={`Contents of ${name}`}
							onChange={(t) => {
								text.current = t;
								setDirty(t !== file.text || version === 0);
							}} onSave={() => void save().catch(failed)} />
							: !file.picture && <Empty icon="file" title={file.size > MAX_EDIT ? 'Too large to edit here' : 'Not a text'}>Download it, or open it in a terminal.</Empty>}
					</>}
		</div>
	);
}
