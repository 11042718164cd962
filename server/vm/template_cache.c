/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_cache.c - templates on their way between the store and the cache directory
 *
 * <cache>/<key>/ holds mem, disk, state and meta.json; it appears by rename,
 * whole or not at all. Files are hard links where the file system allows it,
 * else copies: they are immutable either way.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "vm/template.h"

#define TEMPLATES_KEPT 4      /* in the cache, whatever they take; each has a few hundred MB */
#define TEMPLATES_KEPT_MAX 32 /* with those of other sizes, as far as their budget goes */

static void cache_path(struct vmm *m, const struct template_job *j, const char *suffix,
                       const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s%s%s%s", m->conf.template_dir, j->key, suffix, *name ? "/" : "",
	         name);
}

/* Point and layers, then the template that names them; the collector stays out in between. */
static int template_save(struct vmm *m, const struct template_job *j, const struct store_point *p,
                         const struct store_layer *layers, struct err *err)
{
	int r;

	rwlock_rdlock(&m->gc);
	r = store_point_add(m->store, p, layers, 2, err);
	if (r == 0)
		r = store_template_set(m->store, j->key, p->id, err);
	rwlock_unlock(&m->gc);
	return r;
}

int template_freeze(struct vm *vm, const struct template_job *j, struct bringup *b, struct err *err)
{
	struct vmm *m = vm->m;
	const struct engine_info *i = engine_info(m->engine);
	char point[ID_SIZE], mem_id[ID_SIZE], path[PATH_MAX];
	struct machine_freeze req = {
		.point_id = point, .mem_layer = mem_id, .durable = true, .seed = b->seed
	};
	struct store_point p = { .kind = POINT_TEMPLATE,
		                 .vcpus = vm->row.info.vcpus,
		                 .mem_mb = vm->row.info.mem_mb,
		                 .disk_mb = vm->row.info.disk_mb,
		                 .created_ms = clock_wall_ms() };
	struct store_layer layers[2] = { b->layer,
		                         { .kind = LAYER_MEM, .format = "mem", .has_crc = true } };
	struct machine_frozen f;
	struct stat st;
	int r;

	id_make("pt-", point);
	id_make("ly-", mem_id);
	req.note = vm_note(vm);
	r = machine_freeze(vm->machine, &req, &f, err);
	if (r < 0)
		return r;
	engine_layer_path(m->engine, b->layer.id, path, sizeof(path));
	if (stat(path, &st) < 0)
		r = err_sys(err, -errno, "disk layer '%s'", path);
	layers[0].bytes = r < 0 ? 0 : (uint64_t)st.st_size;
	if (r == 0)
		r = engine_layer_crc(m->engine, b->layer.id, &layers[0].bytes, &layers[0].crc, err);
	layers[0].has_crc = true;
	snprintf(layers[1].id, ID_SIZE, "%s", mem_id);
	snprintf(layers[1].parent, ID_SIZE, "%s", vm->row.base_mem);
	layers[1].bytes = f.mem_bytes;
	layers[1].crc = f.mem_crc;
	snprintf(p.id, ID_SIZE, "%s", point);
	snprintf(p.parent, ID_SIZE, "%s", vm->row.head);
	snprintf(p.mem_layer, ID_SIZE, "%s", mem_id);
	snprintf(p.disk_layer, ID_SIZE, "%s", b->layer.id);
	snprintf(p.qemu_version, sizeof(p.qemu_version), "%s", i->qemu_version);
	snprintf(p.machine, sizeof(p.machine), "%s", i->machine);
	snprintf(p.cpu, sizeof(p.cpu), "%s", i->cpu);
	snprintf(p.accel, sizeof(p.accel), "%s", accel_name(i->accel));
	p.state_bytes = f.state_bytes;
	p.state_crc = f.state_crc;
	if (r == 0)
		r = template_save(m, j, &p, layers, err);
	if (r < 0) { /* the disk layer is the caller's */
		engine_remove_layer(m->engine, mem_id);
		engine_remove_point(m->engine, point);
	}
	return r;
}

static int save_meta(const char *dir, const char *key_text, const struct store_point *p,
                     const struct store_layer *mem, const struct store_layer *disk, struct err *err)
{
	json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "key", key_text,
	                      "vcpus", (int)p->vcpus, "memMb", (int)p->mem_mb, "diskMb",
	                      (int)p->disk_mb, "stateBytes", (json_int_t)p->state_bytes, "stateCrc",
	                      (json_int_t)p->state_crc, "memBytes", (json_int_t)mem->bytes,
	                      "memCrc", (json_int_t)mem->crc, "diskBytes", (json_int_t)disk->bytes,
	                      "diskCrc", (json_int_t)disk->crc);
	autofree char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	char path[PATH_MAX];

	json_decref(o);
	if (!text)
		return err_set(err, -ENOMEM, "template cache: out of memory");
	snprintf(path, sizeof(path), "%s/meta.json", dir);
	return io_write_file(AT_FDCWD, path, text, strlen(text), 0644, err);
}

static int export_to(struct vmm *m, const char *dir, const char *point, const char *key_text,
                     struct err *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	struct store_layer mem, disk;
	struct store_point p;
	int r;

	if ((r = store_point_get(m->store, point, &p, err)) < 0 ||
	    (r = store_layer_get(m->store, p.mem_layer, &mem, err)) < 0 ||
	    (r = store_layer_get(m->store, p.disk_layer, &disk, err)) < 0 ||
	    (r = io_mkdirs(dir, 0755, err)) < 0)
		return r;
	const struct {
		const char *name, *layer;
	} files[] = { { "mem", p.mem_layer }, { "disk", p.disk_layer }, { "state", NULL } };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (files[i].layer)
			engine_layer_path(m->engine, files[i].layer, from, sizeof(from));
		else
			engine_state_path(m->engine, point, from, sizeof(from));
		snprintf(to, sizeof(to), "%s/%s", dir, files[i].name);
		r = io_link_or_copy(from, to, err);
		if (r < 0)
			return r;
	}
	return save_meta(dir, key_text, &p, &mem, &disk, err);
}

struct cached {
	char name[32];
	time_t used; /* of meta.json: touched by every import */
	uint64_t bytes;
};

static int newest_first(const void *a, const void *b)
{
	const struct cached *x = a, *y = b;

	return x->used == y->used ? 0 : x->used < y->used ? 1 : -1;
}

static uint64_t bytes_of(int dir, const char *name)
{
	static const char *const files[] = { "mem", "disk", "state" };
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[300];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		if (fstatat(dir, path, &st, 0) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	}
	return sum;
}

/* Templates nobody started from for the longest time go; data directories have links of their own.
 */
static void prune(struct vmm *m)
{
	autodir DIR *d = opendir(m->conf.template_dir);
	uint64_t sum = 0, budget = (uint64_t)m->conf.sizes_disk_mb << 20;
	struct cached c[64];
	struct dirent *de;
	size_t n = 0;

	while (d && n < ARRAY_SIZE(c) && (de = readdir(d))) {
		char meta[300];
		struct stat st;

		snprintf(meta, sizeof(meta), "%s/meta.json", de->d_name);
		if (strlen(de->d_name) >= sizeof(c[n].name) || fstatat(dirfd(d), meta, &st, 0) < 0)
			continue;
		snprintf(c[n].name, sizeof(c[n].name), "%s", de->d_name);
		c[n].bytes = bytes_of(dirfd(d), de->d_name);
		c[n++].used = st.st_mtime;
	}
	qsort(c, n, sizeof(*c), newest_first);
	for (size_t i = 0; i < n; i++) {
		sum += c[i].bytes;
		if (i >= TEMPLATES_KEPT && (i >= TEMPLATES_KEPT_MAX || sum > budget))
			io_remove_tree(dirfd(d), c[i].name, NULL);
	}
}

void template_export(struct vmm *m, const struct template_job *j, const char *point)
{
	char tmp[PATH_MAX], final[PATH_MAX], id[ID_SIZE];
	struct err err = { 0 };
	int r;

	id_make(".", id);
	cache_path(m, j, id, "", tmp, sizeof(tmp));
	cache_path(m, j, "", "", final, sizeof(final));
	r = export_to(m, tmp, point, j->text, &err);
	if (r == 0 && rename(tmp, final) < 0 && errno != EEXIST && errno != ENOTEMPTY)
		r = err_sys(&err, -errno, "name '%s'", final);
	io_remove_tree(AT_FDCWD, tmp, NULL);
	if (r < 0)
		log_obj(LOG_LV_WARN, "template", j->key, "was not put into the cache, ignoring: %s",
		        err.msg);
	prune(m);
}

void template_forget_cache(struct vmm *m, const struct template_job *j)
{
	char path[PATH_MAX];
	struct err err = { 0 };

	cache_path(m, j, "", "", path, sizeof(path));
	if (io_remove_tree(AT_FDCWD, path, &err) < 0)
		log_warn("%s, ignoring", err.msg);
}

static uint64_t number(const json_t *o, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(o, name));

	return v < 0 ? 0 : (uint64_t)v;
}

static int import_files(struct vmm *m, const struct template_job *j, const struct store_point *p,
                        struct err *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	const struct {
		const char *name, *layer;
	} files[] = { { "mem", p->mem_layer }, { "disk", p->disk_layer }, { "state", NULL } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++) {
		cache_path(m, j, "", files[i].name, from, sizeof(from));
		if (files[i].layer)
			engine_layer_path(m->engine, files[i].layer, to, sizeof(to));
		else
			engine_state_path(m->engine, p->id, to, sizeof(to));
		r = io_link_or_copy(from, to, err);
	}
	return r;
}

int template_import(struct vmm *m, const struct template_job *j, struct err *err)
{
	const struct engine_info *i = engine_info(m->engine);
	struct store_layer base,
	        layers[2] = { { .kind = LAYER_DISK, .format = "qcow2", .has_crc = true },
		              { .kind = LAYER_MEM, .format = "mem", .has_crc = true } };
	struct store_point p = { .kind = POINT_TEMPLATE, .created_ms = clock_wall_ms() };
	char path[PATH_MAX];
	json_error_t je;
	const char *key;
	json_t *o;
	int r;

	cache_path(m, j, "", "meta.json", path, sizeof(path));
	if (access(path, R_OK) < 0)
		return err_set(err, -ENOENT, "the cache has no such template");
	utimensat(AT_FDCWD, path, NULL, 0);
	o = json_load_file(path, 0, &je);
	key = json_string_value(json_object_get(o, "key"));
	if (!key || strcmp(key, j->text) != 0) {
		json_decref(o);
		return err_set(err, -EBADMSG, "'%s' is damaged", path);
	}
	p.vcpus = (uint32_t)number(o, "vcpus");
	p.mem_mb = (uint32_t)number(o, "memMb");
	p.disk_mb = (uint32_t)number(o, "diskMb");
	p.state_bytes = number(o, "stateBytes");
	p.state_crc = (uint32_t)number(o, "stateCrc");
	layers[0].bytes = number(o, "diskBytes");
	layers[0].crc = (uint32_t)number(o, "diskCrc");
	layers[1].bytes = number(o, "memBytes");
	layers[1].crc = (uint32_t)number(o, "memCrc");
	json_decref(o);
	r = template_base_layer(m, j, &base, err);
	if (r < 0)
		return r;
	id_make("pt-", p.id);
	id_make("ly-", layers[0].id);
	id_make("ly-", layers[1].id);
	snprintf(layers[0].parent, ID_SIZE, "%s", base.id);
	snprintf(p.disk_layer, ID_SIZE, "%s", layers[0].id);
	snprintf(p.mem_layer, ID_SIZE, "%s", layers[1].id);
	snprintf(p.qemu_version, sizeof(p.qemu_version), "%s", i->qemu_version);
	snprintf(p.machine, sizeof(p.machine), "%s", i->machine);
	snprintf(p.cpu, sizeof(p.cpu), "%s", i->cpu);
	snprintf(p.accel, sizeof(p.accel), "%s", accel_name(i->accel));
	if ((r = import_files(m, j, &p, err)) < 0 ||
	    (r = template_save(m, j, &p, layers, err)) < 0) {
		engine_remove_layer(m->engine, layers[0].id);
		engine_remove_layer(m->engine, layers[1].id);
		engine_remove_point(m->engine, p.id);
	}
	vmm_release(m, base.id);
	return r;
}
