// SPDX-License-Identifier: Apache-2.0
// /ui/confirm/CODE: a program asks to be signed in (pando login --web, freestyle login). The page shows what asks and from
// where; nothing happens until a person says yes.
import { useState } from 'preact/hooks';
import { api, url } from '../lib/api';
import { dateTime } from '../lib/format';
import { navigate } from '../lib/route';
import { currentAccount } from '../lib/session';
import { useData } from '../lib/state';
import type { PageProps } from '../routes';
import { Button } from '../ui/Button';
import { Ago, Card, Empty, Field, Loaded } from '../ui/parts';

interface Asking { code: string; client: string; address: string; createdAt: string; expiresAt: string; state: string }

export function EnterCode() {
	const [code, setCode] = useState('');
	return (
		<div class="confirm"><Card title="Sign in a program"><form onSubmit={(e) => {
			e.preventDefault();
			navigate(url`/ui/confirm/${code.trim().toUpperCase()}`);
		}}>
			<Field label="Code" hint="The program that asks shows it, for example ABCD-EFGH."><input value={code} required autocomplete="off" spellcheck={false} maxLength={12} class="mono" onInput={(e) => setCode(e.currentTarget.value)} /></Field>
			<Button type="submit" kind="primary">Next</Button>
		</form></Card></div>
	);
}

export default function Confirm({ params }: PageProps) {
	const code = params['code'] ?? '';
	const data = useData<Asking>(code ? url`/v1/login-requests/by-code/${code}` : null);
	const [done, setDone] = useState<'yes' | 'no' | null>(null);
	if (!code)
		return <EnterCode />;
	const answer = async (yes: boolean): Promise<void> => {
		await api.post(yes ? url`/v1/login-requests/by-code/${code}/confirm` : url`/v1/login-requests/by-code/${code}/deny`);
		setDone(yes ? 'yes' : 'no');
	};
	if (done)
		return <Empty icon={done === 'yes' ? 'check' : 'close'} title={done === 'yes' ? 'It is signed in' : 'It was turned away'}>{done === 'yes' ? 'You can close this page and go on in the program. Its key is under Settings, where you can revoke it.' : 'It gets no key. If you did not start it, no harm was done.'}</Empty>;
	return (
		<div class="confirm">
			<Loaded of={data} what="this request">{(r) => r.state !== 'pending' ? (
				<Empty icon="info" title={`This code is ${r.state}`}>Start again in the program to get a new one.</Empty>
			) : (
				<Card title="A program wants to be signed in">
					<div class="confirm-code mono" aria-label="Code">{r.code}</div>
					<p>Go on only if the program shows exactly this code, and if you started it yourself.</p>
					<dl class="facts">
						<dt>Program</dt><dd><b>{r.client}</b></dd>
						<dt>From</dt><dd class="mono">{r.address}</dd>
						<dt>Asked</dt><dd title={dateTime(r.createdAt)}><Ago at={r.createdAt} /></dd>
						<dt>It gets</dt><dd>an API key for the account <b>{currentAccount.value?.name ?? currentAccount.value?.id}</b></dd>
					</dl>
					<div class="dialog-actions"><Button onClick={() => answer(false)}>Turn it away</Button><Button kind="primary" icon="check" onClick={() => answer(true)}>Sign it in</Button></div>
				</Card>
			)}</Loaded>
		</div>
	);
}
