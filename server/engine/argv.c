/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argv.c - QEMU's command line
 *
 * Everything QEMU opens arrives as a descriptor: the console through an fdset,
 * sockets as listening descriptors, RAM through the layer library (the path
 * /pando/ram does not exist), the disk later through the monitor. The kernel
 * is read through /proc/self/fd: the image's files are world-readable.
 */
#include "engine/argv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

#define GUEST_MAC "02:50:4e:44:4f:02" /* the same in every slot, so a fork needs no new one */
#define TAP_FD 9                      /* PRIV_TAP_FD of privc.h */
#define TB_CACHE_MB 64                /* translated code per VM; only touched pages use memory */
#define TB_REGION_MB 2                /* the least that QEMU gives each vCPU of it */
/*
 * Of a seed and its forks: room for what the seed was warmed with and for what a VM adds. A full
 * buffer is emptied, and a fork would have inherited nothing.
 */
#define TB_CACHE_SEED_MB 256

enum { FDSET_CONSOLE = 1 };

const char *const argv_common[] = { "-nodefaults", "-no-user-config", "-display", "none", NULL };

#define MACHINE "q35,usb=off,vmport=off,graphics=off,suppress-vmdesc=on,smm=off"
/*
 * After a thaw QEMU announces the guest on the network itself. If the guest did too, it would send
 * netlink events, ARP and neighbour advertisements: a tenth of all code that an emulated guest
 * translates until its agent answers.
 */
#define NIC_QUIET "guest_announce=off"

const char *argv_machine(enum accel a)
{
	(void)a;
	return MACHINE;
}

/* hw/i386/pc_q35.c, the same from QEMU 2.2 to 10 */
uint32_t argv_low_mb(uint32_t mem_mb)
{
	return mem_mb < 0xb00 ? mem_mb : 0x800;
}

const char *argv_shape(enum accel a)
{
	(void)a;
	return MACHINE ";" NIC_QUIET;
}

/*
 * Some features that make a real CPU fast make an emulated one slow: byte-wise string instructions
 * (erms: the kernel clears pages with them and the C library copies), the end of a translation at
 * every access to user memory (smap), more state to save at every task switch (mpx, pku). No
 * program needs any of them. docs/decisions/0009.
 */
const char *argv_cpu(enum accel a)
{
	return a == ACCEL_KVM ? "host,migratable=on" : "max,-erms,-smap,-mpx,-pku";
}

#define CMDLINE                                                                          \
	"console=ttyS0 root=/dev/vda rw quiet panic=-1 tsc=reliable no_timer_check "     \
	"mitigations=off "                                                               \
	"random.trust_cpu=on audit=0 systemd.show_status=0 net.ifnames=0 "               \
	"lsm=landlock,yama nowatchdog transparent_hugepage=madvise cryptomgr.notests=1 " \
	"rcupdate.rcu_cpu_stall_suppress=1 noautogroup"

const char *argv_cmdline(enum accel a)
{
	/*
	 * QEMU keys translated code by its virtual address: with randomised addresses the
	 * loader and the C library are translated again for every process, which
	 * makes starting one five times slower. Pressure accounting runs, and has to be
	 * translated, at every task switch. Without rep_good the kernel
	 * clears and copies pages by plain stores. Without cx16 it does not use
	 * cmpxchg16b, of which QEMU 7.2 gets the flags wrong (decisions/0008).
	 */
	return a == ACCEL_KVM ? CMDLINE : CMDLINE " norandmaps psi=0 clearcpuid=rep_good,cx16";
}

/*
 * QEMU cuts the cache into regions of 2 MB or more, each vCPU keeps one, and code for any of them
 * goes where there is a free one. With 32 vCPUs in 64 MB none was free: as soon as one vCPU had
 * filled its own, everything was thrown away and translated again, and no guest came to the end of
 * its boot. So those of further vCPUs are added to the cache.
 */
static unsigned tb_cache_mb(uint32_t vcpus, bool seed)
{
	return (seed ? TB_CACHE_SEED_MB : TB_CACHE_MB) + (vcpus > 2 ? TB_REGION_MB * vcpus : 0);
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

int argv_build(const struct argv_spec *s, struct argv *ret, struct err *err)
{
	struct argv a = { 0 };
	char max[24] = "";

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
		add(&a, "tcg,tb-size=%u,thread=multi", tb_cache_mb(s->vcpus, s->seed));
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
	add(&a, "reboot=shutdown"); /* the server handles a reboot as a cold boot: a thawed QEMU has
	                               no kernel */
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
	/* The disk is added later (block.c): until then it is empty space. */
	add(&a, "-blockdev");
	add(&a, "{\"driver\":\"null-co\",\"node-name\":\"" ARGV_NO_DISK "\",\"size\":1048576}");
	add(&a, "-device");
	add(&a, "virtio-blk-pci,id=" ARGV_DISK_DEVICE ",drive=" ARGV_NO_DISK
	        ",num-queues=1,disable-legacy=on");
	if (s->tap) {
		add(&a, "-netdev");
		add(&a, "tap,id=net,fd=%d", TAP_FD);
	} else {
		add(&a, "-netdev");
		add(&a, "hubport,id=net,hubid=0");
	}
	add(&a, "-device");
	add(&a, "virtio-net-pci,id=nic,netdev=net,mac=" GUEST_MAC
	        ",disable-legacy=on,rombar=0," NIC_QUIET);
	if (s->fd_kernel >= 0) {
		add(&a, "-kernel");
		add(&a, "/proc/self/fd/%d", s->fd_kernel);
		add(&a, "-initrd");
		add(&a, "/proc/self/fd/%d", s->fd_initrd);
		add(&a, "-append");
		if (s->boot_vcpus && s->vcpus > s->boot_vcpus)
			snprintf(max, sizeof(max), " maxcpus=%u", s->boot_vcpus);
		/*
		 * An emulated guest reads the host's TSC. If it calibrated the TSC itself on a busy
		 * host, it would settle on a wrong frequency, and its clock would run too fast or
		 * too slow.
		 */
		if (s->tsc_khz)
			add(&a, "%s tsc_early_khz=%u%s", argv_cmdline(s->accel), s->tsc_khz, max);
		else
			add(&a, "%s%s", argv_cmdline(s->accel), max);
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
