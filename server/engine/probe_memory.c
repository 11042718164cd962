/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_memory.c - what a probe of the accelerator found, kept between starts
 *
 * A small file in the cache, which servers with other images or another QEMU share: three lines for
 * each, the newest first. They are the key, "works" or "fails <boot id>", and the reason. A failure
 * may have been caused by a busy host or a module that was not loaded, so it counts only until the
 * host boots again. Two servers that write at the same time can lose one of the two entries: that
 * one is probed again at its next start.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/engine_internal.h"

#define KEPT_MAX 16u
#define FILE_MAX 32768u /* KEPT_MAX entries: a key has 700 bytes at most, a reason 160 */

struct entry {
	const char *key, *outcome, *why;
};

/* Identifies this boot of the host; "" if unknown. */
static const char *boot_id(char *buf, size_t size)
{
	autofree char *text = NULL;

	buf[0] = '\0';
	if (io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256, &text, NULL) == 0)
		snprintf(buf, size, "%.*s", (int)strcspn(text, "\n"), text);
	return buf;
}

/* The line at *at, which is moved behind it; NULL: there is none that is whole. */
static const char *line(char **at)
{
	char *start = *at, *end = strchr(start, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*at = end + 1;
	return start;
}

/* False: the end, or what is left is none. Cuts the text into pieces. */
static bool next(char **at, struct entry *ret)
{
	return (ret->key = line(at)) && (ret->outcome = line(at)) && (ret->why = line(at));
}

bool probe_recall(const char *file, const char *key, bool *ret_works, char *why, size_t why_size)
{
	autofree char *text = NULL;
	char boot[48], no[64], *at;
	struct entry e;

	if (io_read_file(AT_FDCWD, file, FILE_MAX, &text, NULL) < 0)
		return false;
	snprintf(no, sizeof(no), "fails %s", boot_id(boot, sizeof(boot)));
	for (at = text; next(&at, &e);) {
		bool works = !strcmp(e.outcome, "works");

		if (strcmp(e.key, key) != 0)
			continue;
		if (!works && strcmp(e.outcome, no) != 0)
			return false;
		*ret_works = works;
		snprintf(why, why_size, "%.120s (remembered)", e.why);
		return true;
	}
	return false;
}

int probe_remember(const char *file, const char *key, bool works, const char *why, struct err *err)
{
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;
	char boot[48];
	struct entry e;

	buf_printf(&b, "%s\n%s%s\n%.*s\n", key, works ? "works" : "fails ",
	           works ? "" : boot_id(boot, sizeof(boot)), (int)strcspn(why, "\n"), why);
	if (io_read_file(AT_FDCWD, file, FILE_MAX, &text, NULL) == 0) {
		char *at = text;

		for (size_t n = 1; n < KEPT_MAX && next(&at, &e);) {
			if (!strcmp(e.key, key))
				continue;
			buf_printf(&b, "%s\n%s\n%s\n", e.key, e.outcome, e.why);
			n++;
		}
	}
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return io_write_file(AT_FDCWD, file, b.p, b.len, 0644, err);
}
