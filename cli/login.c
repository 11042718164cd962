/* SPDX-License-Identifier: Apache-2.0 */
/* login.c - pando login, logout, config: settings in ~/.config/pando/config */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/login_web.h"
#include "cli/pty.h"

/* A line from stdin, not echoed when typed. */
static bool read_key(char *dst, size_t size, const char *url)
{
	struct termios saved, t;
	bool tty = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &saved) == 0;
	bool ok;

	if (tty) {
		fprintf(stderr, "API key for %s: ", url);
		t = saved;
		t.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &t);
	}
	ok = fgets(dst, (int)size, stdin) != NULL;
	if (tty) {
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
		fputc('\n', stderr);
	}
	if (ok)
		dst[strcspn(dst, "\r\n")] = '\0';
	return ok && *dst;
}

enum { O_WEB, O_OPEN };

static int login(struct cli *c, const struct cli_args *a)
{
	struct config cf;
	struct err err = { 0 };
	autojson json_t *reply = NULL;
	char path[CONFIG_VALUE_MAX] = "";
	char *url = cf.value[CONFIG_URL], *key = cf.value[CONFIG_KEY];
	const char *asked, *dir;
	struct target t;
	int r;

	cli_asked(c, &asked, &dir);
	if (config_load(&cf, &err) < 0 ||
	    target_find_url(a->arg[0] ? a->arg[0] : asked, dir, &t, &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	snprintf(url, CONFIG_VALUE_MAX, "%s", t.url);
	if (a->opt[O_WEB]) {
		cli_set_target(c, url, "", "no key yet");
		r = login_web(c, a->opt[O_OPEN] != NULL, key, CONFIG_VALUE_MAX);
		if (r != CLI_OK)
			return r;
	} else if (!read_key(key, CONFIG_VALUE_MAX, url))
		return cli_fail(CLI_USAGE, "no key given: type it, or send it on stdin");
	cli_set_target(c, url, key, "the given key");
	r = cli_call(c, "GET", "/auth/v1/whoami", NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (config_save(&cf, &err) < 0)
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	explicit_bzero(&cf, sizeof(cf));
	config_path(path, sizeof(path), NULL);
	cli_say(c, reply, "logged in to %s as account %s; saved in %s", cli_url(c),
	        cli_str(reply, "accountId"), path);
	return CLI_OK;
}

static int logout(struct cli *c, const struct cli_args *a)
{
	struct config cf;
	struct err err = { 0 };

	if (config_load(&cf, &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	cf.value[CONFIG_URL][0] = cf.value[CONFIG_KEY][0] = '\0';
	if (config_save(&cf, &err) < 0)
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	cli_say(c, json_null(), "server and key are deleted here; the key itself stays valid");
	return CLI_OK;
}

static int show(struct cli *c, const struct cli_args *a)
{
	static const struct cli_col cols[] = {
		{ "server", "url" },    { "  from", "urlFrom" }, { "key from", "keyFrom" },
		{ "images", "images" }, { "escape", "escape" },  { "file", "file" },
	};
	struct config cf;
	struct target t;
	struct err err = { 0 };
	char path[CONFIG_VALUE_MAX] = "";
	autojson json_t *j = NULL;
	const char *asked, *dir;
	bool key;

	if (config_load(&cf, &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	cli_asked(c, &asked, &dir);
	key = target_find(asked, dir, &t, &err) == 0;
	config_path(path, sizeof(path), NULL);
	j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "url", t.url, "urlFrom", t.url_from,
	              "keyFrom", key ? t.key_from : "none", "images",
	              *cf.value[CONFIG_IMAGES] ? cf.value[CONFIG_IMAGES] : "auto", "escape",
	              *cf.value[CONFIG_ESCAPE] ? cf.value[CONFIG_ESCAPE] : "ctrl-]", "file", path);
	cli_show(c, j, cols, ARRAY_SIZE(cols));
	explicit_bzero(&t, sizeof(t));
	explicit_bzero(&cf, sizeof(cf));
	return CLI_OK;
}

/* May the setting have this value? */
static int check_value(enum config_name name, const char *value)
{
	char url[CONFIG_VALUE_MAX];
	struct err err = { 0 };
	int key;

	switch (name) {
	case CONFIG_URL:
		if (target_url(value, url, sizeof(url), &err) < 0)
			return cli_fail(CLI_USAGE, "%s", err.msg);
		return CLI_OK;
	case CONFIG_IMAGES:
		for (const char *p = "auto\0kitty\0iterm\0sixel\0none\0"; *p; p += strlen(p) + 1)
			if (strcmp(p, value) == 0)
				return CLI_OK;
		return cli_fail(CLI_USAGE, "images must be auto, kitty, iterm, sixel or none");
	case CONFIG_ESCAPE:
		if (pty_escape_parse(value, &key) < 0)
			return cli_fail(CLI_USAGE, "escape must be like 'ctrl-]', or 'none'");
		return CLI_OK;
	default:
		return cli_fail(
		        CLI_USAGE,
		        "set the key with 'pando login': a command line can be read by others");
	}
}

static int change(struct cli *c, const char *name, const char *value)
{
	struct config cf;
	struct err err = { 0 };
	int i = 0, r;

	while (i < CONFIG_MAX && strcmp(config_names[i], name) != 0)
		i++;
	if (i == CONFIG_MAX)
		return cli_fail(CLI_USAGE,
		                "unknown setting '%s': the settings are url, images, escape", name);
	if (value && (r = check_value((enum config_name)i, value)) != CLI_OK)
		return r;
	if (config_load(&cf, &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	if (i == CONFIG_URL && value)
		target_url(value, cf.value[i], CONFIG_VALUE_MAX, &err);
	else
		snprintf(cf.value[i], CONFIG_VALUE_MAX, "%s", value ? value : "");
	if (i == CONFIG_URL)
		cf.value[CONFIG_KEY][0] = '\0'; /* it was for the other server */
	if (config_save(&cf, &err) < 0)
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	explicit_bzero(&cf, sizeof(cf));
	return CLI_OK;
}

static int set(struct cli *c, const struct cli_args *a)
{
	return change(c, a->arg[0], a->arg[1]);
}

static int unset(struct cli *c, const struct cli_args *a)
{
	return change(c, a->arg[0], NULL);
}

/* clang-format off */
static const struct cli_verb login_verbs[] = {
	{ NULL, "[URL]", "save a server and a key for it", login,
	  { { "web", NULL, "confirm it in the dashboard instead of typing a key", 'w' },
	    { "open", NULL, "with --web: open the page in a browser, if there is a display" } },
	  .flags = CLI_LOCAL,
	  .about = "Asks for an API key, or reads it from stdin, checks it, and saves both in the "
	           "config file, which only you can read. Without URL: PANDO_API_URL, else the saved "
	           "server, else the one on this machine. With --web a key is made for this machine when somebody who is signed "
	           "in to the dashboard confirms it: compare the code before you do.",
	  .examples = "pando login https://api.pando.example # asks for the key\n"
	              "pando login --web https://api.pando.example # confirm it in the dashboard\n"
	              "sudo cat /var/lib/pando/api-key | pando login # the server on this machine" },
};
static const struct cli_verb logout_verbs[] = {
	{ NULL, "", "delete the saved server and key", logout, .flags = CLI_LOCAL },
};
static const struct cli_verb config_verbs[] = {
	{ NULL, "", "show which server and key are used, and why", show, .flags = CLI_LOCAL },
	{ "set", "NAME VALUE", "change a setting: url, images, escape", set, .flags = CLI_LOCAL,
	  .about = "images: how 'pando code' shows images: auto, kitty, iterm, sixel, none (save them). "
	           "escape: the escape key of 'pando vm pty'. Changing the url deletes the saved key." },
	{ "unset", "NAME", "reset a setting to its default", unset, .flags = CLI_LOCAL },
};
/* clang-format on */
const struct cli_noun cli_login = { "login", "save a server and a key for it", login_verbs,
	                            ARRAY_SIZE(login_verbs) };
const struct cli_noun cli_logout = { "logout", "delete the saved server and key", logout_verbs,
	                             ARRAY_SIZE(logout_verbs) };
const struct cli_noun cli_config = { "config", "settings", config_verbs, ARRAY_SIZE(config_verbs) };
