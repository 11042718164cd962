/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_untar.c - any bytes as an archive that the agent unpacks
 *
 * A thread with a root directory of its own unpacks, as the agent's child does, so that no archive
 * reaches this host's files; it empties the directory after each input. Checksums of headers are
 * made right first unless byte 0 is odd, or hardly any input would get further.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/io.h"
#include "tests/fuzz/fuzz.h"

#define BLOCK 512u
#define SUM_AT 148u
#define MAGIC_AT 257u

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int fd; /* of the archive; -1: nothing to do */
	bool owners, begun;
	int result;
	char dir[64], msg[AGENT_MSG_MAX];
} job = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, .fd = -1 };

static void empty(void)
{
	DIR *d = opendir("/");
	struct dirent *e;

	must(d != NULL);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			io_remove_tree(AT_FDCWD, e->d_name, NULL);
	closedir(d);
}

static void *unpacker(void *arg)
{
	if (unshare(CLONE_FS) < 0 || chroot(job.dir) < 0 || chdir("/") < 0) {
		perror("fuzz_untar: a root directory of its own");
		exit(1);
	}
	pthread_mutex_lock(&job.lock);
	for (;;) {
		while (job.fd < 0)
			pthread_cond_wait(&job.changed, &job.lock);
		job.result = untar(job.fd, job.owners, job.msg, sizeof(job.msg));
		must(job.result == 0 || job.msg[0]);
		empty();
		close(TAKE_FD(job.fd));
		pthread_cond_broadcast(&job.changed);
	}
	return NULL;
}

static void remove_dir(void)
{
	rmdir(job.dir);
}

static void begin(void)
{
	pthread_t t;

	if (job.begun)
		return;
	job.begun = true;
	umask(022);
	snprintf(job.dir, sizeof(job.dir), "/tmp/pando-untar-XXXXXX");
	must(mkdtemp(job.dir) != NULL);
	atexit(remove_dir);
	must(pthread_create(&t, NULL, unpacker, NULL) == 0);
}

static void fix_sum(uint8_t *h)
{
	char text[8];
	unsigned sum = 0;

	if (memcmp(h + MAGIC_AT, "ustar", 5) != 0)
		return;
	memset(h + SUM_AT, ' ', sizeof(text));
	for (unsigned i = 0; i < BLOCK; i++)
		sum += h[i];
	snprintf(text, sizeof(text), "%06o", sum);
	memcpy(h + SUM_AT, text, sizeof(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size };
	uint8_t flags = in_u8(&in);
	autofree uint8_t *copy = malloc(in.n + 1);
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	begin();
	must(copy && fd >= 0);
	if (in.n)
		memcpy(copy, in.p, in.n);
	for (size_t i = 0; !(flags & 1) && i + BLOCK <= in.n; i += BLOCK)
		fix_sum(copy + i);
	must(!in.n || io_pwrite_all(fd, copy, in.n, 0) == 0);
	pthread_mutex_lock(&job.lock);
	job.fd = fd;
	job.owners = flags & 2;
	job.msg[0] = '\0';
	pthread_cond_broadcast(&job.changed);
	while (job.fd >= 0)
		pthread_cond_wait(&job.changed, &job.lock);
	pthread_mutex_unlock(&job.lock);
	return 0;
}
