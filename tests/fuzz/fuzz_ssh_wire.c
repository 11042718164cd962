/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ssh_wire.c - messages between pandod and pando-ssh, and frames of a channel's stream
 *
 * The first byte says who sent the rest, and whether it is a message or a frame. A message that is
 * accepted must come out as the same bytes again: then nothing in it was ignored. A frame that is
 * accepted lies within the input and is one that its sender may send.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/ssh.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void frame(const uint8_t *p, size_t n, enum sshw_from from)
{
	struct sshw_frame f;

	if (sshw_frame_decode(p, n, from, &f) < 0)
		return;
	assert(n >= 1 && f.kind == p[0] && f.p == p + 1 && f.n == n - 1 && f.n <= SSHW_CHUNK);
	assert(from == SSHW_HOST || f.kind == SSHW_DATA || f.kind == SSHW_EOF);
	assert((f.kind == SSHW_KILLED) == (f.name[0] != 0) && strlen(f.name) < sizeof(f.name));
}

static void message(const uint8_t *p, size_t n, enum sshw_from from)
{
	static struct sshw_msg m;
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	m = (struct sshw_msg){ 0 };
	if (sshw_decode(p, n, from, &m, &err) < 0) {
		assert(err.msg[0]);
		return;
	}
	assert(m.n_keys <= SSHW_KEYS_MAX && m.run < SSHW_RUN_END);
	assert(m.command.n <= SSHW_COMMAND_MAX && (from == SSHW_HOST || !m.n_keys));
	assert(!m.command.n || !memchr(m.command.p, 0, m.command.n));
	assert(strlen(m.user) < sizeof(m.user) && strlen(m.secret) < sizeof(m.secret));
	assert(strlen(m.value) < sizeof(m.value) && strlen(m.host) < sizeof(m.host));
	assert(sshw_encode(&m, &b, &err) == 0);
	assert(b.len == n && !memcmp(b.p, p, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum sshw_from from;

	if (!size)
		return 0;
	from = data[0] & 1 ? SSHW_CHILD : SSHW_HOST;
	if (data[0] & 2)
		frame(data + 1, size - 1, from);
	else
		message(data + 1, size - 1, from);
	return 0;
}
