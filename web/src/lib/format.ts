// SPDX-License-Identifier: Apache-2.0
// Figures and times as people read them.

export function bytes(n: number | null | undefined): string {
	if (n === null || n === undefined || !Number.isFinite(n))
		return '–';
	const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
	let i = 0;
	let v = Math.abs(n);
	while (v >= 1000 && i < units.length - 1) {
		v /= 1000;
		i++;
	}
	return (n < 0 ? '-' : '') + (i === 0 || v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2)) + ' ' + units[i];
}

export function mib(n: number | null | undefined): string {
	if (n === null || n === undefined)
		return '–';
	return n % 1024 === 0 ? `${n / 1024} GB` : `${n} MB`;
}

export function rate(n: number | null | undefined): string {
	return n === null || n === undefined ? '–' : bytes(n) + '/s';
}

export function count(n: number | null | undefined): string {
	return n === null || n === undefined ? '–' : n.toLocaleString('en-US');
}

export function plural(n: number, one: string, many = one + 's'): string {
	return `${count(n)} ${n === 1 ? one : many}`;
}

export function percent(n: number | null | undefined): string {
	return n === null || n === undefined ? '–' : (n < 10 ? n.toFixed(1) : n.toFixed(0)) + ' %';
}

/** 0.0123 s -> "12.3 ms" */
export function seconds(s: number | null | undefined): string {
	if (s === null || s === undefined || !Number.isFinite(s))
		return '–';
	if (s < 0.001)
		return (s * 1e6).toFixed(0) + ' µs';
	if (s < 1)
		return (s * 1000).toFixed(s < 0.01 ? 2 : s < 0.1 ? 1 : 0) + ' ms';
	if (s < 60)
		return s.toFixed(s < 10 ? 2 : 1) + ' s';
	return duration(s);
}

/** 3725 -> "1 h 2 min" */
export function duration(s: number | null | undefined): string {
	if (s === null || s === undefined || !Number.isFinite(s))
		return '–';
	s = Math.max(0, Math.round(s));
	if (s < 60)
		return s + ' s';
	if (s < 3600)
		return Math.floor(s / 60) + ' min' + (s < 600 && s % 60 ? ` ${s % 60} s` : '');
	if (s < 86400)
		return Math.floor(s / 3600) + ' h' + (Math.floor(s % 3600 / 60) ? ` ${Math.floor(s % 3600 / 60)} min` : '');
	return Math.floor(s / 86400) + ' d' + (Math.floor(s % 86400 / 3600) ? ` ${Math.floor(s % 86400 / 3600)} h` : '');
}

export function ago(iso: string | number | null | undefined, now = Date.now()): string {
	if (iso === null || iso === undefined)
		return '–';
	const t = typeof iso === 'number' ? iso : Date.parse(iso);
	if (!Number.isFinite(t))
		return '–';
	const s = (now - t) / 1000;
	if (s < -5)
		return 'in ' + duration(-s);
	return s < 5 ? 'just now' : duration(s) + ' ago';
}

/** Local date and time, to the second. */
export function dateTime(iso: string | number | null | undefined): string {
	if (iso === null || iso === undefined)
		return '–';
	const d = new Date(iso);
	if (Number.isNaN(d.getTime()))
		return '–';
	const p = (n: number): string => String(n).padStart(2, '0');
	return `${d.getFullYear()}-${p(d.getMonth() + 1)}-${p(d.getDate())} ${p(d.getHours())}:${p(d.getMinutes())}:${p(d.getSeconds())}`;
}

/** "14:02" of today, "Nov 18" of other days. */
export function shortTime(iso: string | number, now = Date.now()): string {
	const d = new Date(iso);
	if (Number.isNaN(d.getTime()))
		return '–';
	if (d.toDateString() === new Date(now).toDateString())
		return `${String(d.getHours()).padStart(2, '0')}:${String(d.getMinutes()).padStart(2, '0')}`;
	return d.toLocaleDateString('en-US', { month: 'short', day: 'numeric', ...(d.getFullYear() === new Date(now).getFullYear() ? {} : { year: 'numeric' }) });
}

/** A long id's beginning. */
export function shortId(id: string, n = 10): string {
	return id.length > n + 1 ? id.slice(0, n) + '…' : id;
}

/** What a VM is called: its name, or the beginning of its id. */
export function vmName(vm: { id: string; name?: string | null }): string {
	return vm.name || shortId(vm.id);
}
