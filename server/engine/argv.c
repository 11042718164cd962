/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argv.c - the words QEMU is started with
 *
 * Everything QEMU opens arrives as a descriptor: disks and console through
 * fdsets, sockets as listening descriptors, RAM through the layer library
 * (the path /pando/ram exists nowhere). The kernel is read through /proc/self/fd:
 * the image's files are world-readable. Block nodes are named after their
 * layer, so that a restarted server can ask QEMU which one it writes to.
 */
#include "engine/argv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

#define GUEST_MAC "02:50:4e:44:4f:02" /* the same in every slot: a fork needs no new one */
#define TAP_FD 9                      /* PRIV_TAP_FD of privc.h */
#define TB_CACHE_MB 64                /* translated code per VM; touched pages only count */

enum { FDSET_CONSOLE = 1, FDSET_TOP, FDSET_DISK };

const char *const argv_common[] = { "-nodefaults", "-no-user-config", "-display", "none", NULL };

const char *argv_machine(enum accel a)
{
	(void)a;
	return "q35,usb=off,vmport=off,graphics=off,suppress-vmdesc=on,smm=off";
}

const char *argv_cpu(enum accel a)
{
	return a == ACCEL_KVM ? "host,migratable=on" : "max";
}

static void add(struct argv *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct argv *a, const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (a->n >= ARGV_MAX || vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	if (s)
		a->v[a->n++] = s;
	else
		a->n = ARGV_MAX + 1; /* sticky: argv_build() reports it */
}

static void add_fd(struct argv *a, int fd, int set)
{
	add(a, "-add-fd");
	add(a, "fd=%d,set=%d", fd, set);
}

/* A file and the format on it: nodes "f-<id>" and "<id>". */
static void add_disk(struct argv *a, const char *id, const char *format, int set,
                     const char *backing, bool writable)
{
	char back[ID_SIZE + 16] = "";

	if (backing)
		snprintf(back, sizeof(back), ",\"backing\":\"%s\"", backing);
	add(a, "-blockdev");
	add(a,
	    "{\"driver\":\"file\",\"node-name\":\"f-%s\",\"filename\":\"/dev/fdset/%d\","
	    "\"read-only\":%s,\"locking\":\"off\",\"discard\":\"unmap\"}",
	    id, set, writable ? "false" : "true");
	add(a, "-blockdev");
	add(a,
	    "{\"driver\":\"%s\",\"node-name\":\"%s\",\"file\":\"f-%s\",\"read-only\":%s,"
	    "\"discard\":\"unmap\"%s}",
	    format, id, id, writable ? "false" : "true", back);
}

static void add_disks(struct argv *a, const struct argv_spec *s)
{
	const char *below = NULL;

	for (size_t i = 0; i < s->disk->n; i++) {
		const struct engine_layer *l = &s->disk->l[i];

		add_fd(a, s->fd_disk_ro[i], FDSET_DISK + (int)i);
		add_disk(a, l->id, l->format, FDSET_DISK + (int)i, below, false);
		below = l->id;
	}
	add_fd(a, s->fd_top_rw, FDSET_TOP);
	add_fd(a, s->fd_top_ro, FDSET_TOP); /* for the reopen when it becomes a backing layer */
	add_disk(a, s->disk_layer, "qcow2", FDSET_TOP, below, true);
	add(a, "-device");
	add(a, "virtio-blk-pci,id=disk,drive=%s,num-queues=1,disable-legacy=on", s->disk_layer);
}

int argv_build(const struct argv_spec *s, struct argv *ret, struct err *err)
{
	struct argv a = { 0 };

	for (size_t i = 0; argv_common[i]; i++)
		add(&a, "%s", argv_common[i]);
	add(&a, "-name");
	add(&a, "pando,debug-threads=on");
	add(&a, "-machine");
	add(&a, "%s,memory-backend=ram", s->machine);
	add(&a, "-accel");
	if (s->accel == ACCEL_KVM)
		add(&a, "kvm");
	else
		add(&a, "tcg,tb-size=%d,thread=multi", TB_CACHE_MB);
	add(&a, "-cpu");
	add(&a, "%s", s->cpu);
	add(&a, "-smp");
	add(&a, "%u", s->vcpus);
	add(&a, "-m");
	add(&a, "%uM", s->mem_mb);
	add(&a, "-object");
	add(&a, "memory-backend-file,id=ram,size=%uM,mem-path=/pando/ram,share=off,align=2M",
	    s->mem_mb);
	add(&a, "-global");
	add(&a, "migration.send-configuration=off");
	add(&a, "-action");
	add(&a, "reboot=shutdown"); /* a reboot is a cold boot by the server: a thawed QEMU has no
	                               kernel */
	add(&a, "-S");
	if (s->thaw) {
		add(&a, "-incoming");
		add(&a, "defer");
	}
	add(&a, "-chardev");
	add(&a, "socket,id=qmp,fd=%d,server=on,wait=off", s->fd_qmp);
	add(&a, "-mon");
	add(&a, "chardev=qmp,mode=control");
	add_fd(&a, s->fd_console, FDSET_CONSOLE);
	add(&a, "-chardev");
	add(&a, "file,id=console,path=/dev/fdset/%d,append=on", FDSET_CONSOLE);
	add(&a, "-serial");
	add(&a, "chardev:console");
	add(&a, "-chardev");
	add(&a, "socket,id=agent,fd=%d,server=on,wait=off", s->fd_agent);
	add(&a, "-device");
	add(&a, "virtio-serial-pci,id=serial,max_ports=2,disable-legacy=on");
	add(&a, "-device");
	add(&a, "virtserialport,bus=serial.0,nr=1,chardev=agent,name=pando.agent");
	add(&a, "-object");
	add(&a, "rng-builtin,id=rng");
	add(&a, "-device");
	add(&a, "virtio-rng-pci,rng=rng,disable-legacy=on");
	add_disks(&a, s);
	if (s->tap) {
		add(&a, "-netdev");
		add(&a, "tap,id=net,fd=%d", TAP_FD);
	} else {
		add(&a, "-netdev");
		add(&a, "hubport,id=net,hubid=0");
	}
	add(&a, "-device");
	add(&a, "virtio-net-pci,id=nic,netdev=net,mac=" GUEST_MAC ",disable-legacy=on,rombar=0");
	if (s->fd_kernel >= 0) {
		add(&a, "-kernel");
		add(&a, "/proc/self/fd/%d", s->fd_kernel);
		add(&a, "-initrd");
		add(&a, "/proc/self/fd/%d", s->fd_initrd);
		add(&a, "-append");
		/*
		 * An emulated guest reads the host's TSC. Left to calibrate it on a busy
		 * host it finds a wrong frequency, trusts it, and its clock runs away.
		 */
		if (s->tsc_khz)
			add(&a, "%s tsc_early_khz=%u", ARGV_KERNEL_CMDLINE, s->tsc_khz);
		else
			add(&a, "%s", ARGV_KERNEL_CMDLINE);
	}
	if (a.n > ARGV_MAX) {
		a.n = 0;
		argv_done(&a);
		return err_set(err, -E2BIG, "QEMU's command line is too long");
	}
	*ret = a;
	return 0;
}

void argv_done(struct argv *a)
{
	for (size_t i = 0; i < ARGV_MAX && a->v[i]; i++)
		free(a->v[i]);
	*a = (struct argv){ 0 };
}
