/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/cgroup.h - limits of a VM's processes, as far as the host supports them
 *
 * A VM starts even without limits. In order of preference: cgroup v2 with
 * memory, cpu and pids; those of them that v1 has; v2 without controllers
 * (counting and killing only); nothing. limits names the one in use.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct instance;

#define CGROUP_NAME_MAX 64 /* "<vm id>.<uid>" */

enum cgroup_mode { CGROUP_NONE, CGROUP_V2, CGROUP_V1, CGROUP_V2_PLAIN };
enum cgroup_ctl { CG_MEMORY, CG_CPU, CG_PIDS, CG_CTLS };

struct cgroups {
	enum cgroup_mode mode;
	char base[CG_CTLS][PATH_MAX]; /* v1: one per controller, "" none; v2: all in base[0] */
	char limits[64];
	bool cpu_quota; /* hard CPU limit, not only a weight */
};

struct cgroup_limits {
	uint32_t mem_mb, vcpus;
};

/* Detects what the host has and creates the instance's directories. Logs errors, does not fail. */
void cgroups_open(struct cgroups *c, const struct instance *in, bool cpu_quota);
/* Removes the instance's directories; they must have no processes. */
void cgroups_remove(struct cgroups *c);
/* Removes directories of VMs for which keep() returns false. */
void cgroups_sweep(struct cgroups *c, bool (*keep)(const char *name, void *ctx), void *ctx);

/* v2: creates the VM's directory with its limits; descriptor for CLONE_INTO_CGROUP, or -1. */
int cgroup_prepare(const struct cgroups *c, const char *name, const struct cgroup_limits *l);
/* v2: the same, and moves a process into it that has one thread and does nothing. */
void cgroup_enter(const struct cgroups *c, const char *name, const struct cgroup_limits *l,
                  pid_t pid);
/* v1: the same, and moves the process into it: takes tens of milliseconds, off the start path. */
void cgroup_attach(const struct cgroups *c, const char *name, const struct cgroup_limits *l,
                   pid_t pid);
/* Another process, and what it starts: its memory in all. False: there is no such limit here. */
bool cgroup_hold(const struct cgroups *c, const char *name, uint32_t mem_mb, pid_t pid);
/* Call it after its processes have ended. */
void cgroup_drop(const struct cgroups *c, const char *name);
