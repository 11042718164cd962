// SPDX-License-Identifier: Apache-2.0
// Who is signed in. The credential is sent once and never kept; the cookie is HttpOnly, so all that the page knows is
// what GET /v1/session says. state: 'unknown' until that is answered, then 'in' or 'out'.
import { computed, signal } from '@preact/signals';
import { api, ApiError } from './api';

export interface Named { id: string; name: string | null }
export interface Session {
	account: Named;
	identity: { id: string } | null;
	operator: boolean;
	actingAs: Named | null;
	csrf: string;
	expiresAt: string | null;
}

export const session = signal<Session | null>(null);
export const sessionState = signal<'unknown' | 'in' | 'out'>('unknown');
/** The session ended while the page was in use: the login page says so. */
export const sessionExpired = signal(false);
/** The account whose things are shown. */
export const currentAccount = computed<Named | null>(() => session.value?.actingAs ?? session.value?.account ?? null);
export const isOperator = computed(() => session.value?.operator === true);

export function csrfToken(): string | null {
	return session.peek()?.csrf ?? null;
}

function set(s: Session | null): void {
	session.value = s;
	sessionState.value = s ? 'in' : 'out';
	if (s)
		sessionExpired.value = false;
}

export function sessionEnded(): void {
	if (session.peek()) {
		sessionExpired.value = true;
		set(null);
	}
}

/** At start and after the server was away. Leaves everything as it is if the server does not answer. */
export async function loadSession(): Promise<void> {
	try {
		set(await api.get<Session>('/v1/session'));
	} catch (e) {
		if (e instanceof ApiError && e.offline)
			return;
		if (session.peek())
			sessionEnded();
		else
			set(null);
	}
}

export async function signIn(credential: string): Promise<void> {
	set(await api.post<Session>('/v1/session', { credential }));
}

export async function signOut(everywhere: boolean): Promise<void> {
	await api.del(everywhere ? '/v1/sessions' : '/v1/session');
	set(null);
}

/** An operator looks at another account; null: back to their own. */
export async function actAs(accountId: string | null): Promise<void> {
	const s = await api.put<Session | undefined>('/v1/session/account', { accountId });
	if (s && s.csrf)
		set(s);
	else
		await loadSession();
}
