// SPDX-License-Identifier: Apache-2.0
// Who is signed in. The credential is sent once and never kept; the cookie is HttpOnly, so all that the page knows is
// what GET /v1/session says. state: 'unknown' until that is answered, then 'in' or 'out'. All tabs of a browser have the same
// cookie: one that signs in, out or into another account tells the others, which ask who they are now.
import { batch, computed, signal } from '@preact/signals';
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

/* Goes up with every change of who is signed in. What was asked under an earlier number says nothing about the session of now:
 * a request that was on its way when somebody signed in again is refused for the session that had ended. */
let epoch = 0;
export const sessionEpoch = (): number => epoch;

function set(s: Session | null): void {
	epoch++;
	batch(() => {
		session.value = s;
		sessionState.value = s ? 'in' : 'out';
		if (s)
			sessionExpired.value = false;
	});
}

/* Only that something changed is said, and nothing of what it is. */
const tabs = 'BroadcastChannel' in globalThis ? new BroadcastChannel('pando.session') : null;
function setAndTell(s: Session | null): void {
	set(s);
	tabs?.postMessage('changed');
}

/** A request that was sent in this epoch was answered with 401. */
export function sessionEnded(asked: number): void {
	if (session.peek() && asked === epoch) {
		sessionExpired.value = true;
		set(null);
	}
}

/** At start and after the server was away. Leaves everything as it is if the server does not answer. */
export async function loadSession(): Promise<void> {
	const asked = epoch;
	try {
		const s = await api.get<Session>('/v1/session');
		if (asked === epoch)
			set(s);
	} catch (e) {
		if (e instanceof ApiError && e.offline || asked !== epoch)
			return;
		if (session.peek()) {
			sessionEnded(asked);
			return;
		}
		/* There is a cookie, but no session any more: the page was loaded again after it had ended. */
		sessionExpired.value = e instanceof ApiError && e.status === 401 && e.code === 'UNAUTHORIZED';
		set(null);
	}
}

export async function signIn(credential: string): Promise<void> {
	setAndTell(await api.post<Session>('/v1/session', { credential }, { twice: true }));
}

export async function signOut(everywhere: boolean): Promise<void> {
	try {
		await api.del(everywhere ? '/v1/sessions' : '/v1/session', undefined, { twice: true });
	} catch (e) {
		if (!(e instanceof ApiError && e.status === 401)) /* it has ended already, perhaps by the first of two tries */
			throw e;
	}
	setAndTell(null);
}

/** An operator looks at another account; null: back to their own. */
export async function actAs(accountId: string | null): Promise<void> {
	const s = await api.put<Session | undefined>('/v1/session/account', { accountId });
	if (s && s.csrf)
		set(s);
	else
		await loadSession();
	tabs?.postMessage('changed');
}

/** Follows what other tabs of this browser do to the session. */
export function followTabs(): void {
	tabs?.addEventListener('message', () => void loadSession());
}
