/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - the newest output of a detached process, in a file without a name
 *
 * The file is on disk, not in memory, so that a chatty process does not make every
 * freeze larger. It has no name: it ends with the agent, and nothing in the guest can replace it.
 * Bytes that cannot be written are lost as if they had been overwritten: offsets continue, and
 * readers see the gap.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/io.h"

int ring_open(struct ring *r, const char *dir)
{
	r->first = r->end = 0;
	r->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (r->fd < 0)
		r->fd = memfd_create("pando-output", MFD_CLOEXEC);
	return r->fd < 0 ? -errno : 0;
}

void ring_close(struct ring *r)
{
	if (r->fd >= 0)
		close(TAKE_FD(r->fd));
}

void ring_put(struct ring *r, const uint8_t *p, size_t n)
{
	while (n) {
		uint64_t at = r->end % AGENT_PROC_RING;
		size_t k = (size_t)MIN((uint64_t)n, AGENT_PROC_RING - at);

		r->end += k;
		if (io_pwrite_all(r->fd, p, k, (off_t)at) < 0)
			r->first = r->end;
		p += k;
		n -= k;
	}
	if (r->end - r->first > AGENT_PROC_RING)
		r->first = r->end - AGENT_PROC_RING;
}

size_t ring_get(const struct ring *r, uint64_t off, uint8_t *p, size_t n)
{
	uint64_t at = off % AGENT_PROC_RING;
	size_t k;

	if (off < r->first || off >= r->end)
		return 0;
	k = (size_t)MIN((uint64_t)n, MIN(r->end - off, AGENT_PROC_RING - at));
	return io_pread_all(r->fd, p, k, (off_t)at) < 0 ? 0 : k;
}
