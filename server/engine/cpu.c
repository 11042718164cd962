/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - which CPU a point was frozen on: part of its identity
 *
 * Under KVM a guest sees the host's CPU, so a point needs the same vendor, family,
 * model, stepping and flags. An emulated CPU is the same everywhere, but
 * the guest reads the host's TSC and has settled on its frequency: thawed on a host with
 * another frequency, its clock would run wrong. The frequency is measured and so
 * never exactly the same; a small difference is allowed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/io.h"
#include "engine/argv.h"
#include "engine/engine_internal.h"

#define CPUINFO_MAX (4u << 20)
#define TSC_WORD " tsc="
#define TSC_OFF_PERMILLE 5 /* allowed difference of two measurements */

/* The value after "name\t: " of the first CPU, up to the end of the line. */
static const char *field(const char *text, const char *name, char *buf, size_t size)
{
	size_t n = strlen(name);

	buf[0] = '\0';
	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		const char *v = p + n;

		if (strncmp(p, name, n) != 0)
			continue;
		v += strspn(v, "\t ");
		if (*v != ':')
			continue;
		v += 1 + strspn(v + 1, " ");
		snprintf(buf, size, "%.*s", (int)strcspn(v, "\n"), v);
		break;
	}
	return buf;
}

void engine_cpu_of(const char *cpuinfo, char *buf, size_t size)
{
	char vendor[24], family[8], model[8], stepping[8], flags[8192];

	field(cpuinfo, "flags", flags, sizeof(flags));
	snprintf(buf, size, "host %s/%s/%s/%s flags %08x",
	         field(cpuinfo, "vendor_id", vendor, sizeof(vendor)),
	         field(cpuinfo, "cpu family", family, sizeof(family)),
	         field(cpuinfo, "model", model, sizeof(model)),
	         field(cpuinfo, "stepping", stepping, sizeof(stepping)),
	         crc32c(0, flags, strlen(flags)));
}

int engine_cpu_identity(struct engine *e, struct err *err)
{
	autofree char *text = NULL;
	int r;

	if (e->info.accel == ACCEL_TCG) {
		snprintf(e->info.cpu, sizeof(e->info.cpu), "%s" TSC_WORD "%u", argv_cpu(ACCEL_TCG),
		         e->info.tsc_mhz);
		return 0;
	}
	r = io_read_file(AT_FDCWD, "/proc/cpuinfo", CPUINFO_MAX, &text, err);
	if (r == 0)
		engine_cpu_of(text, e->info.cpu, sizeof(e->info.cpu));
	return r;
}

bool engine_cpu_same(const char *a, const char *b)
{
	const char *ta = strstr(a, TSC_WORD), *tb = strstr(b, TSC_WORD);
	long fa, fb;

	if (!ta || !tb)
		return !strcmp(a, b);
	if (ta - a != tb - b || strncmp(a, b, (size_t)(ta - a)) != 0)
		return false;
	fa = strtol(ta + strlen(TSC_WORD), NULL, 10);
	fb = strtol(tb + strlen(TSC_WORD), NULL, 10);
	/* Both are rounded to 10. */
	return labs(fa - fb) <= 10 + MAX(fa, fb) * TSC_OFF_PERMILLE / 1000;
}
