/* SPDX-License-Identifier: MIT */
/*
 * tap.c - what QEMU set on its tap, for the tap of a child
 *
 * Theory of operation: the kernel tells the size of a tap's header but not its offloads, which the
 * guest's driver has chosen. So what is set on a tap is remembered as it passes by: a few requests,
 * the last value of each. One process has one tap.
 */
#include <errno.h>
#include <linux/if_tun.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layers/layers_internal.h"

static struct {
	unsigned long request;
	bool by_value; /* the argument is the value, not its address */
	_Atomic long value;
	atomic_bool seen;
} settings[] = {
	{ .request = TUNSETVNETHDRSZ },
	{ .request = TUNSETVNETLE },
	{ .request = TUNSETVNETBE },
	{ .request = TUNSETSNDBUF },
	{ .request = TUNSETOFFLOAD, .by_value = true },
};

#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static void remember(unsigned long request, void *arg)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (settings[i].request != request)
			continue;
		atomic_store(&settings[i].value,
		             settings[i].by_value ? (long)(uintptr_t)arg : *(const int *)arg);
		atomic_store(&settings[i].seen, true);
	}
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	int r;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	r = (int)syscall(SYS_ioctl, fd, request, arg);
	if (r >= 0)
		remember(request, arg);
	return r;
}

int tap_same(int fd)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		long value = atomic_load(&settings[i].value);
		int by_address = (int)value;

		if (!atomic_load(&settings[i].seen))
			continue;
		if (syscall(SYS_ioctl, fd, settings[i].request,
		            settings[i].by_value ? (void *)(uintptr_t)value : &by_address) < 0)
			return -errno;
	}
	return 0;
}
