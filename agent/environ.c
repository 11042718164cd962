/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environ.c - variables of the whole VM, which everything that the agent starts has
 *
 * env.set replaces them. They are kept in memory, so a fork or a thawed copy has them, and in
 * /etc/pando/environment, so they outlive the agent and a boot: systemd reads that file too, with
 * a generator (image/overlay), for its services. A command's own variables win over these. The
 * kernels of contexts that nobody has used yet are dropped, because they began without them.
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
#define FILE_PATH DIR_PATH "/environment"
#define FILE_MAX (256u << 10)

static struct {
	char *v[AGENT_VM_ENV_MAX]; /* owned */
	unsigned n;
} vars;

static void forget(void)
{
	while (vars.n)
		free(vars.v[--vars.n]);
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

void environ_load(const struct agent *a)
{
	autofree char *text = NULL;
	char path[PATH_MAX], *at, *kv;

	path_of(a, FILE_PATH, path);
	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text, NULL) < 0)
		return; /* mostly there is none */
	at = text;
	while (vars.n < AGENT_VM_ENV_MAX && (kv = next_var(&at)) && (vars.v[vars.n] = strdup(kv)))
		vars.n++;
}

static int save(const struct agent *a)
{
	char dir[PATH_MAX], path[PATH_MAX];
	autobuf struct buf b = { 0 };
	int r;

	path_of(a, DIR_PATH, dir);
	path_of(a, FILE_PATH, path);
	for (unsigned i = 0; i < vars.n; i++)
		put_quoted(&b, vars.v[i]);
	if (b.failed)
		return -ENOMEM;
	r = io_mkdirs(dir, 0755, NULL);
	return r < 0 ? r : io_write_file(AT_FDCWD, path, b.p, b.len, 0600, NULL);
}

void environ_begin(struct agent *a, uint32_t id, struct rd *c)
{
	const char *env[AGENT_VM_ENV_MAX];
	uint16_t n;
	int r = 0;

	if (agent_env_get(c, AGENT_VM_ENV_MAX, env, &n) < 0 || rd_end(c) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed env.set request");
		return;
	}
	forget();
	for (unsigned i = 0; i < n && r == 0; i++) {
		vars.v[i] = strdup(env[i]);
		r = vars.v[i] ? 0 : -ENOMEM;
		vars.n += r == 0;
	}
	if (r == 0)
		r = save(a);
	code_drop_unused(a);
	if (r < 0)
		stream_answer(a, id, (uint32_t)-r, AGENT_TAG_NONE, "write " FILE_PATH);
	else
		stream_answer(a, id, 0, AGENT_TAG_NONE, "");
}

unsigned environ_list(const char **ret, unsigned max)
{
	unsigned n = MIN(vars.n, max);

	for (unsigned i = 0; i < n; i++)
		ret[i] = vars.v[i];
	return n;
}

void environ_put(void)
{
	for (unsigned i = 0; i < vars.n; i++)
		putenv(vars.v[i]);
}

bool environ_merge(struct agent_exec_req *r)
{
	unsigned n = MIN(vars.n, AGENT_ENV_MAX - r->n_env);

	if (!n)
		return false;
	memmove(r->env + n, r->env, r->n_env * sizeof(*r->env));
	environ_list(r->env, n);
	r->n_env = (uint16_t)(r->n_env + n);
	return true;
}
