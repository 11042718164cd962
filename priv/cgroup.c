/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/cgroup.c - cgroup v2 or v1 directories of VMs
 *
 * Mounts are found in /proc/self/mountinfo, not assumed. On v2 the instance's
 * directory is at the top of the hierarchy: a VM must survive the service
 * that started it, and the unit's own cgroup is emptied when the unit stops. On
 * v1 it is below our own group of each controller. The chosen directories
 * are recorded in the run directory, because a later start may run in another group.
 */
#include "priv/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/instance.h"

#define OVERHEAD_MB 512        /* QEMU itself, its translation cache, page tables */
#define PIDS_BASE 128u         /* QEMU's I/O threads (64), main, layer writer, spare */
#define CPU_SHARES 1024ull     /* of v1: what one thread has */
#define CPU_PERIOD_US 100000u  /* kernel default */
#define CPU_EXTRA_PERCENT 50u  /* of one CPU, for QEMU's own threads */
#define DROP_TRIES 50          /* a group is busy for a moment after its last process */
#define DROP_PAUSE_NS 2000000L /* between tries */
#define MOUNTINFO_MAX (1u << 20)

static const char *const ctl_name[CG_CTLS] = {
	[CG_MEMORY] = "memory",
	[CG_CPU] = "cpu",
	[CG_PIDS] = "pids",
};

static int put(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX + 64];
	autofd int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
}

static int put_u64(const char *dir, const char *file, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)v);
	return put(dir, file, text);
}

static bool has_word(const char *list, const char *word, const char *sep)
{
	size_t n = strlen(word);

	while (*list) {
		size_t k = strcspn(list, sep);

		if (k == n && !strncmp(list, word, n))
			return true;
		list += k;
		list += strspn(list, sep);
	}
	return false;
}

/* ---- finding mounts ---- */

/* One line of mountinfo: "id parent dev root point opts [tags] - type source super". */
struct mnt {
	char *root, *point, *type, *super;
};

static bool mnt_parse(char *line, struct mnt *ret)
{
	char *dash = strstr(line, " - "), *save = NULL;

	if (!dash)
		return false;
	*dash = '\0';
	for (int i = 0; i < 5; i++) {
		char *w = strtok_r(i ? NULL : line, " ", &save);

		if (!w)
			return false;
		if (i == 3)
			ret->root = w;
		if (i == 4)
			ret->point = w;
	}
	ret->type = strtok_r(dash + 3, " ", &save);
	ret->super = strtok_r(NULL, " ", &save) ? strtok_r(NULL, " ", &save) : NULL;
	return ret->type && ret->super;
}

/* Our own group in the hierarchy of a v1 controller, as seen below its mount. */
static void own_group(const char *ctl, const struct mnt *m, char *ret, size_t size)
{
	autofree char *text = NULL;
	char *line, *save = NULL;
	const char *path = "/";

	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", MOUNTINFO_MAX, &text, NULL) == 0)
		for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			char *names = strchr(line, ':');
			char *p = names ? strchr(names + 1, ':') : NULL;

			if (!p)
				continue;
			*p++ = '\0';
			if (has_word(names + 1, ctl, ","))
				path = p;
		}
	if (strcmp(m->root, "/") != 0)
		path = !strncmp(path, m->root, strlen(m->root)) ? path + strlen(m->root) : "";
	snprintf(ret, size, "%s%s", m->point, strcmp(path, "/") != 0 ? path : "");
}

struct found {
	char v2[PATH_MAX];
	char v1[CG_CTLS][PATH_MAX];
};

static void find_mounts(struct found *f)
{
	autofree char *text = NULL;
	char *line, *save = NULL;

	if (io_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL) < 0)
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct mnt m = { 0 };

		if (!mnt_parse(line, &m))
			continue;
		if (!strcmp(m.type, "cgroup2") && !f->v2[0])
			snprintf(f->v2, sizeof(f->v2), "%s", m.point);
		if (strcmp(m.type, "cgroup") != 0)
			continue;
		for (int i = 0; i < CG_CTLS; i++)
			if (!f->v1[i][0] && has_word(m.super, ctl_name[i], ","))
				own_group(ctl_name[i], &m, f->v1[i], sizeof(f->v1[i]));
	}
}

/* ---- choosing ---- */

static bool make_dir(const char *parent, const char *tag, char ret[PATH_MAX])
{
	if (snprintf(ret, PATH_MAX, "%s/pando-%s", parent, tag) < PATH_MAX &&
	    (mkdir(ret, 0755) == 0 || errno == EEXIST))
		return true;
	ret[0] = '\0';
	return false;
}

static bool try_v2(struct cgroups *c, const char *mount, const char *tag)
{
	static const char all[] = "+memory +cpu +pids\n";
	autofree char *have = NULL;
	char path[PATH_MAX + 32];

	if (!mount[0])
		return false;
	snprintf(path, sizeof(path), "%s/cgroup.controllers", mount);
	if (io_read_file(AT_FDCWD, path, 4096, &have, NULL) < 0)
		return false;
	for (int i = 0; i < CG_CTLS; i++)
		if (!has_word(have, ctl_name[i], " \n"))
			return false;
	if (put(mount, "cgroup.subtree_control", all) < 0 || !make_dir(mount, tag, c->base[0]))
		return false;
	if (put(c->base[0], "cgroup.subtree_control", all) < 0) {
		rmdir(c->base[0]);
		c->base[0][0] = '\0';
		return false;
	}
	return true;
}

static bool try_v1(struct cgroups *c, const struct found *f, const char *tag)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	bool any = false;

	for (int i = 0; i < CG_CTLS; i++)
		if (f->v1[i][0] && make_dir(f->v1[i], tag, c->base[i]))
			any = true;
	/* Threads that are in no group are its rivals, pandod's among them: all VMs together would
	 * weigh as much as one of those. */
	if (c->base[CG_CPU][0] && cpus > 1)
		(void)put_u64(c->base[CG_CPU], "cpu.shares", CPU_SHARES * (uint64_t)cpus);
	return any;
}

static void describe(struct cgroups *c)
{
	int n;

	switch (c->mode) {
	case CGROUP_V2:
		snprintf(c->limits, sizeof(c->limits), "cgroup v2");
		break;
	case CGROUP_V2_PLAIN:
		snprintf(c->limits, sizeof(c->limits), "cgroup v2 (no controllers)");
		break;
	case CGROUP_V1:
		n = snprintf(c->limits, sizeof(c->limits), "cgroup v1 (");
		for (int i = 0; i < CG_CTLS; i++)
			if (c->base[i][0])
				n += snprintf(c->limits + n, sizeof(c->limits) - (size_t)n, "%s ",
				              ctl_name[i]);
		c->limits[n - 1] = ')';
		break;
	default:
		snprintf(c->limits, sizeof(c->limits), "none");
	}
}

/* The choice of an earlier start, if its directories still exist. */
static bool choice_load(struct cgroups *c, const struct instance *in)
{
	autofree char *text = NULL;
	char *save = NULL, *line;
	struct stat st;

	if (io_read_file(in->dirfd, "cgroup", sizeof(c->base) + 16, &text, NULL) < 0)
		return false;
	line = strtok_r(text, "\n", &save);
	if (!line || line[0] < '1' || line[0] > '3' || line[1])
		return false;
	c->mode = (enum cgroup_mode)(line[0] - '0');
	for (int i = 0; i < CG_CTLS && (line = strtok_r(NULL, "\n", &save)); i++) {
		if (!strcmp(line, "-"))
			continue;
		if (stat(line, &st) < 0 || !S_ISDIR(st.st_mode))
			return false;
		snprintf(c->base[i], sizeof(c->base[i]), "%s", line);
	}
	return true;
}

static void choice_save(const struct cgroups *c, const struct instance *in)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	buf_printf(&b, "%d\n", (int)c->mode);
	for (int i = 0; i < CG_CTLS; i++)
		buf_printf(&b, "%s\n", c->base[i][0] ? c->base[i] : "-");
	if (!b.failed && io_write_file(in->dirfd, "cgroup", b.p, b.len, 0600, &err) < 0)
		log_warn("%s, ignoring", err.msg);
}

void cgroups_open(struct cgroups *c, const struct instance *in, bool cpu_quota)
{
	autofree struct found *f = calloc(1, sizeof(*f));

	memset(c, 0, sizeof(*c));
	c->cpu_quota = cpu_quota;
	if (!choice_load(c, in)) {
		memset(c->base, 0, sizeof(c->base));
		c->mode = CGROUP_NONE;
		if (f)
			find_mounts(f);
		if (f && try_v2(c, f->v2, in->tag))
			c->mode = CGROUP_V2;
		else if (f && try_v1(c, f, in->tag))
			c->mode = CGROUP_V1;
		else if (f && f->v2[0] && make_dir(f->v2, in->tag, c->base[0]))
			c->mode = CGROUP_V2_PLAIN;
		if (c->mode != CGROUP_NONE)
			choice_save(c, in);
	}
	describe(c);
	if (c->mode != CGROUP_V2 && c->mode != CGROUP_V1)
		log_warn("VMs run without memory and CPU limits (limits: %s)", c->limits);
}

/* ---- one VM ---- */

static void note(const char *what, const char *name, int r)
{
	if (r < 0)
		log_obj(LOG_LV_WARN, "cgroup", name, "limit %s: %s, ignoring", what, err_name(r));
}

static void limit_memory(const char *dir, const char *file, const char *name, uint32_t mem_mb)
{
	note(file, name, put_u64(dir, file, ((uint64_t)mem_mb + OVERHEAD_MB) << 20));
}

static uint64_t quota_us(uint32_t vcpus)
{
	return (uint64_t)CPU_PERIOD_US * (vcpus * 100u + CPU_EXTRA_PERCENT) / 100u;
}

int cgroup_prepare(const struct cgroups *c, const char *name, const struct cgroup_limits *l)
{
	char dir[PATH_MAX + 64], text[64];
	int fd;

	if (c->mode != CGROUP_V2 && c->mode != CGROUP_V2_PLAIN)
		return -1;
	snprintf(dir, sizeof(dir), "%s/%s", c->base[0], name);
	if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
		note("directory", name, -errno);
		return -1;
	}
	if (c->mode == CGROUP_V2) {
		limit_memory(dir, "memory.max", name, l->mem_mb);
		note("pids.max", name, put_u64(dir, "pids.max", PIDS_BASE + 2 * l->vcpus));
		note("cpu.weight", name,
		     put_u64(dir, "cpu.weight", MIN(100ull * l->vcpus, 10000ull)));
		snprintf(text, sizeof(text), "%llu %u\n", (unsigned long long)quota_us(l->vcpus),
		         CPU_PERIOD_US);
		if (c->cpu_quota)
			note("cpu.max", name, put(dir, "cpu.max", text));
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		note("directory", name, -errno);
	return fd;
}

void cgroup_enter(const struct cgroups *c, const char *name, const struct cgroup_limits *l,
                  pid_t pid)
{
	char dir[PATH_MAX + 64];
	int fd = cgroup_prepare(c, name, l);

	if (fd < 0)
		return;
	close(fd);
	snprintf(dir, sizeof(dir), "%s/%s", c->base[0], name);
	note("cgroup.procs", name, put_u64(dir, "cgroup.procs", (uint64_t)pid));
}

void cgroup_attach(const struct cgroups *c, const char *name, const struct cgroup_limits *l,
                   pid_t pid)
{
	if (c->mode != CGROUP_V1)
		return;
	for (int i = 0; i < CG_CTLS; i++) {
		char dir[PATH_MAX + 64];

		if (!c->base[i][0])
			continue;
		snprintf(dir, sizeof(dir), "%s/%s", c->base[i], name);
		if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
			note(ctl_name[i], name, -errno);
			continue;
		}
		if (i == CG_MEMORY)
			limit_memory(dir, "memory.limit_in_bytes", name, l->mem_mb);
		if (i == CG_PIDS)
			note("pids.max", name, put_u64(dir, "pids.max", PIDS_BASE + 2 * l->vcpus));
		if (i == CG_CPU) {
			note("cpu.shares", name, put_u64(dir, "cpu.shares", CPU_SHARES * l->vcpus));
			if (c->cpu_quota)
				note("cpu.cfs_quota_us", name,
				     put_u64(dir, "cpu.cfs_quota_us", quota_us(l->vcpus)));
		}
		note("cgroup.procs", name, put_u64(dir, "cgroup.procs", (uint64_t)pid));
	}
}

bool cgroup_hold(const struct cgroups *c, const char *name, uint32_t mem_mb, pid_t pid)
{
	const char *file = c->mode == CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes";
	const char *base = c->base[c->mode == CGROUP_V1 ? CG_MEMORY : 0];
	char dir[PATH_MAX + 64];
	int r;

	if ((c->mode != CGROUP_V1 && c->mode != CGROUP_V2) || !*base)
		return false;
	snprintf(dir, sizeof(dir), "%s/%s", base, name);
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		r = -errno;
	else if ((r = put_u64(dir, file, (uint64_t)mem_mb << 20)) == 0)
		r = put_u64(dir, "cgroup.procs", (uint64_t)pid);
	note("memory", name, r);
	return r == 0;
}

static void drop_dir(const char *dir)
{
	for (int i = 0; i < DROP_TRIES; i++) {
		struct timespec ts = { .tv_nsec = DROP_PAUSE_NS };

		if (rmdir(dir) == 0 || errno == ENOENT)
			return;
		if (errno != EBUSY)
			break;
		nanosleep(&ts, NULL); /* v1 has no notification when a group becomes empty */
	}
	log_warn("remove '%s': %s, ignoring", dir, err_name(errno));
}

void cgroup_drop(const struct cgroups *c, const char *name)
{
	for (int i = 0; i < CG_CTLS; i++) {
		char dir[PATH_MAX + 64];

		if (!c->base[i][0])
			continue;
		snprintf(dir, sizeof(dir), "%s/%s", c->base[i], name);
		drop_dir(dir);
	}
}

void cgroups_sweep(struct cgroups *c, bool (*keep)(const char *name, void *ctx), void *ctx)
{
	for (int i = 0; i < CG_CTLS; i++) {
		autodir DIR *d = c->base[i][0] ? opendir(c->base[i]) : NULL;
		struct dirent *de;

		while (d && (de = readdir(d))) {
			char dir[PATH_MAX + 300];

			if (de->d_type != DT_DIR || de->d_name[0] == '.' ||
			    (keep && keep(de->d_name, ctx)))
				continue;
			snprintf(dir, sizeof(dir), "%s/%s", c->base[i], de->d_name);
			drop_dir(dir);
		}
	}
}

void cgroups_remove(struct cgroups *c)
{
	cgroups_sweep(c, NULL, NULL);
	for (int i = 0; i < CG_CTLS; i++)
		if (c->base[i][0])
			drop_dir(c->base[i]);
}
