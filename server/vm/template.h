/* SPDX-License-Identifier: Apache-2.0 */
/* vm/template.h - parts of the making of templates; for template*.c and sizes.c only */
#pragma once

#include "vm/vm_internal.h"

/* A template that is wanted: the default one (size NULL), or that of another size. */
struct template_job {
	uint32_t vcpus, mem_mb;
	char key[32], text[1200]; /* of everything it depends on: hashed, and in full */
	struct size *size;        /* weak; sizes.c */
};
void template_job(struct vmm *m, uint32_t vcpus, uint32_t mem_mb, struct template_job *ret);
/* From the store, the cache, or a cold boot; checked. */
int template_make(struct vmm *m, const struct template_job *j, char ret_point[ID_SIZE],
                  struct err *err);

/* Opens every layer once: the checksums are compared, and the page cache is warm. */
int template_check(struct vmm *m, const char *point, struct err *err);
int template_step(struct vm *vm, const char *command, struct err *err); /* must succeed */
/* template_own.c: templates with what this server tells guests, as long as it runs */
void own_keep(struct vmm *m);
/* The point of the own one, or the shared one's as long as there is none; m->lock */
const char *own_or(const struct own *o, const char *shared);
void own_key(const char *shared, const char *told, char ret[32]); /* store_template's keys */

/* seed.c. Those without an error are for m->lock's holder. */
bool seeds_on(struct vmm *m); /* wanted, and possible as far as is known */
/* And there is none of that size, for which there is room. */
bool seed_lacking(struct vmm *m, uint32_t vcpus, uint32_t mem_mb);
bool seed_wanted(struct vmm *m, uint32_t vcpus, uint32_t mem_mb); /* the same, or there is one */
/* There is one that was given up, or whose size is out of use. */
bool seed_useless(struct vmm *m, uint32_t *ret_vcpus, uint32_t *ret_mem_mb);
bool seed_on_trial(struct vmm *m, uint32_t vcpus, uint32_t mem_mb);
/* Runs what first commands need. */
int seed_warm(struct vm *vm, struct err *err);
/* The stopped VM, just frozen into that point, is the seed from now on, and seed.c's to end. */
int seed_set(struct vmm *m, struct vm *vm, const char *point, struct err *err);
/* The trial of a new one. */
void seed_try(struct vmm *m, uint32_t vcpus, uint32_t mem_mb);
void seed_drop(struct vmm *m, uint32_t vcpus, uint32_t mem_mb);
void seeds_end(struct vmm *m);
void seed_failed(struct vmm *m, const char *why);

/* The bottom layer of its disk, held: the caller releases it. */
int template_base_layer(struct vmm *m, const struct template_job *j, struct store_layer *ret,
                        struct err *err);
/* Freezes the booted machine and records the result as the template. */
int template_freeze(struct vm *vm, const struct template_job *j, struct bringup *b,
                    struct err *err);
/* -ENOENT: the cache has none. */
int template_import(struct vmm *m, const struct template_job *j, struct err *err);
/* Puts the template into the cache for other data directories; failing is only logged. */
void template_export(struct vmm *m, const struct template_job *j, const char *point);
void template_forget_cache(struct vmm *m, const struct template_job *j);

/* sizes.c: the machine that is booted for a size, or NULL; how far it is */
void size_set_vm(struct vmm *m, struct size *s, struct vm *vm);
void size_note(struct vmm *m, struct size *s, const char *note);
/* Nobody waits for it any more: the server ends, or somebody else needs the processor. */
bool size_cut(struct vmm *m, const struct size *s);
bool size_ahead(struct vmm *m, const struct size *s); /* nobody waits for it yet */
