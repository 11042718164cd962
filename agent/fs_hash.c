/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_hash.c - hashes of file contents
 *
 * XXH3 with 128 bits: fast even on an emulated processor. It does not have to resist a guest
 * that lies about itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define HASH_CHUNK (256u << 10)

/* 0 or a positive errno that fits a byte. */
static uint8_t hash_file(const char *path, uint8_t ret[AGENT_HASH_LEN])
{
	static uint8_t chunk[HASH_CHUNK];
	static XXH3_state_t state;
	XXH128_canonical_t c;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	ssize_t n = 0;
	int e = 0;

	if (fd < 0)
		return (uint8_t)errno;
	if (fstat(fd, &st) < 0)
		e = errno;
	else if (!S_ISREG(st.st_mode))
		e = EINVAL;
	XXH3_128bits_reset(&state);
	while (!e && ((n = read(fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			XXH3_128bits_update(&state, chunk, (size_t)n);
	if (!e && n < 0)
		e = errno;
	close(fd);
	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(&state));
	memcpy(ret, c.digest, AGENT_HASH_LEN);
	return (uint8_t)e;
}

static void hash_all(const struct job_fds *fds, const struct agent_hash_req *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		uint8_t rec[1 + AGENT_HASH_LEN] = { 0 };
		int k;

		rec[0] = hash_file(r->path[i], rec + 1);
		k = io_write_all(fds->out, rec, sizeof(rec));
		if (k < 0)
			child_fail(fds, -k, AGENT_TAG_NONE, "hash: %s", err_name(k));
	}
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}

void hash_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_hash_req r;
	struct job_fds fds;
	struct stream *s;
	int k;

	if (agent_hash_req_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed hash request");
		return;
	}
	s = stream_new(a, id, AGENT_OP_FS_HASH);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return;
	}
	k = job_fork(a, s, JOB_OUT, &fds);
	if (k == 1)
		hash_all(&fds, &r);
	if (k < 0)
		stream_result(a, s, (uint32_t)-k, AGENT_TAG_SPAWN_FAILED, "cannot start a process",
		              NULL, 0);
}
