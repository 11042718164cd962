/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh.c - pando vm ssh and pando vm scp: OpenSSH's own programs with our address and key
 *
 * The user name is the VM's id; the password is our key. It is not on the command line, which
 * others on this machine can see: ssh runs this program to ask for it (SSH_ASKPASS), which finds it
 * in the environment. This program execs ssh, which handles terminal, signals and exit status
 * itself. The server's host key is saved at the first connection (~/.local/state/pando/known_hosts)
 * and checked from then on.
 */
#include "cli/ssh.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/resolve.h"

#define SECRET_VAR "PANDO_ASKPASS_SECRET"
#define HOST_MAX SSH_HOST_MAX

bool ssh_answer(int argc)
{
	const char *secret = getenv(SECRET_VAR);

	if (!secret || argc != 2) /* ssh passes the prompt as the only argument */
		return false;
	puts(secret);
	return true;
}

bool ssh_where(const char *url, const char *listen, char *ret_host, size_t size, unsigned *ret_port)
{
	const char *host = strstr(url, "://"), *port = strrchr(listen, ':');
	size_t n;

	if (!host || !port)
		return false;
	host += 3;
	if (*host == '[') {
		host++;
		n = strcspn(host, "]");
	} else {
		n = strcspn(host, ":/?#");
	}
	*ret_port = (unsigned)strtoul(port + 1, NULL, 10);
	if (!n || n >= size || !*ret_port || *ret_port > 65535)
		return false;
	memcpy(ret_host, host, n);
	ret_host[n] = '\0';
	return true;
}

const char *ssh_remote(const char *arg, size_t *ret_len)
{
	size_t n = strcspn(arg, ":/");

	*ret_len = n;
	return n && arg[n] == ':' ? arg + n + 1 : NULL;
}

struct words {
	const char **v; /* owned; the words are borrowed or live until the exec */
	size_t n, cap;
};

static void add(struct words *w, const char *word)
{
	if (w->n + 1 >= w->cap) {
		w->cap = w->cap ? w->cap * 2 : 32;
		w->v = reallocarray(w->v, w->cap, sizeof(*w->v));
		if (!w->v)
			cli_oom();
	}
	w->v[w->n++] = word;
	w->v[w->n] = NULL;
}

__attribute__((format(printf, 2, 3))) static void addf(struct words *w, const char *fmt, ...)
{
	char *s;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (r < 0)
		cli_oom();
	add(w, s);
}

int ssh_front(struct cli *c, char host[HOST_MAX], unsigned *ret_port)
{
	const char *given = getenv("PANDO_SSH"), *listen;
	autojson json_t *health = NULL;
	char url[HOST_MAX + 16];
	int r;

	if (given && *given) {
		snprintf(url, sizeof(url), "ssh://%s", given);
		return ssh_where(url, given, host, HOST_MAX, ret_port)
		               ? CLI_OK
		               : cli_fail(CLI_USAGE, "PANDO_SSH must be HOST:PORT");
	}
	r = cli_call(c, "GET", "/v1/health", NULL, &health);
	if (r != CLI_OK)
		return r;
	listen = cli_str(json_object_get(health, "ssh"), "listen");
	if (!*listen)
		return cli_fail(CLI_REFUSED, "SSH is off on this server (PANDO_SSH_LISTEN)");
	if (!ssh_where(cli_url(c), listen, host, HOST_MAX, ret_port))
		return cli_fail(CLI_REFUSED, "the server reports an invalid SSH address '%s'",
		                listen);
	return CLI_OK;
}

/* Options of both programs. */
static int common(struct cli *c, struct words *w, const char *id, const char *user,
                  const char *port_flag, char host[HOST_MAX])
{
	char known[4096];
	unsigned port = 0;
	int r = ssh_front(c, host, &port);

	if (r != CLI_OK)
		return r;
	addf(w, "%s", port_flag);
	addf(w, "%u", port);
	addf(w, "-oUser=%s%s%s", id, user ? "+" : "", user ? user : "");
	if (config_state_path("known_hosts", known, sizeof(known), NULL) == 0)
		addf(w, "-oUserKnownHostsFile=\"%s\"", known);
	add(w, "-oStrictHostKeyChecking=accept-new");
	add(w, "-oPubkeyAuthentication=no");
	add(w, "-oPreferredAuthentications=password");
	add(w, "-oNumberOfPasswordPrompts=1");
	return CLI_OK;
}

static int become(struct cli *c, const struct words *w)
{
	const char *bearer = strstr(cli_auth_header(c), "Bearer ");
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (!bearer || n <= 0)
		return cli_fail(CLI_REFUSED, "cannot find this program's file or its key");
	self[n] = '\0';
	if (setenv(SECRET_VAR, bearer + strlen("Bearer "), 1) < 0 ||
	    setenv("SSH_ASKPASS", self, 1) < 0 || setenv("SSH_ASKPASS_REQUIRE", "force", 1) < 0)
		cli_oom();
	signal(SIGPIPE, SIG_DFL);
	execvp(w->v[0], (char **)(uintptr_t)w->v);
	return cli_fail(CLI_REFUSED, "cannot run %s: %s (Debian package openssh-client)", w->v[0],
	                strerror(errno));
}

enum { OPT_USER, OPT_RECURSIVE, OPT_PRESERVE };

static int ssh_vm(struct cli *c, const struct cli_args *a)
{
	autofree char *id = cli_vm_id(c, a->arg[0]);
	struct words w = { 0 };
	char host[HOST_MAX];
	int r;

	if (!id)
		return CLI_REFUSED;
	add(&w, "ssh");
	r = common(c, &w, id, a->opt[OPT_USER], "-p", host);
	if (r != CLI_OK)
		return r;
	add(&w, host);
	for (size_t i = 0; i < a->n_rest; i++)
		add(&w, a->rest[i]);
	return become(c, &w);
}

/* The one VM that the paths name; NULL after an error message. */
static char *one_vm(struct cli *c, const struct cli_args *a)
{
	char *id = NULL;

	for (size_t i = 0; i < a->n_rest; i++) {
		autofree char *name = NULL, *other = NULL;
		size_t n;

		if (!ssh_remote(a->rest[i], &n))
			continue;
		name = strndup(a->rest[i], n);
		if (!name)
			cli_oom();
		other = cli_vm_id(c, name);
		if (!other || (id && strcmp(id, other) != 0)) {
			if (other)
				cli_fail(CLI_USAGE, "all paths must be in the same VM");
			free(id);
			return NULL;
		}
		if (!id)
			id = TAKE_PTR(other);
	}
	if (!id)
		cli_fail(CLI_USAGE, "one of the paths must be VM:/path");
	return id;
}

static int scp_vm(struct cli *c, const struct cli_args *a)
{
	autofree char *id = NULL;
	struct words w = { 0 };
	char host[HOST_MAX];
	int r;

	if (a->n_rest < 2)
		return cli_fail(CLI_USAGE,
		                "source and target are missing: see 'pando vm scp --help'");
	id = one_vm(c, a);
	if (!id)
		return CLI_REFUSED;
	add(&w, "scp");
	r = common(c, &w, id, a->opt[OPT_USER], "-P", host);
	if (r != CLI_OK)
		return r;
	if (a->opt[OPT_RECURSIVE])
		add(&w, "-r");
	if (a->opt[OPT_PRESERVE])
		add(&w, "-p");
	add(&w, "--");
	for (size_t i = 0; i < a->n_rest; i++) {
		size_t n;
		const char *path = ssh_remote(a->rest[i], &n);

		if (path)
			addf(&w, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, path);
		else
			add(&w, a->rest[i]);
	}
	return become(c, &w);
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "ssh", "VM [ARGUMENT]...", "log in to a VM with OpenSSH's ssh, or run a command", ssh_vm,
	  { { "user", "USER", "as this Linux user (root)", 'u' } },
	  CLI_STOP,
	  "Runs ssh with the address of the server's SSH listener and your key; wakes a VM at "
	           "rest. What follows the VM is a command, or after '--' options of ssh like -L and "
	           "-D. Set PANDO_SSH=HOST:PORT if SSH is not on the API's host.",
	  "pando vm ssh web # a shell\n"
	  "pando vm ssh web -u dev git status # a command, as another user\n"
	           "pando vm ssh web -- -N -L 8080:localhost:3000 # forward a port of the VM" },
	{ "scp", "FROM...", "copy with OpenSSH's scp: FROM... TO", scp_vm,
	  { { "user", "USER", "as this Linux user (root)", 'u' },
	    { "recursive", NULL, "copy directories recursively", 'r' },
	    { "preserve", NULL, "keep times and modes", 'p' } },
	  .about = "VM:path is a path in a VM, relative ones start at the user's home. See also 'pando cp'.",
	  .examples = "pando vm scp -r site web:/srv/ # into a VM\n"
	              "pando vm scp web:notes.txt . # out of it" },
};
/* clang-format on */
const struct cli_noun cli_vm_ssh = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
