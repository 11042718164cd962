/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c - pando code: a prompt on a kernel of a VM, or one piece of code
 *
 * The kernel lives in the VM and keeps its variables; this file does line editing, history and
 * output. While a line is edited Ctrl-C is a key that discards the input; while a cell runs it is a
 * signal that interrupts the cell.
 */
#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/cell.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/ephemeral.h"
#include "cli/repl_input.h"
#include "cli/resolve.h"

#define CODE_MAX (224u << 10)
#define HISTORY_MAX 2000
#define LANGUAGES "python javascript typescript bash ruby py js ts sh rb"

enum {
	O_LANGUAGE,
	O_EVAL,
	O_FILE,
	O_CONTEXT,
	O_NEW,
	O_LIST,
	O_USER,
	O_TIMEOUT,
	O_IMAGES,
	O_SAVE,
	O_SNAPSHOT
};

struct repl {
	struct cli *c;
	struct cell_opts cell;
	EditLine *el;
	History *history;
	bool more, cancelled;
	struct termios before; /* of the terminal */
	char file[512];        /* of the history */
};

static char *on_prompt(EditLine *el)
{
	static char py[] = "py> ", js[] = "js> ", ts[] = "ts> ", sh[] = "sh> ", next[] = "... ";
	struct repl *r = NULL;
	char first;

	el_get(el, EL_CLIENTDATA, &r);
	first = *r->cell.language;
	return r->more ? next : first == 'p' ? py : first == 'j' ? js : first == 't' ? ts : sh;
}

static unsigned char on_cancel(EditLine *el, int ch)
{
	struct repl *r = NULL;

	el_get(el, EL_CLIENTDATA, &r);
	r->cancelled = true;
	fputs("^C\n", stdout);
	fflush(stdout);
	return CC_NEWLINE;
}

static void start_editor(struct repl *r)
{
	HistEvent ev;
	char name[64];

	tcgetattr(STDIN_FILENO, &r->before);
	r->el = el_init("pando", stdin, stdout, stderr);
	r->history = history_init();
	if (!r->el || !r->history)
		cli_oom();
	el_set(r->el, EL_CLIENTDATA, r);
	el_set(r->el, EL_PROMPT, on_prompt);
	el_set(r->el, EL_EDITOR, "emacs");
	el_set(r->el, EL_SIGNAL, 0);
	el_set(r->el, EL_HIST, history, r->history);
	history(r->history, &ev, H_SETSIZE, HISTORY_MAX);
	history(r->history, &ev, H_SETUNIQUE, 1);
	el_source(r->el, NULL);
	el_set(r->el, EL_ADDFN, "pando-cancel", "drop the line", on_cancel);
	el_set(r->el, EL_BIND, "^C", "pando-cancel", NULL);
	el_set(r->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
	el_set(r->el, EL_SETTY, "-d", "-isig", NULL);
	snprintf(name, sizeof(name), "history-%s", r->cell.language);
	if (config_state_path(name, r->file, sizeof(r->file), NULL) < 0)
		r->file[0] = '\0';
	if (r->file[0])
		history(r->history, &ev, H_LOAD, r->file);
}

static void end_editor(struct repl *r)
{
	HistEvent ev;
	mode_t old = umask(077);

	if (r->file[0])
		history(r->history, &ev, H_SAVE, r->file);
	umask(old);
	history_end(r->history);
	el_end(r->el);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &r->before);
}

/*
 * The editor takes over the terminal only after it has drawn the prompt, and releases it with
 * every line: input typed in between would be echoed twice, a Ctrl-D lost, and a Ctrl-C would end
 * us. So the terminal stays in raw mode without echo all the time, and signals are enabled only
 * while a cell runs.
 */
static void terminal_waits(bool signals)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t) < 0)
		return;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	t.c_lflag |= signals ? ISIG : 0;
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

/* A cell, NULL at the end of input; "" if it was discarded. Caller frees. */
static char *read_cell(struct repl *r)
{
	struct buf b = { 0 };
	HistEvent ev;
	char *s;

	r->more = r->cancelled = false;
	do {
		const char *line;
		int n = 0;

		terminal_waits(false);
		line = el_gets(r->el, &n);
		terminal_waits(true);
		if (r->cancelled) {
			buf_done(&b);
			return strdup("");
		}
		if (!line || n <= 0) {
			if (!b.len)
				return NULL;
			break; /* Ctrl-D ends a cell of several lines */
		}
		if (line[strspn(line, " \t\n")])
			history(r->history, &ev, H_ENTER, line);
		buf_put(&b, line, strlen(line));
		buf_put(&b, "", 1);
		b.len--; /* a string, for now */
		r->more = true;
	} while (repl_wants_more(r->cell.language, (const char *)b.p));
	s = buf_take_str(&b);
	if (!s)
		cli_oom();
	return s;
}

static int contexts(struct cli *c, const struct cell_opts *o, json_t **ret)
{
	autofree char *path = cli_path(c, "/v1/vms/%s/code/contexts", o->vm);

	return cli_call_as(c, o->user, "GET", path, NULL, ret);
}

static bool is_ours(const struct cell_opts *o, const json_t *row)
{
	if (o->context)
		return strcmp(cli_str(row, "contextId"), o->context) == 0;
	return json_is_true(json_object_get(row, "default")) &&
	       strcmp(cli_str(row, "language"), o->language) == 0 &&
	       strcmp(cli_str(row, "user"), o->user ? o->user : "root") == 0; /* root sees all */
}

/* The row of the context named by o; NULL if it does not exist (yet). */
static const json_t *find_context(const json_t *list, const struct cell_opts *o)
{
	size_t i;
	json_t *row;

	json_array_foreach(json_object_get(list, "contexts"), i,
	                   row) if (is_ours(o, row)) return row;
	return NULL;
}

static int restart(struct repl *r)
{
	autojson json_t *list = NULL, *reply = NULL;
	autofree char *path = NULL;
	const json_t *row;

	if (contexts(r->c, &r->cell, &list) != CLI_OK)
		return CLI_REFUSED;
	row = find_context(list, &r->cell);
	if (!row)
		return CLI_OK; /* none yet: nothing to drop */
	path = cli_path(r->c, "/v1/vms/%s/code/contexts/%s/restart", r->cell.vm,
	                cli_str(row, "contextId"));
	return cli_call_as(r->c, r->cell.user, "POST", path, NULL, &reply);
}

/* Lines that begin with a dot are commands of the prompt; true: this was one. */
static bool command(struct repl *r, const char *text, bool *ret_leave)
{
	char word[32];

	if (sscanf(text, " %31s", word) != 1 || word[0] != '.' || !word[1] || word[1] == '/' ||
	    word[1] == '.')
		return false;
	if (strcmp(word, ".exit") == 0 || strcmp(word, ".quit") == 0)
		*ret_leave = true;
	else if (strcmp(word, ".restart") == 0)
		puts(restart(r) == CLI_OK ? "a new kernel" : "not restarted");
	else if (strcmp(word, ".vm") == 0)
		puts(r->cell.vm);
	else
		puts(".exit     leave (Ctrl-D)\n.restart  start a new kernel\n.vm       show the "
		     "VM's id\nCtrl-C    interrupt the cell, or discard the input\nAn empty line "
		     "ends a block; incomplete input continues on the next line.");
	return true;
}

static int converse(struct repl *r)
{
	int status = CLI_OK;
	bool leave = false;

	fprintf(stderr, "%s in VM %s; .help for help, Ctrl-D to leave\n", r->cell.language,
	        r->cell.vm);
	start_editor(r);
	while (!leave) {
		autofree char *text = read_cell(r);

		if (!text) {
			putchar('\n');
			break;
		}
		if (!text[strspn(text, " \t\n")] || command(r, text, &leave))
			continue;
		status = cell_run(r->c, &r->cell, text);
		if (status > 128 + 2)
			break;
		if (status == CLI_UNREACHABLE) /* a restarted server finds it again */
			cli_fail(0, "the variables are safe in the VM: try again when the server "
			            "is back");
	}
	end_editor(r);
	return status == 1 ? CLI_OK : status;
}

static int read_source(const char *file, char **ret)
{
	struct err err = { 0 };

	if (io_read_file(AT_FDCWD, strcmp(file, "-") == 0 ? "/dev/stdin" : file, CODE_MAX, ret,
	                 &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	return CLI_OK;
}

static int new_context(struct cli *c, struct cell_opts *o, char **ret)
{
	autofree char *path = cli_path(c, "/v1/vms/%s/code/contexts", o->vm);
	autojson json_t *reply = NULL;
	int r = cli_call_as(c, o->user, "POST", path, json_pack("{s:s}", "language", o->language),
	                    &reply);

	if (r != CLI_OK)
		return r;
	*ret = strdup(cli_str(reply, "contextId"));
	o->context = *ret;
	return CLI_OK;
}

static void end_context(struct cli *c, const struct cell_opts *o)
{
	autofree char *path = cli_path(c, "/v1/vms/%s/code/contexts/%s", o->vm, o->context);
	autojson json_t *reply = NULL;

	cli_try(c, o->user, "DELETE", path, NULL, &reply, NULL); /* the VM may be gone */
}

/* A context has a fixed language. */
static int context_language(struct cli *c, struct cell_opts *o)
{
	autojson json_t *list = NULL;
	const json_t *row;
	int r = contexts(c, o, &list);

	if (r != CLI_OK)
		return r;
	row = find_context(list, o);
	if (!row)
		return cli_fail(CLI_REFUSED,
		                "the VM has no context '%s'; 'pando code %s --list' lists them",
		                o->context, o->vm);
	o->language = cell_language(cli_str(row, "language"));
	return CLI_OK;
}

static int list_contexts(struct cli *c, const struct cell_opts *o)
{
	static const struct cli_col cols[] = {
		{ "CONTEXT", "contextId" },    { "LANGUAGE", "language" }, { "STATE", "state" },
		{ "CELLS", "executionCount" }, { "DEFAULT", "default" },   { "USER", "user" },
		{ "DIRECTORY", "cwd" },
	};
	autojson json_t *reply = NULL;
	int r = contexts(c, o, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "contexts"), cols, ARRAY_SIZE(cols));
	return r;
}

static const char *image_setting(const char *given, struct config *cf)
{
	if (given)
		return given;
	return config_load(cf, NULL) == 0 && cf->value[CONFIG_IMAGES][0] ? cf->value[CONFIG_IMAGES]
	                                                                 : NULL;
}

/* In the VM that o names. */
static int in_vm(struct cli *c, const struct cli_args *a, struct cell_opts *o)
{
	bool talk = !a->opt[O_EVAL] && !a->opt[O_FILE] && isatty(STDIN_FILENO) && !cli_json(c);
	autofree char *context = NULL, *text = NULL;
	struct repl r = { .c = c };
	int status;

	if (!talk && !a->opt[O_EVAL] &&
	    (status = read_source(a->opt[O_FILE] ? a->opt[O_FILE] : "-", &text)) != CLI_OK)
		return status;
	if (a->opt[O_NEW] && (status = new_context(c, o, &context)) != CLI_OK)
		return status;
	if (o->context && !o->language && (status = context_language(c, o)) != CLI_OK)
		return status;
	o->files = talk;
	r.cell = *o;
	status = talk ? converse(&r) : cell_run(c, o, a->opt[O_EVAL] ? a->opt[O_EVAL] : text);
	if (context)
		end_context(c, o);
	return status;
}

static int code(struct cli *c, const struct cli_args *a)
{
	const char *file = a->opt[O_FILE], *given = a->opt[O_LANGUAGE];
	const char *language = given  ? cell_language(given)
	                       : file ? cell_language_of_file(file)
	                              : NULL;
	struct ephemeral *e = NULL;
	autofree char *id = NULL;
	struct config cf;
	struct cell_opts o = {
		.user = a->opt[O_USER],
		.language = language || a->opt[O_CONTEXT] ? language : "python",
		.context = a->opt[O_CONTEXT],
		.timeout_ms = a->num[O_TIMEOUT],
		.images = image_here(image_setting(a->opt[O_IMAGES], &cf)),
		.save_dir = a->opt[O_SAVE],
	};
	int r;

	if (!a->arg[0] && (a->opt[O_CONTEXT] || a->opt[O_LIST]))
		return cli_fail(CLI_USAGE,
		                "--list and --context need a VM: a new one has no contexts");
	if (a->opt[O_CONTEXT] && a->opt[O_NEW])
		return cli_fail(CLI_USAGE, "--context and --new cannot be used together");
	if (a->arg[0] && !(id = cli_vm_id(c, a->arg[0])))
		return CLI_REFUSED;
	if (a->opt[O_LIST]) {
		o.vm = id;
		return list_contexts(c, &o);
	}
	if (!id && (r = ephemeral_new(c, a->opt[O_SNAPSHOT], &e)) != CLI_OK)
		return r;
	o.vm = id ? id : ephemeral_id(e);
	r = in_vm(c, a, &o);
	ephemeral_free(e);
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ NULL, "[VM]", "run a cell or open a prompt on a Python, JavaScript, TypeScript, Bash or Ruby kernel", code,
	  { { "language", "LANGUAGE", "the language; default: from the file's name, or python", 'l', CLI_CHOICE, LANGUAGES },
	    { "eval", "CODE", "run this and exit", 'e' },
	    { "file", "FILE", "run this file and exit ('-': stdin)", 'f' },
	    { "context", "ID", "in this context", 'c' },
	    { "new", NULL, "in a new context that ends with this command" },
	    { "list", NULL, "list the contexts" },
	    { "user", "USER", "as this Linux user (root)", 'u' },
	    { "timeout", "TIME", "time limit per cell, like 30s", 't', CLI_DURATION },
	    { "images", "HOW", "how to show images", .type = CLI_CHOICE, .choices = "auto kitty iterm sixel none" },
	    { "save", "DIR", "where to save images that cannot be shown (.)" },
	    { "snapshot", "SNAPSHOT", "without VM: create the new VM from this snapshot", 's' } },
	  .about = "The kernel lives in the VM: variables, imports and open files persist across cells, "
	           "calls, suspend and resume, and are copied into forks. Without VM a new one is "
	           "created and deleted afterwards. With a terminal on stdin this is a prompt with "
	           "history; otherwise stdin is one cell.\n\n"
	           "Figures are shown on terminals that support it (kitty's and iTerm2's protocols, "
	           "sixel), otherwise saved as pando-N.png. Ctrl-C interrupts the cell and keeps the "
	           "kernel. A cell that fails ends the command with status 1.",
	  .examples = "pando code # Python in a new VM\n"
	           "pando code web -l js # JavaScript in the VM 'web'\n"
	           "pando code lab -e 'df.describe()' # one cell, with earlier variables\n"
	           "pando code lab --list # its kernels" },
};
/* clang-format on */
const struct cli_noun cli_code = { "code", "code in a persistent kernel", verbs,
	                           ARRAY_SIZE(verbs) };
