// SPDX-License-Identifier: Apache-2.0
// Signing in with an API key or identity token. The field is cleared as soon as it was sent.
import { useState } from 'preact/hooks';
import { ApiError, messageOf } from '../lib/api';
import { downSince } from '../lib/connection';
import { sessionExpired, signIn } from '../lib/session';
import { Button } from '../ui/Button';
import { Logo } from '../ui/Layout';
import { Code } from '../ui/parts';

/* Only places of this page: "//host" and "https:" would lead elsewhere. */
export function safeNext(next: string | null): string {
	return next && /^\/ui(\/|$)/.test(next) && !next.startsWith('/ui/login') ? next : '/ui/';
}

export default function Login() {
	const [credential, setCredential] = useState('');
	const [error, setError] = useState<string | null>(null);
	const [busy, setBusy] = useState(false);
	const submit = async (e: Event): Promise<void> => {
		e.preventDefault();
		const c = credential.trim();
		if (!c || busy)
			return;
		setBusy(true);
		setError(null);
		try {
			await signIn(c);
			setCredential(''); /* main.tsx leads on from here */
		} catch (err) {
			setError(err instanceof ApiError && (err.status === 401 || err.status === 403) && !err.message.includes(' ')
				? 'That key or token is not known to this server.' : messageOf(err));
			setBusy(false);
			document.getElementById('credential')?.focus();
		}
	};
	return (
		<main class="login">
			<div class="login-box">
				<div class="login-brand"><Logo size={44} /><h1>Pando</h1></div>
				{sessionExpired.value && <p class="note info" role="status">Your session has ended. Sign in again and go on where you were.</p>}
				{downSince.value !== null && <p class="note warn" role="alert">The server does not answer. Trying again.</p>}
				<form onSubmit={submit}>
					<label class="field"><span>API key or identity token</span>
						<input id="credential" type="password" autocomplete="off" autofocus spellcheck={false} value={credential} aria-invalid={!!error} aria-describedby={error ? 'login-error' : undefined}
							onInput={(e) => setCredential(e.currentTarget.value)} /></label>
					<p id="login-error" class="field-error" role="alert">{error}</p>
					<Button type="submit" kind="primary" busy={busy} disabled={!credential.trim()}>Sign in</Button>
				</form>
				<p class="muted small">The key is sent once and not kept in the browser. The server wrote the first one here:</p>
				<Code text="sudo cat /var/lib/pando/api-key" />
			</div>
		</main>
	);
}
