/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environ.c - variables of the whole VM, which everything that the agent starts has
 *
 * env.set replaces them. They are kept in memory, so a fork or a thawed copy has them, and in
 * /etc/pando/environment, so they outlive the agent and a boot: systemd reads that file too, with
 * a generator (image/overlay), for its services. A command's own variables win over these. The
 * kernels of contexts that nobody has used yet are dropped, because they began without them.
 *
 * site.set likewise has those of the site that the host is at (its proxy), which any of the VM's
 * own win over. They come with a stamp, the name of the site's settings: a guest that has it,
 * in /etc/pando/site, has all of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/code.h"
#include "base/auto.h"
#include "base/io.h"

#define DIR_PATH "/etc/pando"
#define STAMP_PATH DIR_PATH "/site"
#define FILE_MAX (256u << 10)
#define STAMP_FILE_MAX 128u

/* In the order in which they are given: the later ones win. */
static struct vars {
	const char *path;
	unsigned max;
	char *v[AGENT_VM_ENV_MAX]; /* owned */
	unsigned n;
} of_site = { .path = DIR_PATH "/site.env", .max = AGENT_SITE_ENV_MAX },
  of_vm = { .path = DIR_PATH "/environment", .max = AGENT_VM_ENV_MAX };

static void forget(struct vars *s)
{
	while (s->n)
		free(s->v[--s->n]);
}

static void path_of(const struct agent *a, const char *path, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s%s", a->test_root ? a->test_root : "", path);
}

/* NAME="value", as systemd's EnvironmentFile= has it. */
static void put_quoted(struct buf *b, const char *kv)
{
	const char *value = strchr(kv, '=') + 1;

	buf_put(b, kv, (size_t)(value - kv));
	buf_put_u8(b, '"');
	for (const char *p = value; *p; p++) {
		if (strchr("\"\\$`", *p))
			buf_put_u8(b, '\\');
		buf_put_u8(b, (uint8_t)*p);
	}
	buf_put(b, "\"\n", 2);
}

/* The next variable of the file's text, as NAME=value in place; NULL: no more. */
static char *next_var(char **text)
{
	char *kv = *text, *eq = strchr(kv, '='), *in, *out;

	if (!eq || eq == kv || eq[1] != '"')
		return NULL;
	for (in = eq + 2, out = eq + 1; *in && *in != '"'; in++) {
		if (*in == '\\' && in[1])
			in++;
		*out++ = *in;
	}
	if (*in != '"')
		return NULL;
	*text = in + 1 + (in[1] == '\n');
	*out = '\0';
	return kv;
}

static void load(const struct agent *a, struct vars *s)
{
	autofree char *text = NULL;
	char path[PATH_MAX], *at, *kv;

	path_of(a, s->path, path);
	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text, NULL) < 0)
		return; /* mostly there is none */
	at = text;
	while (s->n < s->max && (kv = next_var(&at)) && (s->v[s->n] = strdup(kv)))
		s->n++;
}

void environ_load(const struct agent *a)
{
	load(a, &of_site);
	load(a, &of_vm);
}

static int save(const struct agent *a, const struct vars *s)
{
	char dir[PATH_MAX], path[PATH_MAX];
	autobuf struct buf b = { 0 };
	int r;

	path_of(a, DIR_PATH, dir);
	path_of(a, s->path, path);
	for (unsigned i = 0; i < s->n; i++)
		put_quoted(&b, s->v[i]);
	if (b.failed)
		return -ENOMEM;
	r = io_mkdirs(dir, 0755, NULL);
	return r < 0 ? r : io_write_file(AT_FDCWD, path, b.p, b.len, 0600, NULL);
}

static int replace(struct agent *a, struct vars *s, const char *const *env, unsigned n)
{
	int r = 0;

	forget(s);
	for (unsigned i = 0; i < n && r == 0; i++) {
		s->v[i] = strdup(env[i]);
		r = s->v[i] ? 0 : -ENOMEM;
		s->n += r == 0;
	}
	if (r == 0)
		r = save(a, s);
	code_drop_unused(a);
	return r;
}

void environ_begin(struct agent *a, uint32_t id, struct rd *c)
{
	const char *env[AGENT_VM_ENV_MAX];
	uint16_t n;
	int r;

	if (agent_env_get(c, AGENT_VM_ENV_MAX, env, &n) < 0 || rd_end(c) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed env.set request");
		return;
	}
	r = replace(a, &of_vm, env, n);
	stream_answer(a, id, (uint32_t)-r, AGENT_TAG_NONE, r < 0 ? "write the environment" : "");
}

/* The stamp is written with the files that the host's script makes, after all of them. */
static bool has_stamp(const struct agent *a, const char *stamp)
{
	autofree char *text = NULL;
	char path[PATH_MAX];
	int r;

	path_of(a, STAMP_PATH, path);
	r = io_read_file(AT_FDCWD, path, STAMP_FILE_MAX, &text, NULL);
	if (r < 0)
		return r == -ENOENT && !*stamp;
	text[strcspn(text, "\n")] = '\0';
	return !strcmp(text, stamp);
}

void environ_site(struct agent *a, uint32_t id, struct rd *c)
{
	const char *env[AGENT_SITE_ENV_MAX], *stamp;
	uint16_t n;
	int r;

	if (agent_text_get(c, AGENT_SITE_STAMP, &stamp) < 0 ||
	    agent_env_get(c, AGENT_SITE_ENV_MAX, env, &n) < 0 || rd_end(c) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed site.set request");
		return;
	}
	if (has_stamp(a, stamp)) {
		stream_answer(a, id, 0, AGENT_TAG_NONE, "");
		return;
	}
	r = replace(a, &of_site, env, n);
	if (r < 0)
		stream_answer(a, id, (uint32_t)-r, AGENT_TAG_NONE, "write the environment");
	else
		stream_answer(a, id, ESTALE, AGENT_TAG_NONE, "its files are of other settings");
}

unsigned environ_list(const char **ret, unsigned max)
{
	unsigned n = 0;

	for (unsigned i = 0; i < of_site.n && n < max; i++)
		ret[n++] = of_site.v[i];
	for (unsigned i = 0; i < of_vm.n && n < max; i++)
		ret[n++] = of_vm.v[i];
	return n;
}

void environ_put(void)
{
	for (unsigned i = 0; i < of_site.n; i++)
		putenv(of_site.v[i]);
	for (unsigned i = 0; i < of_vm.n; i++)
		putenv(of_vm.v[i]);
}

bool environ_merge(struct agent_exec_req *r)
{
	unsigned n = MIN(of_site.n + of_vm.n, AGENT_ENV_MAX - r->n_env);

	if (!n)
		return false;
	memmove(r->env + n, r->env, r->n_env * sizeof(*r->env));
	environ_list(r->env, n);
	r->n_env = (uint16_t)(r->n_env + n);
	return true;
}
