/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - pando run: run a program in a temporary VM
 *
 * create a VM -> copy the file in -> run it with its arguments, our stdin and stdout -> delete the
 * VM. TypeScript has no interpreter of its own in the guest: a cell in the JavaScript kernel, which
 * has the compiler loaded, strips the types, and the result runs like any other program.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/cell.h"
#include "cli/cli.h"
#include "cli/ephemeral.h"
#include "cli/exec.h"
#include "cli/transfer.h"

#define HOME "/root"

enum { O_LANGUAGE, O_ENV, O_TIMEOUT, O_SNAPSHOT, O_COPY };

struct job {
	const char *file;        /* NULL: a command */
	const char *language;    /* NULL: the file has a #! line */
	const char *interpreter; /* NULL: as above */
};

static const struct {
	const char *language, *program;
} interpreters[] = { { "python", "python3" },
	             { "javascript", "node" },
	             { "typescript", "node" },
	             { "bash", "bash" },
	             { "ruby", "ruby" } };

/*
 * Writes the file without its types and prints its new name: one that neither imports nor uses
 * top-level await is CommonJS and may use require().
 */
static const char strip_types[] =
        "const fs = require('node:fs'), { stripTypeScriptTypes } = require('node:module');\n"
        "const lib = (n) => { try { return require(n); }\n"
        "  catch { return require('/usr/share/nodejs/' + n); } };\n"
        "const text = fs.readFileSync(file, 'utf8');\n"
        "const name = /\\.[cm]?ts$/.test(file) ? file : file + '.ts';\n"
        "const js = stripTypeScriptTypes ? stripTypeScriptTypes(text, { mode: 'transform' })\n"
        "  : lib('@babel/core').transformSync(text, { filename: name, configFile: false,\n"
        "      babelrc: false, sourceType: 'module', retainLines: true,\n"
        "      presets: [lib('@babel/preset-typescript')] }).code;\n"
        "let kind = '.cjs';\n"
        "try { new (require('node:vm').Script)(`(function () {${js.replace(/^#!.*/, '')}\\n})`); "
        "}\n"
        "catch { kind = '.mjs'; }\n"
        "fs.writeFileSync(file + kind, js);\n"
        "process.stdout.write(file + kind);\n";

static bool has_shebang(const char *file)
{
	autofd int fd = open(file, O_RDONLY | O_CLOEXEC);
	char two[2];

	return fd >= 0 && read(fd, two, 2) == 2 && memcmp(two, "#!", 2) == 0;
}

static int plan(const struct cli_args *a, struct job *j)
{
	bool is_stdin;

	if (a->dashes && !a->opt[O_LANGUAGE])
		return CLI_OK;
	j->file = a->n_rest ? a->rest[0] : "-";
	is_stdin = strcmp(j->file, "-") == 0;
	if (is_stdin && isatty(STDIN_FILENO))
		return cli_fail(
		        CLI_USAGE,
		        "nothing to run: give a file, '-' for stdin, or a command after --");
	if (!is_stdin && access(j->file, R_OK) < 0)
		return cli_fail(CLI_USAGE, "%s: %s", j->file, strerror(errno));
	j->language = a->opt[O_LANGUAGE] ? cell_language(a->opt[O_LANGUAGE])
	                                 : cell_language_of_file(j->file);
	for (size_t i = 0; j->language && i < ARRAY_SIZE(interpreters); i++)
		if (strcmp(interpreters[i].language, j->language) == 0)
			j->interpreter = interpreters[i].program;
	if (!j->language && !is_stdin && !has_shebang(j->file))
		return cli_fail(CLI_USAGE, "cannot tell the language of '%s' from its name: use -l",
		                j->file);
	if (!j->language && is_stdin)
		return cli_fail(CLI_USAGE,
		                "use -l for the language on stdin: python, js, ts or bash");
	return CLI_OK;
}

/* The program's file in the VM; caller frees. */
static int bring_file(struct cli *c, const char *vm, const struct job *j, char **ret)
{
	const char *slash = strrchr(j->file, '/');
	bool is_stdin = strcmp(j->file, "-") == 0;
	struct transfer t = { .c = c, .vm = vm };
	autofd int fd = is_stdin ? dup(STDIN_FILENO) : open(j->file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return cli_fail(CLI_USAGE, "%s: %s", j->file, strerror(errno));
	if (asprintf(ret, HOME "/%s", is_stdin ? "stdin" : slash ? slash + 1 : j->file) < 0)
		cli_oom();
	return transfer_put(&t, fd, j->file, 0755, *ret);
}

/* *path becomes the program without types. */
static int without_types(struct cli *c, const char *vm, char **path)
{
	autojson json_t *name = json_string(*path), *reply = NULL;
	autofree char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL, *code = NULL;
	autofree char *route = cli_path(c, "/v1/vms/%s/code", vm);
	const json_t *error;
	int r;

	if (!quoted)
		return cli_fail(CLI_USAGE, "the file's name is not UTF-8");
	if (asprintf(&code, "const file = %s;\n%s", quoted, strip_types) < 0)
		cli_oom();
	r = cli_call(c, "POST", route,
	             json_pack("{s:s, s:s}", "language", "typescript", "code", code), &reply);
	if (r != CLI_OK)
		return r;
	error = json_object_get(reply, "error");
	if (json_is_object(error)) {
		fprintf(stderr, "%s: %s\n", cli_str(error, "name"), cli_str(error, "value"));
		return 1;
	}
	free(*path);
	*path = strdup(cli_str(reply, "stdout"));
	if (!*path)
		cli_oom();
	return CLI_OK;
}

static int bring_more(struct cli *c, const char *vm, const struct cli_list *l)
{
	struct transfer t = { .c = c, .vm = vm };

	for (size_t i = 0; i < l->n; i++) {
		autofd int fd = open(l->v[i], O_RDONLY | O_CLOEXEC);
		const char *slash = strrchr(l->v[i], '/');
		autofree char *path = NULL;
		struct stat st;
		int r;

		if (fd < 0 || fstat(fd, &st) < 0)
			return cli_fail(CLI_USAGE, "%s: %s", l->v[i], strerror(errno));
		if (asprintf(&path, HOME "/%s", slash ? slash + 1 : l->v[i]) < 0)
			cli_oom();
		r = S_ISDIR(st.st_mode)
		            ? transfer_put_dir(&t, l->v[i], path)
		            : transfer_put(&t, fd, l->v[i], (int)(st.st_mode & 0777), path);
		if (r != CLI_OK)
			return r;
	}
	return CLI_OK;
}

static int run_in(struct cli *c, const struct cli_args *a, const char *vm, const struct job *j)
{
	autofree char *path = NULL, *command = NULL;
	autofree const char **words = calloc(a->n_rest + 3, sizeof(*words));
	struct exec_opts o = {
		.vm = vm, .cwd = HOME, .env = &a->list[O_ENV], .timeout_ms = a->num[O_TIMEOUT]
	};
	size_t n = 0;
	int r;

	if (!words)
		cli_oom();
	if ((r = bring_more(c, vm, &a->list[O_COPY])) != CLI_OK)
		return r;
	if (j->file && (r = bring_file(c, vm, j, &path)) != CLI_OK)
		return r;
	if (j->language && strcmp(j->language, "typescript") == 0 &&
	    (r = without_types(c, vm, &path)) != CLI_OK)
		return r;
	if (j->interpreter)
		words[n++] = j->interpreter;
	if (path)
		words[n++] = path;
	for (size_t i = path ? 1 : 0; i < a->n_rest; i++)
		words[n++] = a->rest[i];
	o.no_stdin = j->file && strcmp(j->file, "-") == 0;
	command = exec_command(words, n);
	o.command = command;
	return cli_exec(c, &o);
}

static int run(struct cli *c, const struct cli_args *a)
{
	struct ephemeral *e = NULL;
	struct job j = { 0 };
	int r = plan(a, &j);

	if (r != CLI_OK)
		return r;
	if (!j.file && !a->n_rest)
		return cli_fail(
		        CLI_USAGE,
		        "nothing to run: give a file, '-' for stdin, or a command after --");
	if ((r = ephemeral_new(c, a->opt[O_SNAPSHOT], &e)) != CLI_OK)
		return r;
	r = run_in(c, a, ephemeral_id(e), &j);
	ephemeral_free(e);
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ NULL, "[FILE]...", "run a program or command in a new VM, which is deleted afterwards", run,
	  { { "language", "LANGUAGE", "its language; default: from the file's name, or its #! line", 'l', CLI_CHOICE,
	      "python javascript typescript bash ruby py js ts sh rb" },
	    { "env", "NAME=VALUE", "set this variable; NAME alone: copy it from here", 'e', CLI_LIST },
	    { "timeout", "TIME", "time limit, like 30s", 't', CLI_DURATION },
	    { "snapshot", "SNAPSHOT", "in a VM from this snapshot", 's' },
	    { "copy", "FILE", "copy this file or directory into the VM, next to the program", .type = CLI_LIST } },
	  CLI_STOP,
	  "What follows FILE are its arguments; without FILE, or with '-', the program is on "
	           "stdin and -l names its language. Everything after -- is a command. Output, stdin "
	           "and exit status are the program's. The VM is deleted when the program has ended, "
	           "even by Ctrl-C; if this command is killed, the server deletes the VM minutes later.",
	  "pando run hello.py a b # a file with arguments\n"
	  "echo 'console.log(1 + 1)' | pando run -l js # a program on stdin\n"
	  "pando run --copy src -- make -C src test # a command, with a directory" },
};
/* clang-format on */
const struct cli_noun cli_run = { "run", "run a program in a temporary VM", verbs,
	                          ARRAY_SIZE(verbs) };
