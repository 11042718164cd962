/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - the file of `pando login`, and the order in which address and key are looked for
 *
 * The address: --data-dir (pando.conf in it, or in /etc/pando), --url, PANDO_API_URL, PANDO_URL,
 * FREESTYLE_API_URL; PANDO_DATA_DIR or PANDO_LISTEN when they are set; the config file; else the
 * default address. The key: PANDO_API_KEY, FREESTYLE_API_KEY (not with --data-dir); that of the
 * config file, if it was saved for that address; else the file api-key in the data
 * directory.
 *
 * The file is lines "name = value", mode 0600, written as a whole: a crash leaves the old one.
 */
#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

#define LISTEN "127.0.0.1:8787"
#define CONF_MAX (64u << 10)
#define PATH_ROOM 480

const char *const config_names[CONFIG_MAX] = {
	[CONFIG_URL] = "url",
	[CONFIG_KEY] = "key",
	[CONFIG_IMAGES] = "images",
	[CONFIG_ESCAPE] = "escape",
};

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static int xdg_path(const char *var, const char *below_home, const char *name, char *dst,
                    size_t size, struct err *err)
{
	const char *base = env(var), *home = env("HOME");
	int n;

	if (base && *base == '/')
		n = snprintf(dst, size, "%s/pando/%s", base, name);
	else if (home)
		n = snprintf(dst, size, "%s/%s/pando/%s", home, below_home, name);
	else
		return err_set(err, -ENOENT, "there is no home directory: set HOME");
	return n < 0 || (size_t)n >= size ? err_set(err, -ENAMETOOLONG, "HOME is too long") : 0;
}

int config_path(char *dst, size_t size, struct err *err)
{
	return xdg_path("XDG_CONFIG_HOME", ".config", "config", dst, size, err);
}

static int make_parent(const char *path, struct err *err)
{
	autofree char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!slash)
		return err_set(err, -ENOMEM, "out of memory");
	*slash = '\0';
	return io_mkdirs(dir, 0700, err);
}

int config_state_path(const char *name, char *dst, size_t size, struct err *err)
{
	int r = xdg_path("XDG_STATE_HOME", ".local/state", name, dst, size, err);

	return r < 0 ? r : make_parent(dst, err);
}

/* Strips blanks from both ends. */
static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n && strchr(" \t\r", s[n - 1]);)
		s[--n] = '\0';
	return s;
}

static int set_value(struct config *cf, const char *name, const char *value, int line,
                     struct err *err)
{
	for (int i = 0; i < CONFIG_MAX; i++) {
		if (strcmp(config_names[i], name) != 0)
			continue;
		if (strlen(value) >= CONFIG_VALUE_MAX)
			return err_set(err, -EINVAL, "line %d: '%s' is too long", line, name);
		snprintf(cf->value[i], CONFIG_VALUE_MAX, "%s", value);
		return 0;
	}
	return err_set(err, -EINVAL, "line %d: unknown setting '%s'", line, name);
}

int config_parse(const char *text, struct config *ret, struct err *err)
{
	autofree char *copy = strdup(text);
	struct config cf = { 0 };
	int line = 0, r;

	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	for (char *l = copy, *next; l; l = next) {
		char *eq;

		line++;
		next = strchr(l, '\n');
		if (next)
			*next++ = '\0';
		l = trim(l);
		if (!*l || *l == '#')
			continue;
		eq = strchr(l, '=');
		if (!eq)
			return err_set(err, -EINVAL, "line %d: 'name = value' expected", line);
		*eq = '\0';
		if ((r = set_value(&cf, trim(l), trim(eq + 1), line, err)) < 0)
			return r;
	}
	*ret = cf;
	return 0;
}

int config_load(struct config *ret, struct err *err)
{
	autofree char *text = NULL;
	char path[PATH_ROOM];
	int r;

	*ret = (struct config){ 0 };
	if (config_path(path, sizeof(path), NULL) < 0)
		return 0; /* no home, no config */
	r = io_read_file(AT_FDCWD, path, CONF_MAX, &text, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = config_parse(text, ret, err);
	explicit_bzero(text, strlen(text));
	return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

int config_save(const struct config *cf, struct err *err)
{
	autobuf struct buf b = { 0 };
	char path[PATH_ROOM];
	int r;

	if ((r = config_path(path, sizeof(path), err)) < 0 || (r = make_parent(path, err)) < 0)
		return r;
	buf_printf(&b, "# written by pando login and pando config\n");
	for (int i = 0; i < CONFIG_MAX; i++)
		if (cf->value[i][0])
			buf_printf(&b, "%s = %s\n", config_names[i], cf->value[i]);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	r = io_write_file(AT_FDCWD, path, b.p, b.len, 0600, err);
	explicit_bzero(b.p, b.len);
	return r;
}

/* PANDO_LISTEN=... of a pando.conf, as pandod reads it; caller frees. */
static char *listen_of(const char *path)
{
	static const char name[] = "PANDO_LISTEN";
	autofree char *text = NULL;
	char *save = NULL, *found = NULL;

	if (io_read_file(AT_FDCWD, path, CONF_MAX, &text, NULL) < 0)
		return NULL;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		l += strspn(l, " \t");
		if (strncmp(l, name, sizeof(name) - 1) != 0)
			continue;
		l += sizeof(name) - 1;
		l += strspn(l, " \t");
		if (*l != '=')
			continue;
		l += 1 + strspn(l + 1, " \t\"");
		l[strcspn(l, " \t\"\r")] = '\0';
		free(found);
		found = strdup(l);
	}
	return found;
}

/* An address to listen on, as one to connect to. */
static void url_of_listen(const char *listen, char *dst, size_t size)
{
	const char *port = strrchr(listen, ':');

	if (port && strncmp(listen, "0.0.0.0:", 8) == 0)
		snprintf(dst, size, "http://127.0.0.1%s", port);
	else if (port && strncmp(listen, "[::]:", 5) == 0)
		snprintf(dst, size, "http://[::1]%s", port);
	else
		snprintf(dst, size, "http://%s", listen);
}

int target_url(const char *text, char *dst, size_t size, struct err *err)
{
	bool scheme = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
	int n;

	if (!scheme && strstr(text, "://"))
		return err_set(
		        err, -EINVAL,
		        "'%s' is not a server address: it must begin with http:// or https://",
		        text);
	n = snprintf(dst, size, "%s%s", scheme ? "" : "http://", text);
	if (n < 0 || (size_t)n >= size || strpbrk(dst, " \t\r\n?#"))
		return err_set(err, -EINVAL, "'%s' is not a server address", text);
	for (; n && dst[n - 1] == '/'; n--)
		dst[n - 1] = '\0';
	return 0;
}

/* The first of these variables that is set. */
static const char *first_env(const char *const *names, size_t n, const char **ret_name)
{
	for (size_t i = 0; i < n; i++)
		if (env(names[i])) {
			*ret_name = names[i];
			return env(names[i]);
		}
	return NULL;
}

static int find_url(const char *url, const char *data_dir, const char *dir, const struct config *cf,
                    struct target *t, struct err *err)
{
	static const char *const names[] = { "PANDO_API_URL", "PANDO_URL", "FREESTYLE_API_URL" };
	const char *from = "--url", *listen = env("PANDO_LISTEN");
	autofree char *conf = NULL;
	char path[PATH_ROOM];

	if (!url && !data_dir)
		url = first_env(names, ARRAY_SIZE(names), &from);
	if (!url && !data_dir && !listen && !env("PANDO_DATA_DIR") && cf->value[CONFIG_URL][0]) {
		url = cf->value[CONFIG_URL];
		from = "pando login";
	}
	if (url) {
		snprintf(t->url_from, sizeof(t->url_from), "%s", from);
		return target_url(url, t->url, sizeof(t->url), err);
	}
	snprintf(path, sizeof(path), "%s/pando.conf", dir);
	conf = listen ? NULL : listen_of(path);
	if (!listen && !conf && strcmp(dir, CONFIG_DATA_DIR) == 0) {
		snprintf(path, sizeof(path), CONFIG_ETC_CONF);
		conf = listen_of(path);
	}
	url_of_listen(listen ? listen : conf ? conf : LISTEN, t->url, sizeof(t->url));
	snprintf(t->url_from, sizeof(t->url_from), "%s",
	         listen ? "PANDO_LISTEN"
	         : conf ? path
	                : "default");
	return 0;
}

static int find_key(const char *data_dir, const char *dir, const struct config *cf,
                    struct target *t, struct err *err)
{
	static const char *const names[] = { "PANDO_API_KEY", "FREESTYLE_API_KEY" };
	const char *from = NULL,
	           *key = data_dir ? NULL : first_env(names, ARRAY_SIZE(names), &from);
	autofree char *text = NULL;
	char path[PATH_ROOM];

	if (!key && !data_dir && cf->value[CONFIG_KEY][0] &&
	    strcmp(cf->value[CONFIG_URL], t->url) == 0) {
		key = cf->value[CONFIG_KEY];
		from = "pando login";
	}
	snprintf(path, sizeof(path), "%s/api-key", dir);
	if (!key) {
		int r = io_read_file(AT_FDCWD, path, CONFIG_VALUE_MAX, &text, err);

		if (r < 0)
			return err_wrap(err, r,
			                "no API key for %s: use 'pando login', set PANDO_API_KEY, "
			                "or name the server's data directory with --data-dir and "
			                "run as its owner",
			                t->url);
		text[strcspn(text, "\r\n")] = '\0';
		key = text;
		from = path;
	}
	if (strlen(key) >= sizeof(t->key) || strpbrk(key, "\r\n"))
		return err_set(err, -EINVAL, "the key from %s is not a valid API key", from);
	snprintf(t->key, sizeof(t->key), "%s", key);
	snprintf(t->key_from, sizeof(t->key_from), "%s", from);
	if (text)
		explicit_bzero(text, strlen(text));
	return 0;
}

static const char *dir_of(const char *data_dir)
{
	const char *dir = data_dir ? data_dir : env("PANDO_DATA_DIR");

	return dir ? dir : CONFIG_DATA_DIR;
}

int target_find_url(const char *url, const char *data_dir, struct target *ret, struct err *err)
{
	struct config cf;
	int r = config_load(&cf, err);

	*ret = (struct target){ 0 };
	if (r == 0)
		r = find_url(url, data_dir, dir_of(data_dir), &cf, ret, err);
	explicit_bzero(&cf, sizeof(cf));
	return r;
}

int target_find(const char *url, const char *data_dir, struct target *ret, struct err *err)
{
	const char *dir = dir_of(data_dir);
	struct config cf;
	int r;

	*ret = (struct target){ 0 };
	if ((r = config_load(&cf, err)) < 0 ||
	    (r = find_url(url, data_dir, dir, &cf, ret, err)) < 0)
		return r;
	r = find_key(data_dir, dir, &cf, ret, err);
	explicit_bzero(&cf, sizeof(cf));
	return r;
}
