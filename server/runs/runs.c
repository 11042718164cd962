/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs.c - a VM for one command after one push
 *
 * The VM is ephemeral: created from the trigger's snapshot, recorded before anything runs in it,
 * deleted when the command is over. After a crash in between, the server finds its id in the
 * delivery and deletes it before it tries again.
 */
#include "runs/runs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/utf8.h"
#include "guest/guest.h"
#include "runs/clone.h"
#include "vm/vmm.h"

#define CLONE_MS (30u * 60 * 1000)

struct output {
	struct buf b;
	bool cut;
};

static int keep_output(void *ctx, int chan, const uint8_t *p, size_t n)
{
	struct output *o = ctx;
	size_t room = TRIGGER_OUTPUT_MAX - MIN(o->b.len, (size_t)TRIGGER_OUTPUT_MAX);

	(void)chan;
	buf_put(&o->b, p, MIN(n, room));
	o->cut |= n > room;
	return 0;
}

/* As text for JSON and SQL: without a NUL. */
static char *output_text(struct output *o)
{
	autobuf struct buf b = { 0 };

	for (size_t i = 0; i < o->b.len; i++)
		if (!o->b.p[i])
			o->b.p[i] = '?';
	utf8_put_clean(&b, o->b.p, o->b.len);
	if (o->cut)
		buf_printf(&b, "\n[more than %u bytes]\n", TRIGGER_OUTPUT_MAX);
	return buf_take_str(&b);
}

static int exec_in(struct guest *g, const char *command, const char *cwd, const char *const *env,
                   unsigned ms, struct output *o, int *ret_status, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result res = { 0 };
	struct guest_exec_req req = { .command = command,
		                      .cwd = cwd,
		                      .env = env,
		                      .timeout_ms = ms,
		                      .on_output = keep_output,
		                      .ctx = o };
	int r = guest_exec(g, &req, &res, err);

	if (r < 0)
		return r;
	if (res.timed_out)
		return err_set(err, -ETIMEDOUT, "the command did not end within %u s", ms / 1000);
	*ret_status = res.exit_code;
	return 0;
}

#define ENV_MAX 16
struct env {
	char *v[ENV_MAX];
	size_t n;
	bool failed;
};
static void env_done(struct env *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i]);
}
static void env_add(struct env *e, const char *name, const char *value)
{
	if (e->n + 1 >= ENV_MAX || asprintf(&e->v[e->n], "%s=%s", name, value) < 0)
		e->failed = true;
	else
		e->n++;
}

static int fetch_repo(struct runs *rs, struct guest *g, const struct store_delivery *d,
                      struct output *o, struct err *err)
{
	AUTO(env_done) struct env env = { 0 };
	struct store_repo repo;
	struct clone c;
	int r, status = 0;

	if ((r = repo_find(rs->repos, d->account, d->repo, REPO_READ, &repo, err)) < 0 ||
	    (r = clone_put(rs->repos, g, &repo, deadline_in(CLONE_MS), &c, err)) < 0)
		return r;
	env_add(&env, "STEP", clone_script);
	env_add(&env, "HOME", "/root");
	env_add(&env, "BUNDLE", c.bundle);
	env_add(&env, "BRANCH", c.branch);
	env_add(&env, "URL", c.url);
	env_add(&env, "DEST", RUN_DIR);
	env_add(&env, "REV", "");
	/* After a deletion there is the default branch. */
	env_add(&env, "COMMIT", trigger_is_delete(d->event) ? "" : d->new_sha);
	if (env.failed)
		return err_set(err, -ENOMEM, "out of memory");
	r = exec_in(g, "exec bash -c \"$STEP\"", "/", (const char *const *)env.v, CLONE_MS, o,
	            &status, err);
	if (r == 0 && status != 0)
		r = err_set(err, -EIO, "the repository could not be cloned: git exited with %d",
		            status);
	return r;
}

static int run_in(struct runs *rs, struct guest *g, struct store_delivery *d,
                  const struct store_trigger *t, struct output *o, struct err *err)
{
	AUTO(env_done) struct env env = { 0 };
	int r = fetch_repo(rs, g, d, o, err);

	if (r < 0)
		return r;
	buf_reset(&o->b); /* git's output does not matter now */
	env_add(&env, "HOME", "/root");
	env_add(&env, "PANDO_REPO_ID", d->repo);
	env_add(&env, "PANDO_REPO_DIR", RUN_DIR);
	env_add(&env, "PANDO_EVENT", trigger_event_words[d->event]);
	env_add(&env, trigger_is_tag(d->event) ? "PANDO_TAG" : "PANDO_BRANCH", d->branch);
	env_add(&env, "PANDO_COMMIT", d->new_sha);
	env_add(&env, "PANDO_COMMIT_BEFORE", d->old_sha);
	env_add(&env, "PANDO_TRIGGER_ID", t->id);
	env_add(&env, "PANDO_DELIVERY_ID", d->id);
	if (env.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return exec_in(g, t->command, RUN_DIR, (const char *const *)env.v, rs->timeout_s * 1000, o,
	               &d->status, err);
}

static void drop_vm(void *ctx, const char *account, const char *vm)
{
	struct runs *rs = ctx;
	struct err err = { 0 };
	int r = vmm_delete(rs->vmm, account, vm, NULL, &err);

	if (r < 0 && r != -ENOENT)
		log_warn("VM %s of a trigger cannot be deleted: %s", vm, err.msg);
}

static int run(void *ctx, struct store_delivery *d, const struct store_trigger *t,
               char **ret_output, struct err *err)
{
	struct runs *rs = ctx;
	struct vm_create_opts o = { .account = d->account,
		                    .name = "trigger",
		                    .snapshot_id = *t->snapshot ? t->snapshot : NULL,
		                    .idle_timeout_s = -1,
		                    .persistence = { .type = PERSIST_EPHEMERAL,
		                                     .delete_event = DELETE_ON_STOP } };
	struct output out = { 0 };
	struct guest *g = NULL;
	struct vm_info vm;
	int r;

	/* Right after the server's start there is no template yet. */
	if ((r = vmm_wait_template(rs->vmm, err)) < 0 ||
	    (r = vmm_create(rs->vmm, &o, &vm, err)) < 0)
		return r;
	snprintf(d->vm, sizeof(d->vm), "%s", vm.id);
	if ((r = store_delivery_put(rs->store, d, NULL, err)) == 0 &&
	    (r = vmm_guest(rs->vmm, d->account, vm.id, &g, err)) == 0)
		r = run_in(rs, g, d, t, &out, err);
	guest_unref(g);
	drop_vm(rs, d->account, vm.id);
	*ret_output = output_text(&out);
	buf_done(&out.b);
	return r;
}

static int check(void *ctx, const char *account, const char *snapshot, struct err *err)
{
	struct runs *rs = ctx;
	struct snapshot_info s;
	int r = vmm_snapshot_get(rs->vmm, account, snapshot, &s, err);

	if (r == 0 && s.deleted)
		r = err_tag(err, -ENOENT, ERR_SNAPSHOT_NOT_FOUND, "no snapshot '%s'", snapshot);
	return r;
}

struct trigger_vm runs_of(struct runs *r)
{
	return (struct trigger_vm){ .run = run, .drop = drop_vm, .check = check, .ctx = r };
}
