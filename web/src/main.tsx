// SPDX-License-Identifier: Apache-2.0
// The dashboard: session first, then the page that the address names. Pages are loaded on demand; a page that fails
// leaves the frame standing (ErrorBoundary).
import './style/main.css';
import { Component, render, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from './lib/api';
import { comeback, downSince } from './lib/connection';
import { startEvents } from './lib/events';
import { match, navigate, place, startRouter } from './lib/route';
import { followTabs, loadSession, sessionState } from './lib/session';
import Login, { safeNext } from './pages/login';
import NotFound from './pages/notfound';
import { routes, type PageProps, type Route } from './routes';
import { Button } from './ui/Button';
import { Layout } from './ui/Layout';
import { Code, Empty, Skeleton } from './ui/parts';
import { Toasts } from './ui/Toast';

class ErrorBoundary extends Component<{ children: ComponentChildren; at: string }, { error: unknown; at: string }> {
	override state = { error: null as unknown, at: this.props.at };
	override componentDidCatch(error: unknown): void {
		console.error(error);
		this.setState({ error, at: this.props.at });
	}
	override render() {
		if (this.state.error && this.state.at === this.props.at)
			return <Empty icon="warning" title="This page failed" action={<Button icon="refresh" onClick={() => location.reload()}>Load it again</Button>}>
				It is a mistake in the dashboard, not in your VMs. If it comes back, report it with this text:<br /><Code text={messageOf(this.state.error)} /></Empty>;
		return this.props.children;
	}
}

type Page = ComponentType<PageProps>;
const loaded = new Map<Route, Page>();

/* A page's module. After an upgrade of the server the old names of modules are gone: then the whole page is loaded
 * again, once. */
async function load(route: Route): Promise<Page> {
	try {
		const page = (await route.load()).default;
		loaded.set(route, page);
		sessionStorage.removeItem('pando.reloaded');
		return page;
	} catch (e) {
		if (downSince.peek() === null && !sessionStorage.getItem('pando.reloaded')) {
			sessionStorage.setItem('pando.reloaded', '1');
			location.reload();
			await new Promise(() => undefined);
		}
		throw e;
	}
}

function PageOf({ route, params }: { route: Route; params: Record<string, string> }) {
	const [, setVersion] = useState(0);
	const [error, setError] = useState<unknown>(null);
	const page = loaded.get(route);
	useEffect(() => {
		setError(null);
		let gone = false;
		if (!loaded.has(route))
			load(route).then(() => !gone && setVersion((v) => v + 1), (e) => !gone && setError(e));
		return () => {
			gone = true;
		};
	}, [route, comeback.value]);
	if (error && !page)
		return <Empty icon="warning" title="The page could not be loaded" action={<Button icon="refresh" onClick={() => location.reload()}>Load again</Button>}>{messageOf(error)}</Empty>;
	if (!page)
		return <Skeleton lines={8} />;
	const P = page;
	return <P params={params} />;
}

function App() {
	const path = place.value.path;
	const state = sessionState.value;
	const first = useRef(true);
	let route: Route | null = null;
	let params: Record<string, string> = {};
	for (const r of routes) {
		const m = match(r.path, path);
		if (m) {
			route = r;
			params = m;
			break;
		}
	}
	const title = path === '/ui/login' ? 'Sign in' : route?.title ?? 'Not found';
	useEffect(() => {
		document.title = `${title} · Pando`;
		/* A new page takes the focus, so that keyboards and screen readers start at its top. */
		if (!first.current && !document.querySelector('dialog[open]'))
			document.getElementById('main')?.focus({ preventScroll: true });
		first.current = false;
	}, [path, title]);
	useEffect(() => {
		if (state === 'out' && path !== '/ui/login') {
			const here = place.peek().path + (place.peek().query.toString() ? '?' + place.peek().query.toString() : '');
			navigate(here === '/ui/' ? '/ui/login' : `/ui/login?next=${encodeURIComponent(here)}`, { replace: true });
		} else if (state === 'in' && place.peek().path === '/ui/login') {
			navigate(safeNext(place.peek().query.get('next')), { replace: true });
		}
	}, [state, path]);
	if (state === 'unknown')
		return downSince.value === null ? <div class="boot" role="status" aria-label="Loading" />
			: <main class="login"><div class="login-box"><p class="note warn" role="alert"><span class="spinner" aria-hidden="true" /> The server does not answer. Trying again.</p></div></main>;
	if (state === 'out' || path === '/ui/login')
		return <Login />;
	return <Layout full={route?.full}><ErrorBoundary at={path}>{route ? <PageOf route={route} params={params} key={route.path} /> : <NotFound />}</ErrorBoundary></Layout>;
}

if (location.hash.startsWith('#again='))
	history.replaceState(null, '', location.pathname + location.search);
startRouter();
startEvents();
followTabs();
void loadSession();
let seen = 0;
comeback.subscribe((n) => {
	if (n > seen)
		void loadSession();
	seen = n;
});
render(<><ErrorBoundary at="app"><App /></ErrorBoundary><Toasts /></>, document.getElementById('app') as HTMLElement);
