/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh_config.c - pando ssh-config: what makes `ssh VM` work without pando
 *
 * Sections for ~/.ssh/config: one for each VM, by its id and, where that is unique and a word, its
 * name; one for the host name that Freestyle's CLI has built in. Secrets are not in it: ssh asks
 * for the key, or finds it with SSH_ASKPASS, unless --key puts it into the user name.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sock.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/resolve.h"
#include "cli/ssh.h"

#define FREESTYLE_HOSTS "vm-ssh.freestyle.sh *.vm-ssh.freestyle.sh"

enum { O_KEY, O_USER };

struct front {
	char host[SSH_HOST_MAX], known[4096];
	unsigned port;
};

/* A name that ssh takes as one word and not as a pattern. */
static bool is_word(const char *s)
{
	return *s &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
	               strlen(s);
}

static bool is_unique(const json_t *vms, const char *name)
{
	size_t i, n = 0;
	const json_t *v;

	json_array_foreach((json_t *)(uintptr_t)vms, i, v) n += !strcmp(cli_str(v, "name"), name);
	return n == 1;
}

static void section(const char *hosts, const struct front *f)
{
	printf("Host %s\n  HostName %s\n  Port %u\n", hosts, f->host, f->port);
	if (*f->known)
		printf("  UserKnownHostsFile \"%s\"\n", f->known);
	printf("  HostKeyAlias pando-%s-%u\n  StrictHostKeyChecking accept-new\n"
	       "  PubkeyAuthentication no\n  PreferredAuthentications "
	       "password,keyboard-interactive\n",
	       f->host, f->port);
}

/*
 * ssh has a port on its command line there, which counts more than Port: this program connects
 * instead, and passes the socket on.
 */
static void freestyle_section(const struct front *f)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return;
	self[n] = '\0';
	printf("# For 'freestyle vm ssh' and 'freestyle vm scp', which have this name built in.\n");
	section(FREESTYLE_HOSTS, f);
	printf("  ProxyCommand '%s' ssh-config connect '%s' %u\n  ProxyUseFdpass yes\n", self,
	       f->host, f->port);
}

static int connect_for_ssh(struct cli *c, const struct cli_args *a)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
	autofd int fd = -1;
	int r = getaddrinfo(a->arg[0], a->arg[1], &hints, &all);

	for (const struct addrinfo *i = all; r == 0 && i; i = i->ai_next) {
		autofd int s = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (s >= 0 && connect(s, i->ai_addr, i->ai_addrlen) == 0) {
			fd = TAKE_FD(s);
			break;
		}
	}
	if (all)
		freeaddrinfo(all);
	if (fd < 0)
		return cli_fail(CLI_UNREACHABLE, "cannot connect to %s port %s", a->arg[0],
		                a->arg[1]);
	if (sock_send_fds(STDOUT_FILENO, "", 1, &fd, 1) < 0)
		return cli_fail(CLI_REFUSED, "is run by ssh (ProxyUseFdpass), not by hand");
	return CLI_OK;
}

static int ssh_config(struct cli *c, const struct cli_args *a)
{
	const char *bearer = strstr(cli_auth_header(c), "Bearer ");
	autojson json_t *reply = NULL;
	struct front f = { 0 };
	const json_t *vms, *v;
	size_t i;
	int r;

	if ((r = ssh_front(c, f.host, &f.port)) != CLI_OK ||
	    (r = cli_call(c, "GET", "/v1/vms", NULL, &reply)) != CLI_OK)
		return r;
	if (config_state_path("known_hosts", f.known, sizeof(f.known), NULL) < 0)
		f.known[0] = '\0';
	vms = json_object_get(reply, "vms");
	printf("# Made by 'pando ssh-config'. The password is an API key or access token.\n");
	json_array_foreach((json_t *)(uintptr_t)vms, i, v)
	{
		const char *id = cli_str(v, "id"), *name = cli_str(v, "name");
		bool named = is_word(name) && is_unique(vms, name);
		char hosts[256];

		snprintf(hosts, sizeof(hosts), "%s%s%s", id, named ? " " : "", named ? name : "");
		section(hosts, &f);
		printf("  User %s%s%s%s%s\n", id, a->opt[O_USER] ? "+" : "",
		       a->opt[O_USER] ? a->opt[O_USER] : "", a->opt[O_KEY] ? "," : "",
		       a->opt[O_KEY] && bearer ? bearer + strlen("Bearer ") : "");
	}
	freestyle_section(&f);
	return CLI_OK;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ NULL, "", "print a configuration with which 'ssh VM' works", ssh_config,
	  { { "key", NULL, "put your key into it, so that ssh does not ask: keep the file to yourself" },
	    { "user", "USER", "log in as this Linux user (root)", 'u' } },
	  .about = "For ~/.ssh/config: a section for each VM, by its id and its name, and one that leads the "
	           "host name built into Freestyle's CLI to this server. Run it again when there are new VMs. "
	           "Editors that open folders over SSH, rsync and git read the same file.",
	  .examples = "pando ssh-config > ~/.ssh/pando.conf # and 'Include pando.conf' in ~/.ssh/config\n"
	              "ssh web uptime # 'web' is the name of a VM" },
	{ "connect", "HOST PORT", "connect, and pass the socket to ssh", connect_for_ssh, .flags = CLI_LOCAL | CLI_HIDDEN },
};
/* clang-format on */
const struct cli_noun cli_ssh_config = { "ssh-config", "SSH configuration for your VMs", verbs,
	                                 ARRAY_SIZE(verbs) };
