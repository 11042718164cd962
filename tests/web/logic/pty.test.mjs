// SPDX-License-Identifier: Apache-2.0
// The client of a terminal session against a scripted socket and clock.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { PtyClient, backOff, ptyUrl } = await load('vm/pty.ts');

class Socket {
	sent = [];
	constructor(url) {
		this.url = url;
	}
	send(d) {
		this.sent.push(d);
	}
	close() {
		this.closed = true;
	}
	info(id) {
		this.onmessage({ data: JSON.stringify({ type: 'sessionInfo', sessionId: id }) });
	}
	bytes(text) {
		this.onmessage({ data: new TextEncoder().encode(text).buffer });
	}
}

function rig(wish = {}, vmState = 'running') {
	const r = { sockets: [], timers: [], tickets: [], log: [], data: [], vmState, there: true, refuse: null };
	const deps = {
		ticket: async (id) => {
			r.tickets.push(id);
			if (r.refuse)
				throw r.refuse;
			return `ws://server:1/v1/vms/x/pty${id ? '/sessions/' + id : ''}?ticket=t`;
		},
		socket: (url) => {
			const s = new Socket(url);
			r.sockets.push(s);
			return s;
		},
		vmState: () => r.vmState,
		exists: async () => r.there,
		later: (fn, ms) => {
			const t = { fn, ms, off: false };
			r.timers.push(t);
			return () => {
				t.off = true;
			};
		},
		random: () => 1,
	};
	r.client = new PtyClient({ cols: 80, rows: 24, watch: false, ...wish }, 'https://dash.example/ui/vms/x', deps, {
		data: (b, picture) => r.data.push([new TextDecoder().decode(b), picture]),
		state: (s) => r.log.push(s),
		session: (id) => {
			r.session = id;
		},
	});
	r.last = () => r.sockets[r.sockets.length - 1];
	r.settle = () => new Promise((ok) => setImmediate(ok));
	return r;
}

test('opens with a ticket on the page\'s own host, then has the name it was given', async () => {
	const r = rig();
	await r.client.connect();
	assert.equal(r.last().url, 'wss://dash.example/v1/vms/x/pty?ticket=t&cols=80&rows=24');
	r.last().info('pty-3');
	assert.equal(r.session, 'pty-3');
	assert.deepEqual(r.log, ['connecting', 'open']);
	assert.deepEqual(r.tickets, [undefined]);
});

test('the first bytes after each attach are a picture, later ones are output', async () => {
	const r = rig({ sessionId: 'pty-1' });
	await r.client.connect();
	r.last().info('pty-1');
	r.last().bytes('screen');
	r.last().bytes('more');
	r.last().onclose({ code: 1006, reason: '' });
	await r.settle();
	assert.equal(r.client.state, 'waiting');
	r.timers[0].fn();
	await r.settle();
	r.last().info('pty-1');
	r.last().bytes('screen again');
	assert.deepEqual(r.data, [['screen', true], ['more', false], ['screen again', true]]);
	assert.deepEqual(r.tickets, ['pty-1', 'pty-1']);
});

test('waits longer each time, and never longer than 15 s', () => {
	assert.ok(backOff(1, 1) > backOff(0, 1));
	assert.ok(backOff(0, 0) < backOff(0, 1));
	assert.equal(backOff(30, 1), 15000);
});

test('a VM that was suspended is not woken; it is attached to when it runs again', async () => {
	const r = rig({ sessionId: 'pty-1' });
	await r.client.connect();
	r.last().info('pty-1');
	r.vmState = 'suspended';
	r.last().onclose({ code: 1001, reason: '' });
	await r.settle();
	assert.equal(r.client.state, 'asleep');
	assert.equal(r.timers.length, 0);
	r.vmState = 'running';
	r.client.vmChanged();
	await r.settle();
	assert.equal(r.sockets.length, 2);
});

test('what is typed into a sleeping session wakes it and is not lost', async () => {
	const r = rig({ sessionId: 'pty-1' }, 'suspended');
	r.client.begin();
	assert.equal(r.client.state, 'asleep');
	assert.equal(r.sockets.length, 0);
	r.client.send('l');
	r.client.send('s');
	await r.settle();
	assert.equal(r.sockets.length, 1);
	r.last().info('pty-1');
	assert.equal(r.last().sent.map((b) => new TextDecoder().decode(b)).join(''), 'ls');
});

test('a program that ended is not attached to again', async () => {
	const r = rig({ sessionId: 'pty-1' });
	await r.client.connect();
	r.last().info('pty-1');
	r.last().onmessage({ data: '{"type":"exited","exitCode":3}' });
	r.last().onclose({ code: 1000, reason: '' });
	await r.settle();
	assert.equal(r.client.state, 'exited');
	assert.equal(r.client.exitCode, 3);
	assert.equal(r.timers.length, 0);
});

test('a session that is gone, and a key that was revoked, end it', async () => {
	const r = rig({ sessionId: 'pty-9' });
	r.there = false;
	await r.client.connect();
	r.last().onclose({ code: 1006, reason: '' });
	await r.settle();
	assert.equal(r.client.state, 'exited');
	const s = rig({ sessionId: 'pty-1' });
	await s.client.connect();
	s.last().info('pty-1');
	s.last().onclose({ code: 1008, reason: 'the key was revoked' });
	await s.settle();
	assert.equal(s.client.state, 'failed');
	const t = rig();
	t.refuse = { status: 403, code: 'FORBIDDEN', message: 'no' };
	await t.client.connect();
	assert.equal(t.client.state, 'failed');
});

test('a new session that did not open is not opened twice', async () => {
	const r = rig();
	await r.client.connect();
	r.last().onclose({ code: 1006, reason: '' });
	await r.settle();
	assert.equal(r.client.state, 'failed');
	assert.equal(r.timers.length, 0);
});

test('the size is sent once per change; a watcher sends neither size nor keys', async () => {
	const r = rig({ sessionId: 'pty-1' });
	await r.client.connect();
	r.last().info('pty-1');
	r.client.resize(80, 24);
	r.client.resize(100, 30);
	assert.deepEqual(r.last().sent, ['{"type":"resize","cols":100,"rows":30}']);
	const w = rig({ sessionId: 'pty-1', watch: true });
	await w.client.connect();
	w.last().info('pty-1');
	w.client.resize(10, 10);
	w.client.send('x');
	assert.deepEqual(w.last().sent, []);
});

test('a long paste goes in pieces below the server\'s limit', async () => {
	const r = rig({ sessionId: 'pty-1' });
	await r.client.connect();
	r.last().info('pty-1');
	r.client.send('x'.repeat(200_000));
	assert.ok(r.last().sent.length >= 4);
	assert.ok(r.last().sent.every((b) => b.length <= 65536));
	assert.equal(r.last().sent.reduce((n, b) => n + b.length, 0), 200_000);
});

test('frames that are not ours are ignored', async () => {
	const r = rig({ sessionId: 'pty-1' });
	await r.client.connect();
	r.last().onmessage({ data: 'not json' });
	r.last().onmessage({ data: '{"type":"other"}' });
	assert.equal(r.client.state, 'connecting');
});

test('a ticket that names another host is used on this one', () => {
	assert.equal(new URL(ptyUrl('ws://evil:9/v1/vms/x/pty?ticket=t', 'http://a:1/', { cols: 1, rows: 2, watch: false, exec: 'a b' }, false)).host, 'a:1');
});
