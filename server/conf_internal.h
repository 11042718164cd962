/* SPDX-License-Identifier: Apache-2.0 */
/* conf_internal.h - the list of settings (conf.c), for what reads their values (conf_load.c) */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conf.h"

struct setting;
/* 0, or -EINVAL after putting what is allowed into `allowed`. */
typedef int (*check_fn)(const struct setting *s, const char *value, char *allowed, size_t size);

enum setting_type { SET_TEXT, SET_U32 };

struct setting {
	const char *name;
	enum setting_type type;
	size_t off, size;
	check_fn check;
	const char *def;   /* NULL: set_host_defaults() */
	const char *words; /* check_word: "auto kvm tcg" */
	uint32_t min, max; /* check_u32, check_pow2 */
	const char *help;
};

/* conf_check.c */
int conf_check_proxy(const struct setting *s, const char *v, char *allowed, size_t size);
int conf_check_mirrors(const struct setting *s, const char *v, char *allowed, size_t size);
int conf_check_node_address(const struct setting *s, const char *v, char *allowed, size_t size);
int conf_check_node_name(const struct setting *s, const char *v, char *allowed, size_t size);

extern const struct setting *const conf_settings;
extern const size_t conf_n_settings;
/* conf_check.c */
int check_database(const struct setting *s, const char *v, char *allowed, size_t size);
int check_objects(const struct setting *s, const char *v, char *allowed, size_t size);
int check_nets(const struct setting *s, const char *v, char *allowed, size_t size);
int check_origins(const struct setting *s, const char *v, char *allowed, size_t size);
int check_text(const struct setting *s, const char *v, char *allowed, size_t size);
int conf_parse_u32(const char *v, uint32_t *ret);
