/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/cli.h - shared by the commands of `pando`; for files of this folder
 *
 * A file defines one or more groups of verbs (struct cli_noun); table.c lists the groups, and
 * several may have the same noun: `pando vm` consists of several files. A verb is a row: name,
 * arguments, typed options, help and a function. Everything else is derived from the table: parsing
 * and its errors (args.c), --help and the man pages (doc.c), completion (complete.c).
 *
 * The function makes requests with cli_call() or cli_stream() and shows the reply with
 * cli_table(), cli_show() or cli_say(); --json then prints the reply as it came.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json_field.h" /* autojson */

struct err;

/* Exit status; also in `pando --help`. Commands that run something pass on its status instead. */
enum cli_exit {
	CLI_OK = 0,
	CLI_REFUSED = 1, /* the server rejected it */
	CLI_USAGE = 2,
	CLI_UNREACHABLE = 3,
	CLI_UNAUTHORIZED = 4,
	CLI_INTERRUPTED = 130, /* Ctrl-C */
};

#define CLI_ARGS_MAX 4
#define CLI_OPTS_MAX 20

enum cli_type {
	CLI_TEXT,
	CLI_NUMBER,   /* min to max */
	CLI_CHOICE,   /* one of choices */
	CLI_DURATION, /* 30, 30s, 5m, 2h, 1d: num is in ms; a bare number is seconds */
	CLI_LIST,     /* may be given several times */
};

struct cli_opt {
	const char *name; /* without the dashes */
	const char *arg;  /* what follows it, or NULL: a flag. VM, SNAPSHOT, FILE are completed */
	const char *help;
	char letter; /* -x, or 0 */
	enum cli_type type;
	const char *choices; /* CLI_CHOICE: "python bash" */
	long long min, max;  /* CLI_NUMBER */
};

struct cli; /* the server, the key, how to print */

/* The parsed command line: arg[i], and for option i of the verb its value ("" for a flag), or NULL.
 */
struct cli_args {
	const char *arg[CLI_ARGS_MAX];
	const char *opt[CLI_OPTS_MAX];
	long long num[CLI_OPTS_MAX]; /* of numbers and durations */
	struct cli_list {
		const char **v; /* owned by the parser, as are the words */
		size_t n;
	} list[CLI_OPTS_MAX];
	bool dashes;       /* "--" came before the first word */
	const char **rest; /* the words of "NAME...", NULL-terminated */
	size_t n_rest;
};

enum cli_flags {
	CLI_LOCAL = 1,  /* needs no server: cli_connect() was not called, but cli_asked() knows */
	CLI_HIDDEN = 2, /* not in help, man pages and completion */
	CLI_STOP = 4,   /* options end where "NAME..." begins: the rest is another program's command
	                   line */
};

struct cli_verb {
	const char *name; /* NULL: the noun stands alone */
	const char *args; /* "NAME [KEY]": brackets for optional ones; "FILE..." */
	const char *help; /* one line */
	int (*run)(struct cli *c, const struct cli_args *a); /* an enum cli_exit */
	struct cli_opt opts[CLI_OPTS_MAX];
	unsigned flags;
	const char *about;    /* paragraphs for --help and the man page, or NULL */
	const char *examples; /* lines "command # what it does", or NULL */
};

struct cli_noun {
	const char *name, *help; /* help NULL: more verbs for an existing noun */
	const struct cli_verb *verbs;
	size_t n_verbs;
	const char *about; /* paragraphs, or NULL */
};

/* ---- table.c ---- */
extern const struct cli_noun *const cli_nouns[]; /* NULL at the end */
/* The group that has the noun's help; NULL if there is none of that name. */
const struct cli_noun *cli_find_noun(const char *name);
/* The verb in any of the noun's groups; name NULL or no verbs with names: the noun's own. */
const struct cli_verb *cli_find_verb(const struct cli_noun *noun, const char *name);
/* The i-th verb of a noun across all of its groups, NULL after the last. */
const struct cli_verb *cli_nth_verb(const struct cli_noun *noun, size_t i);

/* ---- args.c ---- */
enum {
	GLOBAL_URL,
	GLOBAL_DIR,
	GLOBAL_JSON,
	GLOBAL_HELP,
	GLOBAL_VERSION,
	GLOBAL_MAX,
};
extern const struct cli_opt cli_globals[GLOBAL_MAX];
struct cli_parsed {
	const struct cli_noun *noun;
	const struct cli_verb *verb;
	const char *global[GLOBAL_MAX];
	struct cli_args args;
	const char **words; /* owned */
	size_t n_words;
};
/* Parses a command line; -EINVAL with a message. Always call cli_parsed_done(). */
int cli_parse(struct cli_parsed *p, int argc, char **argv, struct err *err);
/* Are all arguments given? -EINVAL with a message. */
int cli_parsed_check(struct cli_parsed *p, struct err *err);
void cli_parsed_done(struct cli_parsed *p);
/* "90", "30s", "5m", "2h", "1d"; -EINVAL. */
int cli_duration(const char *s, long long *ret_ms);

/* ---- doc.c, doc_text.c, doc_man.c, doc_md.c: help and man pages from the table ---- */
void cli_help_all(FILE *f);
void cli_help_noun(FILE *f, const struct cli_noun *n);
void cli_help_verb(FILE *f, const struct cli_noun *n, const struct cli_verb *v);
/* n NULL: pando(1) itself. */
void cli_man(FILE *f, const struct cli_noun *n);
void cli_markdown(FILE *f); /* all commands: docs/COMMANDS.md */

/* ---- client.c ---- */
struct cli *cli_new(void);
struct cli *cli_free(struct cli *c);
/* --url and --data-dir, NULL if not given; for what looks for the server itself. */
void cli_ask_for(struct cli *c, const char *url, const char *data_dir);
void cli_asked(const struct cli *c, const char **ret_url, const char **ret_data_dir);
/* Finds server and key; url and data_dir NULL: environment, then config. */
int cli_connect(struct cli *c, const char *url, const char *data_dir, struct err *err);
/*
 * One request. CLI_OK and the reply in *ret (caller json_decref()s; ret may be NULL), or another
 * status after an error message on stderr that says what to do. body may be NULL and is consumed.
 */
int cli_call(struct cli *c, const char *method, const char *path, json_t *body_consume,
             json_t **ret);
/* The same as a Linux user of the VM (NULL: the default one). */
int cli_call_as(struct cli *c, const char *user, const char *method, const char *path,
                json_t *body_consume, json_t **ret);
/*
 * The same without a message on stderr: the HTTP status, or -errno with a message if there was no
 * reply. *ret is the reply, success or error; NULL if it is not JSON.
 */
int cli_try(struct cli *c, const char *user, const char *method, const char *path,
            json_t *body_consume, json_t **ret, struct err *err);
/* A POST that takes a few seconds at most, for when something else is waiting. Like cli_try().
 */
int cli_tell(struct cli *c, const char *user, const char *path, json_t *body_consume);
/* Prints the message of an error reply; returns the exit status. */
int cli_refused(struct cli *c, long status, const json_t *reply);
/* What the server remarked about the request (members it does not know), of a curl handle. */
void cli_show_warning(void *easy);
/* A path with an escaped segment or query value for each '%s'. Caller frees; never NULL. */
char *cli_path(struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds "?name=value" or "&name=value" unless value is NULL. */
void cli_query(struct cli *c, char **path, const char *name, const char *value);
/* The text of a file with a secret; "-" is stdin. NULL after an error message; caller frees. */
char *cli_read_secret(const char *file);
void cli_set_json(struct cli *c, bool json);
bool cli_json(const struct cli *c);
/* Instead of cli_connect(): this server and this key. */
void cli_set_target(struct cli *c, const char *url, const char *key, const char *from);
/* The same server and key with separate connections, for a thread. Never NULL. */
struct cli *cli_clone(const struct cli *c);
/* The server's address, and the header line that authenticates us. */
const char *cli_url(const struct cli *c);
const char *cli_auth_header(const struct cli *c);
/* Prints an error and ends the program. */
_Noreturn void cli_oom(void);

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
/* Prints a message, or with --json the reply. */
void cli_say(const struct cli *c, const json_t *reply, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* "pando: ..." on stderr; returns status. */
int cli_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints untrusted text: control characters are shown as '?'. */
void cli_put_text(FILE *f, const char *s);
/* A JSON value as --json prints it. */
void cli_dump(const json_t *reply);
/* A string member, or "" when there is none. */
const char *cli_str(const json_t *object, const char *member);

/* ---- account.c ---- */
/* The id of the account with this id or name; NULL after an error message. Caller frees. */
char *cli_account_id(struct cli *c, const char *name);
