/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.c - the point every default VM is thawed from, and those of other sizes (sizes.c)
 *
 * Looked for in four places: the store (an earlier start made it), the object store (another
 * node did), the cache
 * directory (another data directory on this machine made it), and else made:
 * the base image is cold booted once, the agent says hello, systemd says
 * "running", a few commands warm the guest's page cache, and the machine is
 * frozen. What could make a template unusable is in its key: image, QEMU,
 * machine, CPU, accelerator and size. A damaged one is made again.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest_code.h"
#include "store/store_claim.h"
#include "vm/stored.h"
#include "vm/template.h"

static void note_state(struct vmm *m, const char *state, const char *text)
{
	mutex_lock(&m->lock);
	snprintf(m->template_state, sizeof(m->template_state), "%s", state);
	snprintf(m->template_note, sizeof(m->template_note), "%s", text);
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	log_obj(LOG_LV_INFO, "template", m->template_key, "%s", text);
}

static void note(struct vmm *m, const struct template_job *j, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static void note(struct vmm *m, const struct template_job *j, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!j->size) {
		note_state(m, "building", text);
		return;
	}
	size_note(m, j->size, text);
	log_obj(LOG_LV_INFO, "template", j->key, "%u vCPUs, %u MB: %s", j->vcpus, j->mem_mb, text);
}

void template_job(struct vmm *m, uint32_t vcpus, uint32_t mem_mb, struct template_job *ret)
{
	const struct engine_info *i = engine_info(m->engine);
	const char *image = strrchr(m->conf.image_dir, '/');
	uint64_t h = 0xcbf29ce484222325u;

	*ret = (struct template_job){ .vcpus = vcpus, .mem_mb = mem_mb };
	snprintf(ret->text, sizeof(ret->text),
	         "image=%s qemu=%s machine=%s cpu=%s accel=%s tsc=%u vcpus=%u mem=%u cmdline=%s",
	         image ? image + 1 : m->conf.image_dir, i->qemu_version, i->machine, i->cpu,
	         accel_name(i->accel), i->tsc_mhz, vcpus, mem_mb, i->cmdline);
	for (const char *p = ret->text; *p; p++)
		h = (h ^ (uint8_t)*p) *
		    0x100000001b3u; /* FNV-1a; the full text is compared as well */
	snprintf(ret->key, sizeof(ret->key), "%016llx", (unsigned long long)h);
}

/* Opens every layer once: the checksums are compared, and the page cache is warm. */
int template_check(struct vmm *m, const char *point, struct err *err)
{
	struct engine_point p;
	int r = point_take(m, point, &p, err);

	if (r < 0)
		return r;
	r = engine_point_verify(m->engine, &p, err);
	point_drop(m, &p);
	return r;
}

int template_step(struct vm *vm, const char *command, struct err *err)
{
	struct guest_exec_req req = { .command = command, .timeout_ms = vm->m->t.boot_done };
	struct guest_exec_result res = { 0 };
	int r = guest_exec(vm->guest, &req, &res, err);

	if (r == 0 && (res.exit_code != 0 || res.timed_out))
		r = err_set(err, -EIO, "'%s' in the template ended with %d: %.100s%.100s", command,
		            res.exit_code, res.out ? res.out : "", res.errout ? res.errout : "");
	guest_exec_result_done(&res);
	return r;
}

static int settle_guest(struct vm *vm, struct err *err)
{
	/* The last steps warm what nearly every user needs first: a shell, Python, Node.js. */
	static const char *const steps[] = {
		"systemctl is-system-running --wait",
		"python3 -c 'import sys' && sh -c 'true' && bash -c 'true' && git --version && "
		"node -e 0 && ls / > /dev/null",
		"journalctl --sync; sync; echo 1 > /proc/sys/vm/compact_memory; true",
	};
	/* Kernels with their libraries loaded: the default Python context with the zygote behind
	 * it, and a JavaScript one for whoever wants it first. */
	static const struct guest_code_req cells[] = {
		{ .language = AGENT_LANG_PYTHON, .code = "", .warm = true },
		{ .language = AGENT_LANG_JAVASCRIPT, .code = "", .warm = true, .spare = true },
	};
	size_t last = ARRAY_SIZE(steps) - 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < last; i++) {
		r = template_step(vm, steps[i], err);
		if (r == 0 && i == 0) /* before programs are started that count them */
			r = vm_all_vcpus(vm, err);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cells); i++)
		r = guest_code_warm(vm->guest, &cells[i], vm->m->t.boot_done, err);
	return r < 0 ? r : template_step(vm, steps[last], err);
}

/* The one that the default template stands on: the image is on the disk once. */
static int shared_base(struct vmm *m, struct store_layer *ret, struct err *err)
{
	char point[ID_SIZE];
	struct engine_point p;
	int r = template_wait(m, point, err);

	if (r < 0 || (r = point_take(m, point, &p, err)) < 0)
		return r;
	r = p.disk.n ? store_layer_get(m->store, p.disk.l[0].id, ret, err)
	             : err_set(err, -EIO, "the template has no disk");
	if (r == 0)
		r = vmm_hold(m, ret->id, err);
	point_drop(m, &p);
	return r;
}

int template_base_layer(struct vmm *m, const struct template_job *j, struct store_layer *ret,
                        struct err *err)
{
	char from[600];
	int r;

	if (j->size)
		return shared_base(m, ret, err);
	*ret = (struct store_layer){ .kind = LAYER_DISK, .format = "raw" };
	id_make("ly-", ret->id);
	snprintf(from, sizeof(from), "%s/rootfs.raw", m->conf.image_dir);
	r = engine_import_layer(m->engine, from, ret->id, &ret->bytes, err);
	if (r < 0)
		return r;
	rwlock_rdlock(&m->gc);
	r = vmm_hold(m, ret->id, err);
	if (r == 0 && (r = store_layer_add(m->store, ret, err)) < 0)
		vmm_release(m, ret->id);
	rwlock_unlock(&m->gc);
	return r;
}

static void set_template_vm(struct vmm *m, const struct template_job *j, struct vm *vm)
{
	if (j->size) {
		size_set_vm(m, j->size, vm);
		return;
	}
	LOCK_SCOPE(&m->lock);
	m->template_vm = vm;
}

static bool ending(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);
	return m->stopping;
}

/* Nobody waits for it any more. */
static bool cut(struct vmm *m, const struct template_job *j)
{
	return j->size ? size_cut(m, j->size) : ending(m);
}

/* A VM that is never listed: it exists to be frozen. */
static int build(struct vmm *m, const struct template_job *j, struct err *err)
{
	struct store_vm row = { .info = { .state = VM_STARTING,
		                          .created_ms = clock_wall_ms(),
		                          .vcpus = j->vcpus,
		                          .mem_mb = j->mem_mb,
		                          .disk_mb = m->conf.disk_mb },
		                .slot = -1 };
	struct bringup b = { .reason = GUEST_BOOT,
		             .agent_ms = m->t.agent_boot,
		             .ahead = j->size && size_ahead(m, j->size) };
	struct store_layer base;
	uint64_t t0 = clock_ms();
	struct vm *vm;
	int r = template_base_layer(m, j, &base, err);

	if (r < 0)
		return r;
	id_make("", row.info.id);
	row.info.disk_mb = (uint32_t)(base.bytes >> 20);
	snprintf(row.disk_layer, sizeof(row.disk_layer), "%s", base.id);
	vm = vm_new(m, &row);
	if (!vm) {
		vmm_release(m, base.id);
		return err_set(err, -ENOMEM, "template: out of memory");
	}
	vm->template = true;
	vm_lock(vm);
	set_template_vm(m, j, vm);
	note(m, j, "cold booting the base image");
	r = cut(m, j) ? err_set(err, -ECANCELED, "not wanted now") : vm_bring_up(vm, &b, err);
	reaper_remove(vm);
	if (r == 0 && cut(m, j))
		r = err_set(err, -ECANCELED, "not wanted now");
	if (r == 0) {
		note(m, j, "booted in %.1f s, waiting for its services",
		     (double)(clock_ms() - t0) / 1e3);
		r = settle_guest(vm, err);
		vm_learn_note(vm);
	}
	if (r == 0) {
		note(m, j, "settled after %.1f s, freezing", (double)(clock_ms() - t0) / 1e3);
		r = template_freeze(vm, j, &b, err);
	}
	set_template_vm(m, j, NULL);
	vm_take_down(vm);
	if (r < 0 && *b.layer.id)
		engine_remove_layer(m->engine, b.layer.id);
	vm_unlock(vm);
	vmm_release(m, base.id);
	return r;
}

/* One that another node has made and stored: VMs of both then stand on the same layers. */
static bool adopt(struct vmm *m, const struct template_job *j, char point[ID_SIZE])
{
	struct err err = { 0 };
	int r = m->stored ? store_template_adopt(m->store, j->key, point, &err) : 0;

	if (r > 0) {
		note(m, j, "fetching another node's template");
		r = template_check(m, point, &err);
		if (r == 0)
			return true;
		store_template_drop(m->store, j->key, point, NULL);
	}
	if (r < 0)
		log_obj(LOG_LV_WARN, "template", j->key, "of another node is not used: %s",
		        err.msg);
	return false;
}

int template_make(struct vmm *m, const struct template_job *j, char ret_point[ID_SIZE],
                  struct err *err)
{
	char point[ID_SIZE];
	int r;

	if (store_template_get(m->store, j->key, point, NULL) == 0) {
		note(m, j, "checking");
		r = template_check(m, point, err);
		if (r == 0)
			goto ready;
		log_obj(LOG_LV_WARN, "template", j->key, "cannot be used and is created again: %s",
		        err->msg);
	}
	if (adopt(m, j, point))
		goto ready;
	r = template_import(m, j, err);
	if (r == 0)
		r = store_template_get(m->store, j->key, point, err);
	if (r == 0 && (r = template_check(m, point, err)) == 0)
		goto ready;
	if (r != -ENOENT) {
		log_obj(LOG_LV_WARN, "template", j->key, "in the cache cannot be used: %s",
		        err->msg);
		if (r == -EBADMSG) /* damaged; after a full disk here it is still good for others */
			template_forget_cache(m, j);
	}
	r = build(m, j, err);
	if (r == -ETIMEDOUT &&
	    !cut(m, j)) { /* a guest that hung while booting: once more before giving up */
		log_obj(LOG_LV_WARN, "template", j->key, "%s; trying again", err->msg);
		r = build(m, j, err);
	}
	if (r == 0)
		r = store_template_get(m->store, j->key, point, err);
	if (r < 0)
		return err_wrap(err, r, "create the template");
	template_export(m, j, point);
ready:
	snprintf(ret_point, ID_SIZE, "%s", point);
	return 0;
}

static int ensure(struct vmm *m, struct err *err)
{
	struct template_job j;
	char point[ID_SIZE];
	int r;

	template_job(m, m->conf.vcpus, m->conf.mem_mb, &j);
	snprintf(m->template_key, sizeof(m->template_key), "%s", j.key);
	r = template_make(m, &j, point, err);
	if (r < 0)
		return r;
	mutex_lock(&m->lock);
	snprintf(m->template_shared, sizeof(m->template_shared), "%s", point);
	mutex_unlock(&m->lock);
	note_state(m, "ready", "ready");
	return 0;
}

/* Ends the boot that nobody waits for any more; again and again, because it may not have started
 * yet. */
void template_end(struct vmm *m)
{
	struct timespec ts;

	for (;;) {
		char instance[ID_SIZE] = "";

		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_sec++;
		mutex_lock(&m->lock);
		if (m->template_vm)
			snprintf(instance, sizeof(instance), "%s",
			         m->template_vm->row.info.instance);
		mutex_unlock(&m->lock);
		if (*instance)
			privc_kill(m->priv, instance, NULL);
		if (pthread_timedjoin_np(m->template_thread, NULL, &ts) == 0)
			return;
	}
}

void *template_main(void *arg)
{
	struct vmm *m = arg;
	struct err err = { 0 };

	if (ensure(m, &err) == 0) {
		sizes_sweep(m);
		vmm_collect_soon(m);
		own_keep(m);
		return NULL;
	}
	log_error("%s", err.msg);
	mutex_lock(&m->lock);
	m->template_err = err;
	mutex_unlock(&m->lock);
	note_state(m, "failed", err.msg);
	vmm_collect_soon(m);
	return NULL;
}

int template_wait(struct vmm *m, char ret_point[ID_SIZE], struct err *err)
{
	uint64_t until = deadline_in(m->t.template_wait);
	LOCK_SCOPE(&m->lock);

	while (!strcmp(m->template_state, "building") && !m->stopping)
		if (!cond_wait_until(&m->cond, &m->lock, until))
			break;
	if (!strcmp(m->template_state, "ready")) {
		snprintf(ret_point, ID_SIZE, "%s", template_now(m));
		return 0;
	}
	if (!strcmp(m->template_state, "failed"))
		return err_tag(err, -EIO, ERR_NO_DEFAULT_SNAPSHOT_AVAILABLE,
		               "there is no template: %.300s", m->template_note);
	return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	               "the template is not ready yet (%.200s)", m->template_note);
}

/* The one that it was a moment ago may be gone. */
int template_hold(struct vmm *m, char ret_point[ID_SIZE], struct err *err)
{
	char before[ID_SIZE] = "";

	for (;;) {
		int r = template_wait(m, ret_point, err);

		if (r == 0)
			r = vmm_point_hold(m, ret_point, err);
		if (r != -ENOENT || strcmp(ret_point, before) == 0)
			return r;
		snprintf(before, sizeof(before), "%s", ret_point);
	}
}

int vmm_wait_template(struct vmm *m, struct err *err)
{
	char point[ID_SIZE];

	return template_wait(m, point, err);
}
