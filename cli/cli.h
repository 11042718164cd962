/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/cli.h - what the commands of `pando` share; for files of this folder
 *
 * One file per noun (account.c, key.c, ...), each with a table of its verbs; main.c lists the
 * nouns. A verb is a row: name, arguments, options, help and a function. The function makes
 * requests with cli_call() and shows the reply with cli_show(); --json then prints the reply
 * as it came. Usage, help and wrong options fall out of the table.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/json_field.h" /* autojson */

struct err;

/* Exit status; also in `pando --help`. */
enum cli_exit {
	CLI_OK = 0,
	CLI_REFUSED = 1, /* the server said no */
	CLI_USAGE = 2,
	CLI_UNREACHABLE = 3,
	CLI_UNAUTHORIZED = 4,
};

#define CLI_ARGS_MAX 4
#define CLI_OPTS_MAX 10

struct cli_opt {
	const char *name; /* without the dashes */
	const char *arg;  /* what follows it, or NULL: a flag */
	const char *help;
};

struct cli; /* the server, the key, how to print */

/* What was given: arg[i], and for option i of the verb its value ("" for a flag), or NULL. */
struct cli_args {
	const char *arg[CLI_ARGS_MAX];
	const char *opt[CLI_OPTS_MAX];
};

struct cli_verb {
	const char *name; /* NULL: the noun stands alone */
	const char *args; /* "NAME [KEY]": brackets for those that may be missing */
	const char *help;
	int (*run)(struct cli *c, const struct cli_args *a); /* an enum cli_exit */
	struct cli_opt opts[CLI_OPTS_MAX];
};

struct cli_noun {
	const char *name, *help;
	const struct cli_verb *verbs;
	size_t n_verbs;
};
extern const struct cli_noun cli_account, cli_key, cli_audit, cli_whoami, cli_identity, cli_token,
        cli_mcp;

/* ---- client.c ---- */
struct cli *cli_new(void);
struct cli *cli_free(struct cli *c);
/* Where the server is and who we are; url and data_dir NULL: from the environment. */
int cli_connect(struct cli *c, const char *url, const char *data_dir, struct err *err);
/*
 * One request. CLI_OK and the reply in *ret (caller json_decref()s; ret may be NULL), or
 * another status after a sentence on stderr that says what to do. body may be NULL and is consumed.
 */
int cli_call(struct cli *c, const char *method, const char *path, json_t *body_consume,
             json_t **ret);
/* A path with an escaped segment or query value for each '%s'. Caller frees; never NULL. */
char *cli_path(struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds "?name=value" or "&name=value" unless value is NULL. */
void cli_query(struct cli *c, char **path, const char *name, const char *value);
void cli_set_json(struct cli *c, bool json);
bool cli_json(const struct cli *c);
/* Where we are connected to, and the header line that lets us in. */
const char *cli_url(const struct cli *c);
const char *cli_auth_header(const struct cli *c);

/* ---- show.c ---- */
struct cli_col {
	const char *title;
	const char *member; /* "usage.vms": a member of a member */
};
/* An array as a table with a line per element, or the reply itself when --json is on. */
void cli_table(const struct cli *c, const json_t *reply, const json_t *rows,
               const struct cli_col *cols, size_t n);
/* An object as "title  value" lines. */
void cli_show(const struct cli *c, const json_t *reply, const struct cli_col *cols, size_t n);
/* A sentence, unless --json is on: then the reply. */
void cli_say(const struct cli *c, const json_t *reply, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* "pando: ..." on stderr; returns status. */
int cli_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- account.c ---- */
/* The id of the account with this id or name; NULL after a sentence. Caller frees. */
char *cli_account_id(struct cli *c, const char *name);
