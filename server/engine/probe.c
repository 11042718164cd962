/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - finds out which accelerator works
 *
 * The existence of /dev/kvm proves nothing: on some hosts guests hang on it or QEMU aborts.
 * So a guest is booted with it, in the same jail as any other, and must
 * reach its first process before the deadline. The result is remembered (probe_memory.c), keyed by
 * what could change it: kernel, QEMU and image.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/proc.h"
#include "engine/argv.h"
#include "engine/engine_internal.h"
#include "privc/privc.h"

#define PROBE_MARK "Run /init as init process"
#define PROBE_MEM_MB "512"

static const char *const accel_str[] = { [ACCEL_TCG] = "tcg", [ACCEL_KVM] = "kvm" };
_Static_assert(ARRAY_SIZE(accel_str) == ACCEL_MAX, "an accelerator is missing in accel_str");

const char *accel_name(enum accel a)
{
	return accel_str[a];
}

/* Reads the console until the mark appears. */
static int await_mark(int fd, uint32_t limit_s, char *why, size_t why_size)
{
	uint64_t deadline = deadline_in(limit_s * 1000);
	char text[32768];
	size_t n = 0;

	for (;;) {
		int r = io_wait(fd, POLLIN, deadline);
		ssize_t k;

		if (r <= 0) {
			snprintf(why, why_size, "a test guest did not boot within %u s", limit_s);
			return -ETIMEDOUT;
		}
		k = read(fd, text + n, sizeof(text) - 1 - n);
		if (k <= 0) {
			snprintf(why, why_size, "QEMU ended while booting a test guest");
			return -EIO;
		}
		n += (size_t)k;
		text[n] = '\0';
		if (strstr(text, PROBE_MARK))
			return 0;
		if (n > sizeof(text) / 2) {
			memmove(text, text + n - sizeof(PROBE_MARK), sizeof(PROBE_MARK));
			n = sizeof(PROBE_MARK);
		}
	}
}

/* QEMU's last messages. */
static void add_qemu_words(int log_fd, char *why, size_t why_size)
{
	char text[1024], *line;
	ssize_t n = lseek(log_fd, 0, SEEK_END);

	n = pread(log_fd, text, sizeof(text) - 1, MAX(0, n - (ssize_t)sizeof(text) + 1));
	while (n > 0 && text[n - 1] == '\n')
		n--;
	if (n <= 0)
		return;
	text[n] = '\0';
	line = strrchr(text, '\n');
	snprintf(why + strlen(why), why_size - strlen(why), ": %s", line ? line + 1 : text);
}

static int try_kvm(struct engine *e, char *why, size_t why_size)
{
	char kernel[64], initrd[64], path[600], instance[ID_SIZE];
	autofd int rd = -1;
	autofd int wr = -1;
	autofd int kfd = -1;
	autofd int ifd = -1;
	autofd int log_fd = memfd_create("probe", MFD_CLOEXEC);
	struct proc p = PROC_NONE;
	struct err err = { 0 };
	int pipefd[2], r;

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return -errno;
	rd = pipefd[0];
	wr = pipefd[1];
	snprintf(path, sizeof(path), "%s/vmlinux", e->image_dir);
	kfd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/initrd", e->image_dir);
	ifd = open(path, O_RDONLY | O_CLOEXEC);
	if (kfd < 0 || ifd < 0 || log_fd < 0) {
		snprintf(why, why_size, "the base image cannot be read: %s", err_name(errno));
		return -errno;
	}
	snprintf(kernel, sizeof(kernel), "/proc/self/fd/%d", PRIV_FD_FIRST + 1);
	snprintf(initrd, sizeof(initrd), "/proc/self/fd/%d", PRIV_FD_FIRST + 2);
	id_make("", instance);
	const char *argv[] = { "-nodefaults",
		               "-no-user-config",
		               "-display",
		               "none",
		               "-machine",
		               argv_machine(ACCEL_KVM),
		               "-accel",
		               "kvm",
		               "-cpu",
		               argv_cpu(ACCEL_KVM),
		               "-smp",
		               "1",
		               "-m",
		               PROBE_MEM_MB,
		               "-no-reboot",
		               "-add-fd",
		               "fd=10,set=1",
		               "-chardev",
		               "file,id=console,path=/dev/fdset/1,append=on", /* otherwise it
		                  truncates, which fails on a pipe */
		               "-serial",
		               "chardev:console",
		               "-kernel",
		               kernel,
		               "-initrd",
		               initrd,
		               "-append",
		               "console=ttyS0 panic=-1",
		               NULL };
	int fds[] = { wr, kfd, ifd };
	struct priv_spawn s = { .vm_id = instance,
		                .slot = -1,
		                .argv = argv,
		                .env = (const char *const[]){ NULL },
		                .fds = fds,
		                .n_fds = ARRAY_SIZE(fds),
		                .log_fd = log_fd,
		                .mem_mb = 512,
		                .vcpus = 1,
		                .kvm = true };
	r = privc_spawn(e->priv, &s, &p, &err);
	close(TAKE_FD(wr)); /* the pipe ends with QEMU */
	if (r < 0) {
		snprintf(why, why_size, "%.140s", err.msg);
		return r;
	}
	r = await_mark(rd, e->probe_s, why, why_size);
	if (r == -EIO)
		add_qemu_words(log_fd, why, why_size);
	privc_kill(e->priv, instance, NULL);
	proc_close(&p);
	return r;
}

static void answer_key(struct engine *e, char *buf, size_t size)
{
	struct utsname u;

	uname(&u);
	snprintf(buf, size, "kernel=%s qemu=%s image=%s", u.release, e->info.qemu_version,
	         e->image_dir);
}

static void set_accel(struct engine *e, enum accel a, const char *why)
{
	e->info.accel = a;
	snprintf(e->info.accel_why, sizeof(e->info.accel_why), "%s", why);
	snprintf(e->info.machine, sizeof(e->info.machine), "%s", argv_shape(a));
}

int engine_probe(struct engine *e, const char *wanted, struct err *err)
{
	char key[700], why[160] = "";
	bool works = false;

	if (!strcmp(wanted, "tcg")) {
		set_accel(e, ACCEL_TCG, "PANDO_ACCEL=tcg");
		return 0;
	}
	if (strcmp(wanted, "kvm") != 0 && strcmp(wanted, "auto") != 0)
		return err_set(err, -EINVAL, "PANDO_ACCEL is '%s': allowed are auto, kvm and tcg",
		               wanted);
	if (access("/dev/kvm", F_OK) < 0) {
		snprintf(why, sizeof(why), "this host has no /dev/kvm");
	} else {
		answer_key(e, key, sizeof(key));
		if (probe_recall(e->probe_file, key, &works, why, sizeof(why))) {
			log_info("accelerator: using the cached result in '%s'; delete it to "
			         "probe again",
			         e->probe_file);
		} else {
			log_info("trying KVM with a test guest (at most %u s)", e->probe_s);
			works = try_kvm(e, why, sizeof(why)) == 0;
			if (works)
				snprintf(why, sizeof(why), "a test guest booted on /dev/kvm");
			if (probe_remember(e->probe_file, key, works, why, err) < 0)
				log_warn("cannot cache the result, ignoring: %s", err->msg);
		}
	}
	if (!works && !strcmp(wanted, "kvm"))
		return err_set(err, -ENODEV, "PANDO_ACCEL=kvm, but KVM does not work here: %s",
		               why);
	set_accel(e, works ? ACCEL_KVM : ACCEL_TCG, why);
	return 0;
}
