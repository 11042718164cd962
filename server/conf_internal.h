/* SPDX-License-Identifier: Apache-2.0 */
/* conf_internal.h - one setting, and what its value may be; for conf.c and conf_check.c only */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

int parse_u32(const char *v, uint32_t *ret);

/* ---- conf_check.c ---- */
int check_path(const struct setting *s, const char *v, char *allowed, size_t size);
int check_opt_path(const struct setting *s, const char *v, char *allowed, size_t size);
int check_listen(const struct setting *s, const char *v, char *allowed, size_t size);
int check_listen_or_none(const struct setting *s, const char *v, char *allowed, size_t size);
int check_url(const struct setting *s, const char *v, char *allowed, size_t size);
int check_server(const struct setting *s, const char *v, char *allowed, size_t size);
int check_email(const struct setting *s, const char *v, char *allowed, size_t size);
int check_addr(const struct setting *s, const char *v, char *allowed, size_t size);
int check_opt_host(const struct setting *s, const char *v, char *allowed, size_t size);
int check_domain(const struct setting *s, const char *v, char *allowed, size_t size);
int check_word(const struct setting *s, const char *v, char *allowed, size_t size);
int check_u32(const struct setting *s, const char *v, char *allowed, size_t size);
int check_pow2(const struct setting *s, const char *v, char *allowed, size_t size);
int check_origins(const struct setting *s, const char *v, char *allowed, size_t size);
int check_strangers(const struct setting *s, const char *v, char *allowed, size_t size);
int check_nets(const struct setting *s, const char *v, char *allowed, size_t size);
