/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/jail.c - assemble the template mount namespaces
 *
 * Theory of operation: a child process creates a new mount namespace, mounts a
 * tmpfs, fills it from the table below, makes it the root and drops everything
 * else. We then open /proc/<child>/ns/mnt, which keeps the namespace alive, and
 * let the child exit. Nothing of it is visible on the host and nothing has to be
 * cleaned up: the namespace ends with us and with the last VM that copied it.
 */
#include "priv/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "priv/instance.h"

enum { OPTIONAL = 1 << 0, NOEXEC = 1 << 1 };

static const struct {
	const char *path;
	unsigned flags;
} binds[] = {
	{ "/usr/lib/x86_64-linux-gnu", OPTIONAL },   /* libraries; QEMU's modules below it */
	{ "/usr/lib64", OPTIONAL },                  /* the dynamic linker */
	{ "/usr/share/qemu", NOEXEC },               /* firmware, option ROMs */
	{ "/usr/share/seabios", OPTIONAL | NOEXEC }, /* where some of them really are */
	{ "/usr/lib/ipxe", OPTIONAL | NOEXEC },      /* ditto, network boot ROMs */
	{ "/etc/ld.so.cache", OPTIONAL | NOEXEC },   /* saves a search per library */
};

static const struct {
	const char *name, *target;
} links[] = { { "lib", "usr/lib" }, { "lib64", "usr/lib64" } };

static const struct {
	const char *name;
	unsigned major, minor;
	bool kvm;
} nodes[] = {
	{ "null", 1, 3, false },
	{ "urandom", 1, 9, false },
	{ "kvm", 10, 232, true },
};

/* ---- in the child; paths of the jail are relative to the working directory ---- */

static int make_parents(const char *rel, struct err *err)
{
	char tmp[PATH_MAX];

	snprintf(tmp, sizeof(tmp), "%s", rel);
	for (char *p = tmp; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		if (mkdir(tmp, 0755) < 0 && errno != EEXIST)
			return err_sys(err, -errno, "make '%s'", tmp);
	}
	return 0;
}

static int bind_at(const char *from, const char *to, unsigned flags, struct err *err)
{
	const char *rel = to + 1;
	unsigned long ms = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV;
	struct stat st;
	int r;

	if (stat(from, &st) < 0) {
		if (errno == ENOENT && (flags & OPTIONAL))
			return 0;
		return err_sys(err, -errno, "'%s'", from);
	}
	if ((r = make_parents(rel, err)) < 0)
		return r;
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(rel, 0755) < 0 && errno != EEXIST)
			return err_sys(err, -errno, "make '%s'", rel);
	} else {
		autofd int fd = open(rel, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0)
			return err_sys(err, -errno, "make '%s'", rel);
	}
	if (mount(from, rel, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, rel, NULL, ms | (flags & NOEXEC ? MS_NOEXEC : 0), NULL) < 0)
		return err_sys(err, -errno, "bind '%s'", from);
	return 0;
}

static int make_dev(bool kvm, struct err *err)
{
	if (mkdir("dev", 0755) < 0 ||
	    mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0)
		return err_sys(err, -errno, "mount /dev");
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		char rel[32], host[32];

		if (nodes[i].kvm && !kvm)
			continue;
		snprintf(rel, sizeof(rel), "dev/%s", nodes[i].name);
		snprintf(host, sizeof(host), "/dev/%s", nodes[i].name);
		if (mknod(rel, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) == 0)
			continue;
		/* In a container mknod may be forbidden; the host's own nodes can still be bound.
		 */
		autofd int fd = open(rel, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0 || mount(host, rel, NULL, MS_BIND, NULL) < 0)
			return err_sys(err, -errno, "make '%s'", rel);
	}
	if (mount(NULL, "dev", NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) < 0)
		return err_sys(err, -errno, "seal /dev");
	return 0;
}

static int assemble(const char *staging, const char *qemu, const char *layers, bool kvm,
                    struct err *err)
{
	int r;

	umask(0); /* modes below are exact; the root is read-only anyway */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(err, -errno, "new mount namespace");
	if (mount("tmpfs", staging, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") < 0 ||
	    chdir(staging) < 0)
		return err_sys(err, -errno, "mount '%s'", staging);
	if ((r = bind_at(qemu, qemu, 0, err)) < 0 ||
	    (layers && (r = bind_at(layers, JAIL_LAYERS, 0, err)) < 0))
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(binds); i++)
		if ((r = bind_at(binds[i].path, binds[i].path, binds[i].flags, err)) < 0)
			return r;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlink(links[i].target, links[i].name) < 0)
			return err_sys(err, -errno, "make '%s'", links[i].name);
	if (mkdir("proc", 0555) < 0)
		return err_sys(err, -errno, "make /proc");
	if ((r = make_dev(kvm, err)) < 0)
		return r;
	/* The old root is stacked on top of the new one and is unmounted with everything below it.
	 */
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(err, -errno, "change the root");
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
	          NULL) < 0)
		return err_sys(err, -errno, "seal the root");
	return 0;
}

/* ---- in the parent ---- */

/* Runs assemble() in a child; the descriptor of its mount namespace, or -errno. */
static int template(const char *staging, const char *qemu, const char *layers, bool kvm,
                    struct err *err)
{
	int up[2], down[2];
	struct err got = { 0 };
	int r = 0, ns = -1;
	pid_t pid;

	if (pipe2(up, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "pipe");
	if (pipe2(down, O_CLOEXEC) < 0) {
		r = err_sys(err, -errno, "pipe");
		close(up[0]);
		close(up[1]);
		return r;
	}
	pid = fork();
	if (pid == 0) {
		char go;

		close(down[1]);
		assemble(staging, qemu, layers, kvm, &got);
		if (io_write_all(up[1], &got, sizeof(got)) < 0)
			_exit(1);
		_exit(read(down[0], &go, 1) == 0 ? 0 : 1); /* wait until our parent has opened it */
	}
	close(up[1]);
	close(down[0]);
	if (pid < 0)
		r = err_sys(err, -errno, "fork");
	else if (io_read_all(up[0], &got, sizeof(got)) < 0)
		r = err_set(err, -EIO, "the jail's builder died");
	else if (got.code < 0)
		r = err_set(err, got.code, "%s", got.msg);
	if (r == 0) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
		ns = open(path, O_RDONLY | O_CLOEXEC);
		if (ns < 0)
			r = err_sys(err, -errno, "open '%s'", path);
	}
	close(up[0]);
	close(down[1]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return r < 0 ? err_wrap(err, r, "jail") : ns;
}

int jail_open(const struct instance *in, const char *qemu, const char *layers, struct jail *ret,
              struct err *err)
{
	struct jail j = JAIL_NONE;
	char staging[96], lib[PATH_MAX];
	autofd int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int r;

	if (!realpath(qemu, j.qemu))
		return err_sys(err, -errno, "QEMU '%s'", qemu);
	if (layers && !realpath(layers, lib)) /* the builder works in another directory */
		return err_sys(err, -errno, "layer library '%s'", layers);
	j.layers = layers != NULL;
	layers = layers ? lib : NULL;
	snprintf(staging, sizeof(staging), "%s/root", in->dir);
	if ((r = io_mkdirs(staging, 0700, err)) < 0)
		return r;
	r = j.mnt = template(staging, j.qemu, layers, /* kvm= */ false, err);
	if (r >= 0 && kvm >= 0)
		r = j.mnt_kvm = template(staging, j.qemu, layers, /* kvm= */ true, err);
	rmdir(staging); /* only a mount point, and only in namespaces of its own */
	if (r < 0) {
		jail_close(&j);
		return r;
	}
	*ret = j;
	return 0;
}

void jail_close(struct jail *j)
{
	if (j->mnt >= 0)
		close(j->mnt);
	if (j->mnt_kvm >= 0)
		close(j->mnt_kvm);
	if (j->users >= 0)
		close(j->users);
	*j = JAIL_NONE;
}
