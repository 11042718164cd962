/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/confine.c - capabilities, system calls
 *
 * Theory of operation: what is not in the list of capabilities leaves the bounding set, so that
 * wg(8) and the like, which are executed as root, do not have it either. The filter is handed on to
 * pandod, to git's programs and to every QEMU, which all need different things and put up lists
 * of their own; so this one is a list of what none of them may do: whatever reaches past namespaces
 * into the kernel or the machine as a whole. It refuses with EPERM.
 */
#include "priv/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "base/seccomp.h"

static const unsigned kept[] = {
	CAP_NET_ADMIN,        /* links, addresses, routes, nft, tunnels: slots, VPCs */
	CAP_NET_BIND_SERVICE, /* port 53 of a slot */
	CAP_SYS_ADMIN,        /* namespaces, mounts, the host name in the jail */
	CAP_SYS_CHROOT,       /* setns() into the jail's mount namespace */
	CAP_SYS_PTRACE,       /* /proc/<pid>/smaps_rollup of a VM, its namespaces */
	CAP_MKNOD,            /* devices of the jail */
	CAP_SETUID,           /* to become pandod's user, or a VM's */
	CAP_SETGID,
	CAP_SETPCAP,      /* to empty the bounding set for those */
	CAP_KILL,         /* VMs are other users' processes */
	CAP_CHOWN,        /* the data directory */
	CAP_DAC_OVERRIDE, /* which belongs to pandod's user */
};

#define NO(name) SYSFILTER_FAIL(name, EPERM)
/* clang-format off */
static const struct sysfilter_rule refused[] = {
	/* other processes */
	NO("ptrace"), NO("process_vm_readv"), NO("process_vm_writev"), NO("process_madvise"), NO("kcmp"),
	/* wide doors into the kernel */
	NO("bpf"), NO("perf_event_open"), NO("userfaultfd"), NO("io_uring_setup"), NO("io_uring_enter"),
	NO("io_uring_register"), NO("add_key"), NO("request_key"), NO("open_by_handle_at"),
	NO("fanotify_init"), NO("lookup_dcookie"), NO("nfsservctl"), NO("vmsplice"),
	/* the kernel itself */
	NO("init_module"), NO("finit_module"), NO("delete_module"), NO("create_module"),
	NO("kexec_load"), NO("kexec_file_load"),
	/* the machine as a whole */
	NO("reboot"), NO("swapon"), NO("swapoff"), NO("acct"), NO("quotactl"), NO("quotactl_fd"),
	NO("syslog"), NO("settimeofday"), NO("clock_settime"), NO("clock_adjtime"), NO("adjtimex"),
	NO("stime"), NO("vhangup"), NO("iopl"), NO("ioperm"), NO("modify_ldt"), NO("uselib"),
	NO("ustat"), NO("sysfs"), NO("_sysctl"),
};
/* clang-format on */

static int keep_capabilities(struct err *err)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[2] = { 0 };
	uint64_t mask = 0, has;

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		mask |= UINT64_C(1) << kept[i];
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!(mask >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return err_sys(err, -errno, "drop capability %lu", cap);
	if (syscall(SYS_capget, &h, now) < 0)
		return err_sys(err, -errno, "read capabilities");
	has = now[0].permitted | (uint64_t)now[1].permitted << 32;
	if ((has & mask) != mask) /* a container: what needs it will say so */
		log_warn("capabilities are missing: have %llx of %llx",
		         (unsigned long long)(has & mask), (unsigned long long)mask);
	for (int i = 0; i < 2; i++) {
		now[i].permitted &= (uint32_t)(mask >> 32 * i);
		now[i].effective = now[i].permitted;
		now[i].inheritable = 0;
	}
	return syscall(SYS_capset, &h, now) < 0 ? err_sys(err, -errno, "drop capabilities") : 0;
}

int confine(struct err *err)
{
	struct sysfilter f = SYSFILTER_NONE;
	int r;

	if ((r = keep_capabilities(err)) < 0)
		return r;
	if (!sysfilter_available()) {
		log_warn("this kernel has no seccomp filters: system calls are not filtered");
		return 0;
	}
	r = sysfilter_build(refused, ARRAY_SIZE(refused), SYSFILTER_REST, &f, err);
	if (r == 0 && (r = sysfilter_install(&f, /* threads= */ true)) < 0)
		err_sys(err, r, "filter system calls");
	sysfilter_free(&f);
	return r;
}

void oom_score(const char *text, const char *other)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0 && other && write(fd, other, strlen(other)) < 0)
		errno = 0; /* a wish */
	close(fd);
}
