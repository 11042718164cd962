/* SPDX-License-Identifier: Apache-2.0 */
/* fake_stage.c - see fake_stage.h */
#include "tests/unit/fake_stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "guest/guest.h"
#include "store/store.h"
#include "tests/unit/fake_vmm.h"
#include "vm/stage.h"

#define HELD_MAX 64

struct vm_stage {
	struct vmm *m;
	struct vm_stage_opts o;
	struct vm_info info;
};

static struct {
	struct mutex lock;
	struct cond changed;
	struct store *store;
	char held[HELD_MAX][ID_SIZE];
	unsigned n_held, begun, frozen, blocked;
	bool release;
	char damaged[ID_SIZE];
	char template[ID_SIZE];
	struct buf steps;
} fx = { .lock = MUTEX_INIT("fake stage"), .changed = COND_INIT };

static const char *const states[] = {
	[VM_STARTING] = "starting",   [VM_RUNNING] = "running", [VM_SUSPENDING] = "suspending",
	[VM_SUSPENDED] = "suspended", [VM_STOPPED] = "stopped", [VM_LOST] = "lost",
	[VM_BUILDING] = "building",
};

const char *vm_state_name(enum vm_state s)
{
	return states[s];
}

int vm_state_parse(const char *s)
{
	for (int i = 0; i < VM_STATE_MAX; i++)
		if (strcmp(s, states[i]) == 0)
			return i;
	return -EINVAL;
}

static void add_point(char ret[ID_SIZE])
{
	struct store_point p = { .vcpus = 2, .mem_mb = 2048, .disk_mb = 20480, .created_ms = 1 };

	id_make("pt-", p.id);
	if (store_point_add(fx.store, &p, NULL, 0, NULL) < 0)
		abort();
	snprintf(ret, ID_SIZE, "%s", p.id);
}

void fake_stage_use(struct store *s)
{
	fx.store = s;
	fake_stage_reset();
	if (s)
		add_point(fx.template);
}

void fake_stage_reset(void)
{
	fx.n_held = fx.begun = fx.frozen = 0;
	fx.release = false;
	fx.damaged[0] = '\0';
	buf_done(&fx.steps);
	fx.steps = (struct buf){ 0 };
}

void fake_stage_release(void)
{
	LOCK_SCOPE(&fx.lock);
	fx.release = true;
	cond_broadcast(&fx.changed);
}

unsigned fake_stage_blocked(void)
{
	LOCK_SCOPE(&fx.lock);
	return fx.blocked;
}

unsigned fake_stage_begun(void)
{
	return fx.begun;
}

unsigned fake_stage_frozen(void)
{
	return fx.frozen;
}

unsigned fake_stage_held(void)
{
	return fx.n_held;
}

const char *fake_stage_steps(void)
{
	buf_put(&fx.steps, "", 1);
	fx.steps.len--;
	return (const char *)fx.steps.p;
}

void fake_stage_damage(const char *point)
{
	snprintf(fx.damaged, sizeof(fx.damaged), "%s", point);
}

int vmm_point_hold(struct vmm *m, const char *point, struct err *err)
{
	struct store_point p;
	int r = store_point_get(fx.store, point, &p, err);
	LOCK_SCOPE(&fx.lock);

	if (r < 0)
		return r;
	if (fx.n_held == HELD_MAX)
		abort();
	snprintf(fx.held[fx.n_held++], ID_SIZE, "%s", point);
	return 0;
}

void vmm_point_release(struct vmm *m, const char *point)
{
	LOCK_SCOPE(&fx.lock);

	for (unsigned i = 0; i < fx.n_held; i++)
		if (strcmp(fx.held[i], point) == 0) {
			memmove(fx.held[i], fx.held[--fx.n_held], ID_SIZE);
			return;
		}
	abort(); /* nobody holds it */
}

int vmm_template_hold(struct vmm *m, char ret_point[ID_SIZE], char ret_key[32], struct err *err)
{
	snprintf(ret_point, ID_SIZE, "%s", fx.template);
	snprintf(ret_key, 32, "fake");
	return vmm_point_hold(m, ret_point, err);
}

int vmm_point_size(struct vmm *m, const char *point, struct stage_size *ret, struct err *err)
{
	*ret = (struct stage_size){ 2, 2048, 20480 };
	return 0;
}

int vmm_snapshot_hold(struct vmm *m, const char *account, const char *id, char ret_point[ID_SIZE],
                      char ret_workdir[WORKDIR_SIZE], struct err *err)
{
	struct store_snapshot s;

	if (store_snapshot_get(fx.store, id, &s, NULL) < 0 || strcmp(s.info.account, account) != 0)
		return err_tag(err, -ENOENT, ERR_SNAPSHOT_NOT_FOUND, "no snapshot '%s'", id);
	snprintf(ret_point, ID_SIZE, "%s", s.point);
	snprintf(ret_workdir, WORKDIR_SIZE, "%s", s.info.workdir);
	return vmm_point_hold(m, ret_point, err);
}

int vmm_snapshot_add(struct vmm *m, const struct store_snapshot *s, struct err *err)
{
	return store_snapshot_add(fx.store, s, err);
}

void vmm_collect_soon(struct vmm *m)
{
}

int vmm_stage_begin(struct vmm *m, const struct vm_stage_opts *o, struct vm_stage **ret,
                    struct err *err)
{
	struct vm_stage *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	if (*fx.damaged && strcmp(fx.damaged, o->vm.point) == 0) {
		free(s);
		return err_tag(err, -EBADMSG, ERR_POINT_DAMAGED, "point '%s' is damaged",
		               o->vm.point);
	}
	s->m = m;
	s->o = *o;
	s->info = (struct vm_info){ .vcpus = 2, .mem_mb = 2048, .disk_mb = 20480 };
	fx.begun++;
	*ret = s;
	return 0;
}

int vmm_stage_guest(struct vm_stage *s, struct guest **ret, struct err *err)
{
#ifdef FAKE_REAL_GUEST
	return fake_guest(ret, err);
#else
	*ret = fake_the_guest(s->m);
	return 0;
#endif
}

int vmm_stage_freeze(struct vm_stage *s, char ret_point[ID_SIZE], struct err *err)
{
	add_point(ret_point);
	fx.frozen++;
	return vmm_point_hold(s->m, ret_point, err);
}

void vmm_stage_info(struct vm_stage *s, struct vm_info *ret)
{
	*ret = s->info;
}

bool vmm_stage_cancelled(struct vm_stage *s)
{
	return false;
}

int vmm_stage_finish(struct vm_stage *s_consume, const char *snapshot_id, const char *build_id,
                     const char *workdir, struct vm_info *ret, struct err *err)
{
	struct vm_create_opts o = s_consume->o.vm;
	int r;

	o.snapshot_id = NULL;
	o.point = NULL;
	r = vmm_create(s_consume->m, &o, ret, err);
	snprintf(ret->build_id, sizeof(ret->build_id), "%s", build_id);
	snprintf(ret->workdir, sizeof(ret->workdir), "%s", workdir);
	free(s_consume);
	return r;
}

void vmm_stage_abort(struct vm_stage *s_consume)
{
	free(s_consume);
}

#ifndef FAKE_REAL_GUEST
bool guest_alive(struct guest *g)
{
	return true;
}

int guest_mkdir(struct guest *g, const char *user, const char *path, uint32_t mode, bool parents,
                struct err *err)
{
	return 0;
}

#endif

static const char *var(const struct guest_exec_req *req, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; req->env[i]; i++)
		if (strncmp(req->env[i], name, n) == 0 && req->env[i][n] == '=')
			return req->env[i] + n + 1;
	return "";
}

static void answer_states(const struct guest_exec_req *req, struct guest_exec_result *ret)
{
	autobuf struct buf b = { 0 };

	for (const char *u = var(req, "UNITS"); *u;) {
		size_t n = strcspn(u, " ");
		bool bad = strncmp(u, "broken.", 7) == 0;

		buf_printf(&b,
		           "%sResult=%s\nActiveState=%s\nSubState=%s\nExecMainStatus=%d\nLoadState="
		           "loaded\n",
		           b.len ? "\n" : "", bad ? "exit-code" : "success",
		           bad ? "failed" : "active", bad ? "failed" : "running", bad ? 7 : 0);
		u += n + strspn(u + n, " ");
	}
	ret->out_len = b.len;
	ret->out = buf_take_str(&b);
}

bool fake_step(const struct guest_exec_req *req, struct guest_exec_result *ret)
{
	const char *name = var(req, "NAME"), *script = var(req, "PANDO_STEP");
	LOCK_SCOPE(&fx.lock);

	for (size_t i = 0; req->env[i]; i++)
		buf_printf(&fx.steps, "%s\n", req->env[i]);
	ret->exit_code = strcmp(name, "exists") == 0 ? 66 : strcmp(name, "bad") == 0 ? 3 : 0;
	if (req->on_output && ret->exit_code == 3)
		req->on_output(req->ctx, 2, (const uint8_t *)"no\xff good\n", 9);
	if (strcmp(name, "block") == 0) {
		fx.blocked++;
		while (!fx.release)
			cond_wait(&fx.changed, &fx.lock);
		fx.blocked--;
	}
	if (strstr(script, "systemctl show"))
		answer_states(req, ret);
	else if (strstr(script, "list-units"))
		ret->out = strdup("broken.service loaded failed failed Broken\n"
		                  "other.service loaded failed failed Other\n"
		                  "fine.service loaded active running Fine\nnonsense\n"),
		ret->out_len = strlen(ret->out);
	else if (strstr(script, "journalctl -u"))
		ret->out = strdup("its log\xff\n"), ret->out_len = strlen(ret->out);
	return true;
}
