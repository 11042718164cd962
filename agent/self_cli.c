/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_cli.c - `pando self ...`: a program inside a VM asks about, copies or freezes that VM
 *
 * The agent under another name (/usr/bin/pando), so that the image does not grow. One request in
 * HTTP over the agent's socket; the reply is read to its end. docs/SELF.md has the exit statuses: a
 * command that comes back in another machine than the one it was started in ends with SELF_COPY.
 */
#include "agent/self.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/self_ask.h"
#include "agent/self_json.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/io.h"

#define SELF_COPY 10 /* exit status: this is the child, or what was restored */
#define CHUNK 65536

static const char usage[] =
        "usage: pando self VERB [OPTION...]\n"
        "Asks about this VM, copies it or freezes it. The VM must have been created with\n"
        "selfAccess; root and members of the group 'pando' may use it.\n"
        "\n"
        "  info                         who this VM is (works without selfAccess)\n"
        "  fork [-n COUNT]              copy it, with its memory: prints the ids of the copies in\n"
        "                               the parent, 'child INDEX of PARENT' in each copy\n"
        "       --no-inherit            the copies have no self access\n"
        "  snapshot [NAME]              prints its id, or 'restored' in what is made from it\n"
        "  suspend                      freeze it; prints 'resumed' when it runs again\n"
        "  rewind SNAPSHOT              go back to a snapshot; nothing returns from it\n"
        "       --discard               do not keep the present as a snapshot\n"
        "  children                     copies made by 'fork', and theirs\n"
        "  exec CHILD COMMAND...        run a command in one of them\n"
        "       --user USER, --timeout SECONDS\n"
        "  read CHILD FILE              its contents\n"
        "  write CHILD FILE             standard input becomes its contents\n"
        "  start CHILD, sleep CHILD     wake it up, suspend it\n"
        "  wait CHILD                   until it stops running; prints how\n"
        "  delete CHILD...\n"
        "\n"
        "  --json                       print the reply as it is\n"
        "  --socket PATH                (default " SELF_SOCK ")\n"
        "\n"
        "Exit status: 0; 10 in a copy, or in what was restored from a snapshot; 1 if it was\n"
        "refused; 2 for a mistake in the command line; 3 without self access. exec: the\n"
        "command's own.\n";

struct self_opts {
	struct self_dial dial;
	bool json, no_inherit, discard;
	long count, timeout_s;
};

/* 0, or what the program ends with. */
static int call(const struct self_opts *o, const char *method, const char *path, const char *body,
                size_t n, struct answer *ret)
{
	return self_ask(&o->dial, method, path, body, n, ret);
}

static void print_body(const struct answer *a)
{
	fwrite(a->body, 1, a->n, stdout);
	putchar('\n');
}

/* ---- verbs ---- */

/* What came back, where: 0 or SELF_COPY. */
static int came_back(const struct self_opts *o, const struct answer *a)
{
	struct jval v = jval_of(a->body, a->n);
	char role[16], id[AGENT_WHO_ID], parent[AGENT_WHO_ID];
	bool child;

	jval_word(jval_get(v, "role"), role, sizeof(role));
	jval_word(jval_get(v, "id"), id, sizeof(id));
	jval_word(jval_get(v, "parent"), parent, sizeof(parent));
	child = strcmp(role, "child") == 0;
	if (o->json)
		print_body(a);
	else if (child)
		printf("child %ld of %s\n", jval_number(jval_get(v, "index"), 0), parent);
	else
		printf("%s\n", role);
	return child || strcmp(role, "restored") == 0 ? SELF_COPY : 0;
}

static int self_fork(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	char body[96], id[AGENT_WHO_ID];
	struct jval v, children, child;
	size_t at = 0;
	int r;

	snprintf(body, sizeof(body), "{\"count\":%ld,\"inherit\":%s}", o->count,
	         o->no_inherit ? "false" : "true");
	if ((r = call(o, "POST", "/fork", body, strlen(body), &a)) != 0)
		return r;
	v = jval_of(a.body, a.n);
	children = jval_get(v, "children");
	if (!children.p || o->json)
		return came_back(o, &a);
	while ((child = jval_next(children, &at)).p)
		printf("%s\n", jval_word(child, id, sizeof(id)));
	return 0;
}

static int self_snapshot(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	autobuf struct buf body = { 0 };
	char id[AGENT_WHO_ID];
	int r;

	buf_printf(&body, "{\"name\":");
	if (argc)
		json_quote(&body, argv[0]);
	else
		buf_printf(&body, "null");
	buf_printf(&body, "}");
	if (body.failed)
		return self_complain("snapshot", "out of memory");
	if ((r = call(o, "POST", "/snapshot", (char *)body.p, body.len, &a)) != 0)
		return r;
	jval_word(jval_get(jval_of(a.body, a.n), "snapshotId"), id, sizeof(id));
	if (!*id || o->json)
		return came_back(o, &a);
	printf("%s\n", id);
	return 0;
}

static int self_suspend(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	int r = call(o, "POST", "/suspend", "", 0, &a);

	return r ? r : came_back(o, &a);
}

static int self_rewind(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	autobuf struct buf body = { 0 };
	int r;

	buf_printf(&body, "{\"keep\":%s,\"snapshotId\":", o->discard ? "false" : "true");
	json_quote(&body, argv[0]);
	buf_printf(&body, "}");
	if (body.failed)
		return self_complain("rewind", "out of memory");
	r = call(o, "POST", "/rewind", (char *)body.p, body.len, &a);
	return r ? r : self_complain("rewind", "it returned");
}

static int self_info(const struct self_opts *o, int argc, char **argv)
{
	static const char *const members[] = { "id",    "parent", "index",
		                               "count", "event",  "selfAccess" };
	autofree char *text = NULL;
	struct jval v;

	if (io_read_file(AT_FDCWD, SELF_JSON, CHUNK, &text, NULL) < 0)
		return self_complain(SELF_JSON, "it cannot be read: is this a VM of Pando?");
	if (o->json) {
		printf("%.*s\n", (int)strcspn(text, "\n"), text);
		return 0;
	}
	v = jval_of(text, strlen(text));
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		struct jval m = jval_get(v, members[i]);
		char word[AGENT_WHO_ID];

		jval_word(m, word, sizeof(word));
		if (*word)
			printf("%-11s %s\n", members[i], word);
		else if (m.p && m.n && strncmp(m.p, "null", 4) != 0)
			printf("%-11s %.*s\n", members[i], (int)m.n, m.p);
	}
	return 0;
}

static int self_children(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	struct jval list, child;
	size_t at = 0;
	int r = call(o, "GET", "/children", "", 0, &a);

	if (r)
		return r;
	if (o->json) {
		print_body(&a);
		return 0;
	}
	list = jval_get(jval_of(a.body, a.n), "children");
	while ((child = jval_next(list, &at)).p) {
		char id[AGENT_WHO_ID], state[24], parent[AGENT_WHO_ID];

		printf("%s %s %ld of %s\n", jval_word(jval_get(child, "id"), id, sizeof(id)),
		       jval_word(jval_get(child, "state"), state, sizeof(state)),
		       jval_number(jval_get(child, "index"), 0),
		       jval_word(jval_get(child, "parent"), parent, sizeof(parent)));
	}
	return 0;
}

/* /children/ID and the rest; false: that is no id. */
static bool child_path(char *dst, size_t size, const char *id, const char *rest)
{
	if (!*id || strlen(id) >= AGENT_WHO_ID ||
	    id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789")]) {
		fprintf(stderr, "pando self: '%s' is not the id of a VM\n", id);
		return false;
	}
	snprintf(dst, size, "/children/%s%s", id, rest);
	return true;
}

/* Words as a shell reads them back; one alone is a command line already. */
static void join(struct buf *b, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (argc == 1) {
			buf_printf(b, "%s", argv[i]);
			return;
		}
		buf_printf(b, "%s'", i ? " " : "");
		for (const char *p = argv[i]; *p; p++)
			if (*p == '\'')
				buf_printf(b, "'\\''");
			else
				buf_put(b, p, 1);
		buf_printf(b, "'");
	}
}

static int self_exec(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	autobuf struct buf line = { 0 }, body = { 0 }, out = { 0 }, errors = { 0 };
	autofree char *command = NULL;
	char path[96];
	struct jval v;
	int r;

	join(&line, argc - 1, argv + 1);
	command = buf_take_str(&line);
	buf_printf(&body, "{");
	if (o->timeout_s > 0)
		buf_printf(&body, "\"timeoutMs\":%ld,", o->timeout_s * 1000);
	buf_printf(&body, "\"command\":");
	json_quote(&body, command ? command : "");
	buf_printf(&body, "}");
	if (!command || body.failed)
		return self_complain("exec", "out of memory");
	if (!child_path(path, sizeof(path), argv[0], "/exec-await"))
		return EXIT_USAGE;
	if ((r = call(o, "POST", path, (char *)body.p, body.len, &a)) != 0)
		return r;
	if (o->json) {
		print_body(&a);
		return 0;
	}
	v = jval_of(a.body, a.n);
	if (jval_text(jval_get(v, "stdout"), &out))
		fwrite(out.p, 1, out.len, stdout);
	if (jval_text(jval_get(v, "stderr"), &errors))
		fwrite(errors.p, 1, errors.len, stderr);
	return (int)jval_number(jval_get(v, "statusCode"), EXIT_REFUSED);
}

static bool file_path(struct buf *b, const char *id, const char *file)
{
	char path[96];

	if (!child_path(path, sizeof(path), id, "/raw-files/"))
		return false;
	buf_printf(b, "%s", path);
	for (const char *p = file; *p; p++)
		if (isalnum((unsigned char)*p) || strchr("._-", *p))
			buf_put(b, p, 1);
		else
			buf_printf(b, "%%%02X", (unsigned char)*p);
	buf_put_u8(b, '\0');
	return !b->failed;
}

static int self_read(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	autobuf struct buf path = { 0 };
	int r;

	if (!file_path(&path, argv[0], argv[1]))
		return EXIT_USAGE;
	if ((r = call(o, "GET", (char *)path.p, "", 0, &a)) != 0)
		return r;
	return fwrite(a.body, 1, a.n, stdout) == a.n ? 0 : self_complain("stdout", strerror(errno));
}

static int self_write(const struct self_opts *o, int argc, char **argv)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	autobuf struct buf path = { 0 }, in = { 0 };
	ssize_t n;

	if (!file_path(&path, argv[0], argv[1]))
		return EXIT_USAGE;
	do {
		uint8_t *p = buf_reserve(&in, CHUNK);

		n = p ? read(0, p, CHUNK) : -1;
		in.len += (size_t)MAX(n, 0);
	} while (n > 0 && in.len <= REPLY_MAX);
	if (n != 0)
		return self_complain("stdin", "it cannot be read, or is too large");
	return call(o, "PUT", (char *)path.p, (char *)in.p, in.len, &a);
}

static int on_child(const struct self_opts *o, const char *method, const char *id, const char *rest,
                    const char *member)
{
	AUTO(self_answer_done) struct answer a = { 0 };
	char path[96], word[32];
	int r;

	if (!child_path(path, sizeof(path), id, rest))
		return EXIT_USAGE;
	if ((r = call(o, method, path, "", 0, &a)) != 0)
		return r;
	if (o->json)
		print_body(&a);
	else if (member)
		printf("%s\n",
		       jval_word(jval_get(jval_of(a.body, a.n), member), word, sizeof(word)));
	return 0;
}

static int self_start(const struct self_opts *o, int argc, char **argv)
{
	return on_child(o, "POST", argv[0], "/start", NULL);
}

static int self_sleep(const struct self_opts *o, int argc, char **argv)
{
	return on_child(o, "POST", argv[0], "/suspend", NULL);
}

static int self_wait(const struct self_opts *o, int argc, char **argv)
{
	return on_child(o, "POST", argv[0], "/await", "exitStatus");
}

static int self_delete(const struct self_opts *o, int argc, char **argv)
{
	int worst = 0;

	for (int i = 0; i < argc; i++) {
		int r = on_child(o, "DELETE", argv[i], "", NULL);

		worst = MAX(worst, r);
	}
	return worst;
}

static const struct {
	const char *name;
	int min, max; /* arguments */
	int (*run)(const struct self_opts *o, int argc, char **argv);
} verbs[] = {
	{ "info", 0, 0, self_info },         { "fork", 0, 0, self_fork },
	{ "snapshot", 0, 1, self_snapshot }, { "suspend", 0, 0, self_suspend },
	{ "rewind", 1, 1, self_rewind },     { "children", 0, 0, self_children },
	{ "exec", 2, 4096, self_exec },      { "read", 2, 2, self_read },
	{ "write", 2, 2, self_write },       { "start", 1, 1, self_start },
	{ "sleep", 1, 1, self_sleep },       { "wait", 1, 1, self_wait },
	{ "delete", 1, 4096, self_delete },
};

static int misused(const char *why, const char *what)
{
	fprintf(stderr, "pando self: %s%s; see 'pando self --help'\n", why, what);
	return EXIT_USAGE;
}

/* first_only: as far as the first word that is no option; else all, and the words come last. */
static int parse(int argc, char **argv, bool first_only, struct self_opts *o)
{
	static const struct option opts[] = {
		{ "count", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "no-inherit", no_argument, NULL, 'I' },
		{ "discard", no_argument, NULL, 'd' },
		{ "user", required_argument, NULL, 'u' },
		{ "timeout", required_argument, NULL, 't' },
		{ "socket", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, first_only ? "+n:h" : "n:h", opts, NULL)) != -1) {
		switch (c) {
		case 'n':
			o->count = strtol(optarg, NULL, 10);
			break;
		case 'j':
			o->json = true;
			break;
		case 'I':
			o->no_inherit = true;
			break;
		case 'd':
			o->discard = true;
			break;
		case 'u':
			o->dial.user = optarg;
			break;
		case 't':
			o->timeout_s = strtol(optarg, NULL, 10);
			break;
		case 's':
			o->dial.socket = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			return EXIT_USAGE;
		}
	}
	return 0;
}

/* The verb's words, from argv[0] = its name on: their number, or -1 for a mistake. */
static int words_of(int argc, char **argv, struct self_opts *o, char ***ret)
{
	char *child;

	if (strcmp(argv[0], "exec") != 0) {
		if (parse(argc, argv, /* first_only= */ false, o) != 0)
			return -1;
		*ret = argv + optind;
		return argc - optind;
	}
	/* What follows the child is another program's command line. */
	if (parse(argc, argv, /* first_only= */ true, o) != 0)
		return -1;
	argc -= optind;
	argv += optind;
	child = argv[0];
	*ret = argv;
	if (argc < 2)
		return argc;
	if (parse(argc, argv, /* first_only= */ true, o) != 0)
		return -1;
	*ret = argv + optind - 1;
	(*ret)[0] = child;
	return argc - optind + 1;
}

int self_main(int argc, char **argv)
{
	struct self_opts o = { .dial.socket = SELF_SOCK, .count = 1 };
	char **words;
	int n, r;

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		fputs(usage, argc < 2 ? stderr : stdout);
		return argc < 2 ? EXIT_USAGE : 0;
	}
	if (strcmp(argv[1], "self") != 0)
		return misused("inside a VM there is only 'pando self', not 'pando' ", argv[1]);
	if (parse(argc - 1, argv + 1, /* first_only= */ true, &o) != 0)
		return EXIT_USAGE;
	argc -= 1 + optind;
	argv += 1 + optind;
	if (argc < 1)
		return misused("no verb", "");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].name, argv[0]) != 0)
			continue;
		n = words_of(argc, argv, &o, &words);
		if (n < 0)
			return EXIT_USAGE;
		if (n < verbs[i].min || n > verbs[i].max)
			return misused("wrong number of arguments for ", verbs[i].name);
		if (o.count < 1)
			return misused("-n must be a number from 1 on", "");
		r = verbs[i].run(&o, n, words);
		return fflush(stdout) == 0 ? r : self_complain("stdout", strerror(errno));
	}
	return misused("there is no verb ", argv[0]);
}
