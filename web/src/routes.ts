// SPDX-License-Identifier: Apache-2.0
// The pages: one line each. A page's module is loaded when it is first shown; it exports a component as default, which
// gets the parameters of its path.
import type { ComponentType } from 'preact';

export interface PageProps { params: Record<string, string> }
export interface Route {
	path: string;
	title: string;
	load: () => Promise<{ default: ComponentType<PageProps> }>;
	/** Uses the whole width and height (the tree, terminals). */
	full?: boolean;
	/** Shown without signing in. */
	open?: boolean;
}

export const routes: Route[] = [
	{ path: '/ui/', title: 'Tree', load: () => import('./pages/tree/Tree'), full: true },
	{ path: '/ui/vms', title: 'VMs', load: () => import('./pages/vms') },
	{ path: '/ui/runs', title: 'Runs', load: () => import('./pages/runs/Runs') },
	{ path: '/ui/runs/run/:run', title: 'Run', load: () => import('./pages/runs/RunPage') },
	{ path: '/ui/runs/schedule/:schedule', title: 'Schedule', load: () => import('./pages/runs/SchedulePage') },
	{ path: '/ui/networks', title: 'Networks', load: () => import('./pages/networks/Networks') },
	{ path: '/ui/operate', title: 'Operate', load: () => import('./pages/operate/Operate') },
	{ path: '/ui/settings', title: 'Settings', load: () => import('./pages/settings/Settings') },
	{ path: '/ui/confirm', title: 'Sign in a program', load: () => import('./pages/confirm') },
	{ path: '/ui/confirm/:code', title: 'Sign in a program', load: () => import('./pages/confirm') },
	{ path: '/ui/vms/:id', title: 'VM', load: () => import('./pages/vm/VmPage') },
	{ path: '/ui/compare/:a/:b', title: 'Side by side', load: () => import('./pages/fork/Compare') },
	{ path: '/ui/git', title: 'Git', load: () => import('./pages/git/Repos') },
	{ path: '/ui/git/:repo', title: 'Repository', load: () => import('./pages/git/RepoPage') },
];
