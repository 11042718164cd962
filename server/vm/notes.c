/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notes.c - see notes.h
 *
 * Names, settings and the end of life are in the VM's row; tags and metadata in a row of their own
 * (store/store_note.h) that goes with the VM: they are large compared with what is kept in memory
 * of a VM, and nothing here looks at them. Forks get those of their parent.
 *
 * The environment lives in the guest (agent/environ.c), with which it is frozen, copied and thawed;
 * what the store has of it, sealed, is for a VM that is made anew.
 */
#include "vm/notes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "store/store_note.h"
#include "vm/vm_internal.h"

int64_t vm_delete_at(int64_t after_s)
{
	return after_s < 0 ? 0 : clock_wall_ms() + after_s * 1000;
}

int vmm_change(struct vmm *m, const char *account, const char *id, const struct vm_change *c,
               struct vm_info *ret, struct err *err)
{
	char checkpoint[2][ID_SIZE];
	struct vm_info before;
	struct vm *vm;
	bool renamed;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	before = vm->row.info;
	memcpy(checkpoint[0], vm->row.checkpoint, ID_SIZE);
	memcpy(checkpoint[1], vm->row.checkpoint_before, ID_SIZE);
	renamed = c->name && strcmp(c->name, before.name) != 0;
	if (renamed)
		snprintf(vm->row.info.name, sizeof(vm->row.info.name), "%s", c->name);
	if (c->delete_after_s != VM_LEAVE)
		vm->row.info.delete_at_ms = vm_delete_at(c->delete_after_s);
	if (c->checkpoint_every_s != VM_LEAVE)
		vm_set_checkpoints(vm, c->checkpoint_every_s);
	if (c->self_given)
		vm->row.info.self = c->self | (before.self & VM_SELF_CHILD);
	vm_apply_opts(vm, &c->opts);
	r = vm_set_state(vm, vm->row.info.state, NULL, 0, NULL, err);
	if (r < 0) {
		vm->row.info = before;
		memcpy(vm->row.checkpoint, checkpoint[0], ID_SIZE);
		memcpy(vm->row.checkpoint_before, checkpoint[1], ID_SIZE);
	} else {
		struct err why = { 0 };

		if (renamed && vm_net_renamed(vm, before.name, &why) < 0)
			vm_log(vm, LOG_LV_WARN, "its new name is not known in its VPC: %s",
			       why.msg);
		if (c->self_given)
			vm_tell_who(vm, AGENT_EVENT_CHANGED);
		vm_copy_info(vm, ret);
	}
	vm_unlock(vm);
	return r;
}

static int replace(char **at, const char *text, struct err *err)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return err_set(err, -ENOMEM, "out of memory");
	if (text) {
		free(*at);
		*at = copy;
	}
	return 0;
}

/* ---- environment ---- */

#define ENV_MS 120000 /* for systemd to hear of it, and to restart services */

struct env {
	json_t *j;                   /* owned */
	char *kv[GUEST_ENV_MAX + 1]; /* owned */
};

static void env_done(struct env *e)
{
	for (size_t i = 0; i < GUEST_ENV_MAX && e->kv[i]; i++) {
		explicit_bzero(e->kv[i], strlen(e->kv[i]));
		free(e->kv[i]);
	}
	json_decref(e->j);
}

static int env_read(const char *text, struct env *e, struct err *err)
{
	const char *name;
	size_t n = 0;
	json_t *v;

	e->j = json_loads(text, 0, NULL);
	json_object_foreach(e->j, name, v)
	{
		if (n == GUEST_ENV_MAX ||
		    asprintf(&e->kv[n], "%s=%s", name, json_string_value(v)) < 0) {
			e->kv[MIN(n, GUEST_ENV_MAX)] = NULL;
			return err_set(err, -ENOMEM, "out of memory");
		}
		n++;
	}
	return 0;
}

/* Names of variables and services were checked: words that a shell leaves alone. */
static int tell_systemd(struct guest *g, const struct env *e, const char *const *restart,
                        struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	autobuf struct buf b = { 0 };
	autofree char *command = NULL;
	const char *name;
	json_t *v;
	int r;

	buf_printf(&b, "command -v systemctl >/dev/null || exit 0\nsystemctl import-environment");
	json_object_foreach(e->j, name, v) buf_printf(&b, " %s", name);
	if (restart && *restart)
		buf_printf(&b, " && systemctl try-restart --");
	for (size_t i = 0; restart && restart[i]; i++)
		buf_printf(&b, " '%s.service'", restart[i]);
	command = buf_take_str(&b);
	if (!command)
		return err_set(err, -ENOMEM, "out of memory");
	r = guest_exec(g, &(struct guest_exec_req){ .command = command, .timeout_ms = ENV_MS },
	               &out, err);
	if (r == 0 && out.exit_code)
		r = err_set(err, -EIO, "systemd did not take the environment: %.200s", out.errout);
	return r;
}

static int env_give(struct guest *g, const char *text, const char *const *restart, struct err *err)
{
	AUTO(env_done) struct env e = { 0 };
	int r;

	if ((r = env_read(text, &e, err)) < 0 || !e.kv[0] ||
	    (r = guest_set_env(g, (const char *const *)e.kv, err)) < 0)
		return r;
	return tell_systemd(g, &e, restart, err);
}

void vm_env_again(struct vm *vm)
{
	AUTO(store_note_done) struct store_note note = { 0 };
	struct err err = { 0 };
	int r = store_note_get(vm->m->store, vm->row.info.id, &note, &err);

	if (r > 0 && *note.env)
		r = env_give(vm->guest, note.env, NULL, &err);
	if (r < 0)
		vm_log(vm, LOG_LV_WARN, "was made anew without its environment: %s", err.msg);
}

int vmm_notes_set(struct vmm *m, const char *account, const char *id, const struct vm_notes *n,
                  struct err *err)
{
	AUTO(store_note_done) struct store_note note = { 0 };
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	if ((r = store_note_get(m->store, id, &note, err)) >= 0 &&
	    (r = replace(&note.tags, n->tags, err)) == 0 &&
	    (r = replace(&note.metadata, n->metadata, err)) == 0 &&
	    (r = replace(&note.env, n->env, err)) == 0 &&
	    (!n->env || (r = vm_wake(vm, err)) == 0) &&
	    (!n->env || (r = env_give(vm->guest, n->env, n->restart, err)) == 0)) {
		snprintf(note.vm_id, sizeof(note.vm_id), "%s", id);
		snprintf(note.account, sizeof(note.account), "%s", vm->row.info.account);
		r = store_note_put(m->store, &note, err);
	}
	vm_unlock(vm);
	return MIN(r, 0);
}
