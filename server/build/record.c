/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c - records of a build: its row, phases and log
 *
 * Lines are written in batches, because each write is an fsync, and after a short time, because
 * somebody may follow them. The guest decides what it prints: bytes that are not UTF-8 are
 * replaced, long lines truncated, and after BUILD_LINES_MAX lines nothing more is kept. A log that
 * cannot be written never fails a build.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "build/build_internal.h"

static void plan_add(char *plan, size_t size, size_t layer, const char *name)
{
	size_t n = strlen(plan);

	snprintf(plan + n, size - n, "%slayer-%zu/%s", n ? "\n" : "", layer + 1, name);
}

static void plan(struct run *run, size_t first)
{
	for (size_t i = first; i < run->spec->n; i++) {
		const struct spec_layer *l = &run->spec->layers[i];
		const struct {
			bool given;
			const char *name;
		} parts[] = { { l->vcpus || l->mem_mb || l->disk_mb, "size" },
			      { l->groups, "groups" },
			      { l->users, "users" },
			      { l->files, "files" },
			      { l->apt, "apt" },
			      { l->git_config || l->repos, "git" },
			      { l->workdir[0], "workdir" },
			      { l->services || l->patched, "systemd" },
			      { true, "freeze" } };

		for (size_t k = 0; k < ARRAY_SIZE(parts); k++)
			if (parts[k].given)
				plan_add(run->row.planned, sizeof(run->row.planned), i,
				         parts[k].name);
	}
}

int record_begin(struct run *run, size_t first, struct err *err)
{
	struct store_build *row = &run->row;

	if (*row->id && *row->planned)
		return 0;
	if (*row->id) {
		plan(run, first);
		return store_build_update(run->b->store, row, err);
	}
	run->lines = calloc(BUILD_BATCH, sizeof(*run->lines));
	if (!run->lines)
		return err_set(err, -ENOMEM, "build: out of memory");
	*row = (struct store_build){ .state = BUILD_RUNNING, .started_ms = clock_wall_ms() };
	row->updated_ms = row->started_ms;
	id_make("bld-", row->id);
	snprintf(row->account, sizeof(row->account), "%s", run->o->account);
	snprintf(row->request_id, sizeof(row->request_id), "%s",
	         run->o->request_id ? run->o->request_id : "");
	snprintf(row->template_hash, sizeof(row->template_hash), "%s", run->keys[run->spec->n - 1]);
	plan(run, first);
	run->flushed_ms = clock_ms();
	return store_build_add(run->b->store, row, err);
}

void record_flush(struct run *run)
{
	struct err err = { 0 };

	if (run->n_lines && store_build_log_add(run->b->store, run->lines, run->n_lines, &err) < 0)
		log_obj(LOG_LV_WARN, "build", run->row.id, "log lines are lost, ignoring: %s",
		        err.msg);
	run->n_lines = 0;
	run->flushed_ms = clock_ms();
}

static void add_line(struct run *run, const char *text, size_t n)
{
	struct store_build_log *l;
	autobuf struct buf clean = { 0 };
	size_t cut;

	if (!run->lines || run->seq > BUILD_LINES_MAX)
		return;
	if (run->seq == BUILD_LINES_MAX) {
		text = "(further output is not kept)";
		n = strlen(text);
	}
	utf8_put_clean(&clean, text, n);
	if (clean.failed)
		return;
	l = &run->lines[run->n_lines++];
	*l = (struct store_build_log){ .seq = run->seq++, .at_ms = clock_wall_ms() };
	snprintf(l->build_id, sizeof(l->build_id), "%s", run->row.id);
	snprintf(l->phase, sizeof(l->phase), "%s", run->phase.name);
	cut = MIN(clean.len, sizeof(l->message) - 1);
	while (cut < clean.len && cut > 0 && (clean.p[cut] & 0xc0) == 0x80)
		cut--; /* not in the middle of a character */
	if (cut)
		memcpy(l->message, clean.p, cut);
	for (size_t i = 0; i < cut; i++)
		if (!l->message[i])
			l->message[i] = ' ';
	if (run->n_lines == BUILD_BATCH || clock_ms() - run->flushed_ms > BUILD_FLUSH_MS)
		record_flush(run);
}

void record_line(struct run *run, const char *fmt, ...)
{
	char text[BUILD_LINE_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_line(run, text, strlen(text));
}

static void end_line(struct run *run, struct buf *b)
{
	while (b->len && b->p[b->len - 1] == '\r')
		b->len--;
	if (b->len) {
		snprintf(run->last_line, sizeof(run->last_line), "%.*s", (int)b->len,
		         (const char *)b->p);
		add_line(run, (const char *)b->p, b->len);
	}
	buf_reset(b);
}

int record_output(void *ctx, int chan, const uint8_t *p, size_t n)
{
	struct run *run = ctx;
	struct buf *b = &run->partial[chan == 2 ? 2 : 1];

	while (n) {
		const uint8_t *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n;

		if (b->len < BUILD_LINE_SIZE)
			buf_put(b, p, MIN(len, BUILD_LINE_SIZE - b->len));
		if (nl)
			end_line(run, b);
		len += nl ? 1 : 0;
		p += len;
		n -= len;
	}
	return 0;
}

static void end_partial(struct run *run)
{
	for (int i = 1; i <= 2; i++)
		end_line(run, &run->partial[i]);
}

int record_phase(struct run *run, size_t layer, const char *name, struct err *err)
{
	end_partial(run);
	if (run->n_phases == PHASES_MAX)
		return err_set(err, -E2BIG, "the build has more than %d phases", PHASES_MAX);
	run->phase = (struct store_phase){ .seq = run->n_phases++, .started_ms = clock_wall_ms() };
	id_make("bph-", run->phase.id);
	snprintf(run->phase.build_id, sizeof(run->phase.build_id), "%s", run->row.id);
	snprintf(run->phase.name, sizeof(run->phase.name), "layer-%zu/%s", layer + 1, name);
	snprintf(run->step, sizeof(run->step), "%s", name);
	run->last_line[0] = '\0';
	record_line(run, "%s", run->phase.name);
	record_flush(run);
	return store_phase_add(run->b->store, &run->phase, err);
}

void record_end(struct run *run, bool ok, const char *why)
{
	struct err err = { 0 };

	if (!*run->row.id)
		return;
	end_partial(run);
	record_line(run, "%s%s", ok ? "done" : "failed: ", ok ? "" : why);
	record_flush(run);
	run->row.state = ok ? BUILD_SUCCEEDED : BUILD_FAILED;
	run->row.finished_ms = run->row.updated_ms = clock_wall_ms();
	snprintf(run->row.failure, sizeof(run->row.failure), "%s", ok ? "" : why);
	if (store_build_update(run->b->store, &run->row, &err) < 0)
		log_obj(LOG_LV_ERROR, "build", run->row.id, "its end was not saved: %s", err.msg);
	log_obj(LOG_LV_INFO, "build", run->row.id, "%s after %lld ms%s%s",
	        ok ? "succeeded" : "failed",
	        (long long)(run->row.finished_ms - run->row.started_ms), ok ? "" : ": ",
	        ok ? "" : why);
}
