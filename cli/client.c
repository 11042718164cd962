/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - where the server is, who we are, and one request
 *
 * The address: --url, PANDO_URL, FREESTYLE_API_URL, else PANDO_LISTEN (environment, or pando.conf
 * in the data directory), else the default. The key: PANDO_API_KEY, FREESTYLE_API_KEY, else the
 * file api-key in the data directory. There is no option for the key: what is on a command line
 * can be read by every user of the machine.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

#define DATA_DIR "/var/lib/pando"
#define LISTEN "127.0.0.1:8787"
#define CONNECT_S 10L /* to a server on this or a near machine */
#define REPLY_S 330L  /* a create that boots may take minutes */
#define REPLY_MAX (64u << 20)
#define CONF_MAX (64u << 10)

struct cli {
	CURL *curl;
	char url[512];
	char header[512]; /* Authorization */
	char key_from[512];
	bool json;
};

struct cli *cli_new(void)
{
	struct cli *c = calloc(1, sizeof(*c));

	if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(c->curl = curl_easy_init())) {
		fprintf(stderr, "pando: out of memory\n");
		exit(CLI_UNREACHABLE);
	}
	return c;
}

struct cli *cli_free(struct cli *c)
{
	if (!c)
		return NULL;
	curl_easy_cleanup(c->curl);
	curl_global_cleanup();
	explicit_bzero(c->header, sizeof(c->header));
	free(c);
	return NULL;
}

void cli_set_json(struct cli *c, bool json)
{
	c->json = json;
}

bool cli_json(const struct cli *c)
{
	return c->json;
}

const char *cli_url(const struct cli *c)
{
	return c->url;
}

const char *cli_auth_header(const struct cli *c)
{
	return c->header;
}

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* PANDO_LISTEN=... of pando.conf, as pandod reads it; caller frees. */
static char *listen_of(const char *data_dir)
{
	static const char name[] = "PANDO_LISTEN";
	autofree char *text = NULL;
	char path[512], *save = NULL, *found = NULL;

	snprintf(path, sizeof(path), "%s/pando.conf", data_dir);
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

static int find_key(struct cli *c, const char *data_dir, bool dir_given, struct err *err)
{
	const char *names[] = { "PANDO_API_KEY", "FREESTYLE_API_KEY" };
	autofree char *text = NULL;
	char path[480];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(names) && !dir_given; i++) {
		if (!env(names[i]))
			continue;
		snprintf(c->key_from, sizeof(c->key_from), "%s", names[i]);
		snprintf(c->header, sizeof(c->header), "Authorization: Bearer %s", env(names[i]));
		return 0;
	}
	snprintf(path, sizeof(path), "%s/api-key", data_dir);
	r = io_read_file(AT_FDCWD, path, 4096, &text, err);
	if (r < 0)
		return err_wrap(err, "no API key: set PANDO_API_KEY, or name the server's data "
		                     "directory with --data-dir and run as its owner");
	text[strcspn(text, "\r\n")] = '\0';
	snprintf(c->key_from, sizeof(c->key_from), "%s", path);
	snprintf(c->header, sizeof(c->header), "Authorization: Bearer %s", text);
	explicit_bzero(text, strlen(text));
	return 0;
}

int cli_connect(struct cli *c, const char *url, const char *data_dir, struct err *err)
{
	const char *dir = data_dir                ? data_dir
	                  : env("PANDO_DATA_DIR") ? env("PANDO_DATA_DIR")
	                                          : DATA_DIR;
	autofree char *conf = NULL;
	size_t n;

	if (!url && !data_dir)
		url = env("PANDO_URL") ? env("PANDO_URL") : env("FREESTYLE_API_URL");
	if (url) {
		snprintf(c->url, sizeof(c->url), "%s", url);
	} else {
		conf = listen_of(dir);
		url_of_listen(env("PANDO_LISTEN") ? env("PANDO_LISTEN")
		              : conf              ? conf
		                                  : LISTEN,
		              c->url, sizeof(c->url));
	}
	for (n = strlen(c->url); n && c->url[n - 1] == '/';)
		c->url[--n] = '\0';
	return find_key(c, dir, data_dir != NULL, err);
}

static char *escape(struct cli *c, const char *s)
{
	char *e = curl_easy_escape(c->curl, s, 0), *copy = e ? strdup(e) : NULL;

	curl_free(e);
	if (!copy) {
		fprintf(stderr, "pando: out of memory\n");
		exit(CLI_UNREACHABLE);
	}
	return copy;
}

char *cli_path(struct cli *c, const char *fmt, ...)
{
	struct buf b = { 0 };
	va_list ap;
	char *s;

	va_start(ap, fmt);
	for (const char *p = fmt; *p; p++) {
		if (p[0] == '%' && p[1] == 's') {
			autofree char *e = escape(c, va_arg(ap, const char *));

			buf_put(&b, e, strlen(e));
			p++;
		} else {
			buf_put(&b, p, 1);
		}
	}
	va_end(ap);
	s = buf_take_str(&b);
	if (!s) {
		fprintf(stderr, "pando: out of memory\n");
		exit(CLI_UNREACHABLE);
	}
	return s;
}

void cli_query(struct cli *c, char **path, const char *name, const char *value)
{
	autofree char *e = NULL, *old = *path;
	char *s;

	if (!value) {
		old = NULL; /* stays */
		return;
	}
	e = escape(c, value);
	if (asprintf(&s, "%s%c%s=%s", old, strchr(old, '?') ? '&' : '?', name, e) < 0) {
		fprintf(stderr, "pando: out of memory\n");
		exit(CLI_UNREACHABLE);
	}
	*path = s;
}

static size_t on_data(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *b = ctx;

	if (b->len + size * n > REPLY_MAX)
		return 0;
	buf_put(b, p, size * n);
	return b->failed ? 0 : size * n;
}

static int unreachable(struct cli *c, CURLcode rc)
{
	if (rc == CURLE_COULDNT_CONNECT)
		return cli_fail(CLI_UNREACHABLE,
		                "nothing answers at %s: start the server (make run), or say where "
		                "it is with --url or PANDO_URL",
		                c->url);
	return cli_fail(CLI_UNREACHABLE, "%s: %s", c->url, curl_easy_strerror(rc));
}

static int refused(struct cli *c, long status, const json_t *reply)
{
	const char *code = json_string_value(json_object_get(reply, "code"));
	const char *text = json_string_value(json_object_get(reply, "message"));

	if (!code)
		return cli_fail(CLI_UNREACHABLE,
		                "%s answered %ld without an error of ours: is it a Pando server?",
		                c->url, status);
	if (status == 401 || status == 429)
		return cli_fail(CLI_UNAUTHORIZED, "%s: %s (the key is from %s)", code,
		                text ? text : "", c->key_from);
	return cli_fail(status == 403 ? CLI_UNAUTHORIZED : CLI_REFUSED, "%s: %s", code,
	                text ? text : "");
}

static CURLcode perform(struct cli *c, const char *method, const char *url, const char *text,
                        struct buf *in)
{
	struct curl_slist *headers = curl_slist_append(NULL, c->header);
	CURLcode rc;

	if (text)
		headers = curl_slist_append(headers, "Content-Type: application/json");
	curl_easy_reset(c->curl);
	curl_easy_setopt(c->curl, CURLOPT_URL, url);
	curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "pando/" PANDO_VERSION);
	curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, REPLY_S);
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, in);
	if (text)
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, text);
	rc = curl_easy_perform(c->curl);
	curl_slist_free_all(headers);
	return rc;
}

int cli_call(struct cli *c, const char *method, const char *path, json_t *body_consume,
             json_t **ret)
{
	autofree char *text = body_consume ? json_dumps(body_consume, JSON_COMPACT) : NULL;
	autojson json_t *body = body_consume, *reply = NULL;
	autobuf struct buf in = { 0 };
	autofree char *url = NULL;
	long status = 0;
	CURLcode rc;

	if (asprintf(&url, "%s%s", c->url, path) < 0 || (body && !text))
		return cli_fail(CLI_UNREACHABLE, "out of memory");
	rc = perform(c, method, url, text, &in);
	if (rc != CURLE_OK)
		return unreachable(c, rc);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	reply = json_loadb((const char *)in.p, in.len, 0, NULL);
	if (status < 200 || status > 299 || !json_is_object(reply))
		return refused(c, status, reply);
	if (ret)
		*ret = TAKE_PTR(reply);
	return CLI_OK;
}
