/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - pandod itself, by the names that Prometheus' own libraries give such figures */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "metrics/metrics_internal.h"

#define STAT_MAX (1u << 20) /* bytes of a file of /proc: one has a line for each interrupt */

/* The number after a word at the beginning of a line, or 0. */
static double after(const char *file, const char *name)
{
	autofree char *text = NULL;
	const char *p;

	if (io_read_file(AT_FDCWD, file, STAT_MAX, &text, NULL) < 0)
		return 0;
	p = strstr(text, name);
	return p ? strtod(p + strlen(name), NULL) : 0;
}

/* Field n of /proc/self/stat, which count from 1; those from 3 on follow the name's last ')'. */
static double stat_field(const char *text, unsigned n)
{
	const char *p = strrchr(text, ')');

	for (unsigned i = 2; p && i < n; i++)
		p = strchr(p + 1, ' ');
	return p ? strtod(p + 1, NULL) : 0;
}

static unsigned open_fds(void)
{
	autodir DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n > 3 ? n - 3 : 0; /* ".", "..", and the one that reads */
}

void metrics_process(struct metrics_page *p)
{
	double tick = (double)sysconf(_SC_CLK_TCK), page = (double)sysconf(_SC_PAGESIZE);
	autofree char *text = NULL;
	struct rlimit lim = { 0 };
	struct timespec cpu = { 0 };

	if (io_read_file(AT_FDCWD, "/proc/self/stat", STAT_MAX, &text, NULL) == 0) {
		metrics_one(p, METRIC_PROCESS_THREADS, stat_field(text, 20));
		metrics_one(p, METRIC_PROCESS_RSS, stat_field(text, 24) * page);
		metrics_one(p, METRIC_PROCESS_START,
		            after("/proc/stat", "\nbtime ") + stat_field(text, 22) / tick);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	metrics_one(p, METRIC_PROCESS_CPU, (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
	metrics_one(p, METRIC_PROCESS_FDS, open_fds());
	getrlimit(RLIMIT_NOFILE, &lim);
	metrics_one(p, METRIC_PROCESS_MAX_FDS, (double)lim.rlim_cur);
}
