// SPDX-License-Identifier: Apache-2.0
/*
 * egress.ts - rules of an egress policy as lines that people type, and back
 *
 *     allow *.example.org 443 8000-8080
 *     deny 203.0.113.0/24
 *     allow *                              everything
 */

export interface Rule { action: 'allow' | 'deny'; domain?: string; cidr?: string; ports?: (number | string)[] }
export interface Inject { domain: string; headers: Record<string, string> }
export interface Policy { mode: 'open' | 'closed' | 'rules'; rules: Rule[]; inject: Inject[]; bandwidth?: { upMbps?: number; downMbps?: number } }

export function ruleLine(r: Rule): string {
	return [r.action, r.domain ?? r.cidr ?? '*', ...(r.ports ?? []).map(String)].join(' ');
}

/** The rules of a text, or what is wrong with it, and in which line. */
export function parseRules(text: string): { rules: Rule[]; error: string } {
	const rules: Rule[] = [];
	for (const [i, line] of text.split('\n').entries()) {
		const words = line.replace(/#.*/, '').trim().split(/[\s,]+/).filter(Boolean);
		if (!words.length)
			continue;
		const bad = (why: string): { rules: Rule[]; error: string } => ({ rules: [], error: `Line ${i + 1}: ${why}` });
		const [action, what, ...ports] = words;
		if (action !== 'allow' && action !== 'deny')
			return bad('a rule begins with allow or deny');
		if (!what)
			return bad('a name such as *.example.org, a range such as 203.0.113.0/24, or * is missing');
		const wrong = ports.find((p) => !/^\d{1,5}(-\d{1,5})?$/.test(p));
		if (wrong !== undefined)
			return bad(`"${wrong}" is not a port or a range of ports`);
		const r: Rule = { action };
		if (/^[0-9a-fA-F:.]+(\/\d+)?$/.test(what) && /[.:/]/.test(what))
			r.cidr = what;
		else if (what !== '*')
			r.domain = what;
		if (ports.length)
			r.ports = ports.map((p) => p.includes('-') ? p : Number(p));
		rules.push(r);
	}
	return { rules, error: '' };
}
