/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login_web.c - pando login --web: a person confirms in the dashboard, and this gets a key
 *
 * The server gives us a code to show and a secret to ask with. Whoever confirms the code, signed in
 * to the dashboard, gives us a key of their account; it never passes through the browser.
 */
#include "cli/login_web.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"

extern char **environ;

/* Only where there is a display to open it on. */
static void open_browser(const char *url)
{
	char *argv[] = { (char *)"xdg-open", (char *)url, NULL };
	posix_spawn_file_actions_t fa;
	pid_t pid;

	if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
		return;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&fa, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, "xdg-open", &fa, NULL, argv, environ) == 0)
		waitpid(pid, NULL, 0);
	posix_spawn_file_actions_destroy(&fa);
}

static int await(struct cli *c, const json_t *asked, char *ret_key, size_t size)
{
	autofree char *path = cli_path(c, "/v1/login-requests/%s/poll", cli_str(asked, "id"));
	json_int_t every = json_integer_value(json_object_get(asked, "intervalSeconds"));

	for (;;) {
		autojson json_t *reply = NULL;
		struct err err = { 0 };
		int status = cli_try(c, NULL, "POST", path,
		                     json_pack("{s:s}", "secret", cli_str(asked, "secret")), &reply,
		                     &err);

		if (status == 200) {
			snprintf(ret_key, size, "%s", cli_str(reply, "apiKey"));
			return *ret_key ? CLI_OK : cli_fail(CLI_REFUSED, "the server sent no key");
		}
		if (status < 0)
			return cli_fail(CLI_UNREACHABLE, "%s", err.msg);
		if (status != 202)
			return cli_refused(c, status, reply);
		sleep(every > 0 && every < 60 ? (unsigned)every : 2);
	}
}

int login_web(struct cli *c, bool open_it, char *ret_key, size_t size)
{
	autojson json_t *asked = NULL;
	char host[64] = "this machine", client[96];
	int r;

	gethostname(host, sizeof(host) - 1);
	snprintf(client, sizeof(client), "pando on %.50s", host);
	r = cli_call(c, "POST", "/v1/login-requests", json_pack("{s:s}", "client", client), &asked);
	if (r != CLI_OK)
		return r;
	fputs("Open this page, compare the code, and confirm:\n\n    ", stderr);
	cli_put_text(stderr, cli_str(asked, "url"));
	fputs("\n    code ", stderr);
	cli_put_text(stderr, cli_str(asked, "code"));
	fputs("\n\nWaiting (Ctrl-C ends it)...\n", stderr);
	if (open_it)
		open_browser(cli_str(asked, "url"));
	return await(c, asked, ret_key, size);
}
