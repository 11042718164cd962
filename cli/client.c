/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - one request and its reply
 *
 * config.c finds the server and the key; requests with bodies too large for memory, or that run for
 * long, are in stream.c.
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
#include "cli/config.h"

#define CONNECT_S 10L    /* to a server on this machine or nearby */
#define REPLY_S 660L     /* a command may take ten minutes, a create that boots nearly as long */
#define TELL_S 15L       /* for requests while something else is waiting */
#define SECRET_MAX 8192u /* bytes of a file with a token or a key */
#define REPLY_MAX (64u << 20)

struct cli {
	CURL *curl;
	struct target target;
	char header[CONFIG_VALUE_MAX + 32]; /* Authorization */
	bool json;
	long reply_s;               /* how long to wait for a reply */
	const char *url, *data_dir; /* borrowed: the options, NULL if not given */
};

_Noreturn void cli_oom(void)
{
	fprintf(stderr, "pando: out of memory\n");
	exit(CLI_UNREACHABLE);
}

struct cli *cli_new(void)
{
	struct cli *c = calloc(1, sizeof(*c));

	if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(c->curl = curl_easy_init()))
		cli_oom();
	c->reply_s = REPLY_S;
	return c;
}

struct cli *cli_free(struct cli *c)
{
	if (!c)
		return NULL;
	curl_easy_cleanup(c->curl);
	curl_global_cleanup();
	explicit_bzero(c, sizeof(*c));
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

int cli_tell(struct cli *c, const char *user, const char *path, json_t *body_consume)
{
	autojson json_t *reply = NULL;
	int status;

	c->reply_s = TELL_S;
	status = cli_try(c, user, "POST", path, body_consume, &reply, NULL);
	c->reply_s = REPLY_S;
	return status;
}

const char *cli_url(const struct cli *c)
{
	return c->target.url;
}

const char *cli_auth_header(const struct cli *c)
{
	return c->header;
}

void cli_set_target(struct cli *c, const char *url, const char *key, const char *from)
{
	snprintf(c->target.url, sizeof(c->target.url), "%s", url);
	snprintf(c->target.key, sizeof(c->target.key), "%s", key);
	snprintf(c->target.key_from, sizeof(c->target.key_from), "%s", from);
	snprintf(c->header, sizeof(c->header), "Authorization: Bearer %s", key);
}

struct cli *cli_clone(const struct cli *c)
{
	struct cli *n = cli_new();

	cli_set_target(n, c->target.url, c->target.key, c->target.key_from);
	return n;
}

void cli_ask_for(struct cli *c, const char *url, const char *data_dir)
{
	c->url = url;
	c->data_dir = data_dir;
}

void cli_asked(const struct cli *c, const char **ret_url, const char **ret_data_dir)
{
	*ret_url = c->url;
	*ret_data_dir = c->data_dir;
}

int cli_connect(struct cli *c, const char *url, const char *data_dir, struct err *err)
{
	int r = target_find(url, data_dir, &c->target, err);

	if (r < 0)
		return r;
	snprintf(c->header, sizeof(c->header), "Authorization: Bearer %s", c->target.key);
	return 0;
}

char *cli_read_secret(const char *file)
{
	const char *path = strcmp(file, "-") == 0 ? "/dev/stdin" : file;
	struct err err = { 0 };
	char *text = NULL;

	if (io_read_file(AT_FDCWD, path, SECRET_MAX, &text, &err) < 0) {
		cli_fail(CLI_USAGE, "%s", err.msg);
		return NULL;
	}
	return text;
}
static char *escape(struct cli *c, const char *s)
{
	char *e = curl_easy_escape(c->curl, s, 0), *copy = e ? strdup(e) : NULL;

	curl_free(e);
	if (!copy)
		cli_oom();
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
	if (!s)
		cli_oom();
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
	if (asprintf(&s, "%s%c%s=%s", old, strchr(old, '?') ? '&' : '?', name, e) < 0)
		cli_oom();
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

static int unreachable(const struct cli *c, CURLcode rc, struct err *err)
{
	if (rc == CURLE_COULDNT_CONNECT)
		return err_set(err, -ECONNREFUSED,
		               "no server at %s: start it (make run), or set its address with "
		               "--url, PANDO_API_URL or 'pando login'",
		               c->target.url);
	if (rc == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, -ETIMEDOUT, "%s: the server did not answer in time",
		               c->target.url);
	return err_set(err, -EIO, "%s: %s", c->target.url, curl_easy_strerror(rc));
}

int cli_refused(struct cli *c, long status, const json_t *reply)
{
	const char *code = json_string_value(json_object_get(reply, "code"));
	const char *text = json_string_value(json_object_get(reply, "message"));

	if (!code)
		return cli_fail(CLI_UNREACHABLE,
		                "%s answered %ld without a Pando error: is it a Pando server?",
		                c->target.url, status);
	if (strncmp(code, "UNAUTHORIZED", strlen("UNAUTHORIZED")) == 0 || status == 429)
		return cli_fail(CLI_UNAUTHORIZED, "%s: %s (the key is from %s)", code,
		                text ? text : "", c->target.key_from);
	return cli_fail(status == 401 || status == 403 ? CLI_UNAUTHORIZED : CLI_REFUSED, "%s: %s",
	                code, text ? text : "");
}

static CURLcode perform(struct cli *c, const char *user, const char *method, const char *url,
                        const char *text, struct buf *in)
{
	struct curl_slist *headers = curl_slist_append(NULL, c->header);
	char line[128];
	CURLcode rc;

	if (text)
		headers = curl_slist_append(headers, "Content-Type: application/json");
	snprintf(line, sizeof(line), "X-Freestyle-Vm-Linux-User-Id: %s", user ? user : "");
	if (user)
		headers = curl_slist_append(headers, line);
	curl_easy_reset(c->curl);
	curl_easy_setopt(c->curl, CURLOPT_URL, url);
	curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "pando/" PANDO_VERSION);
	curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, c->reply_s);
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, in);
	if (text)
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, text);
	rc = curl_easy_perform(c->curl);
	curl_slist_free_all(headers);
	return rc;
}

void cli_show_warning(void *easy)
{
	struct curl_header *h;

	if (curl_easy_header(easy, "X-Pando-Warning", 0, CURLH_HEADER, -1, &h) == CURLHE_OK)
		fprintf(stderr, "pando: warning: %s\n", h->value);
}

int cli_try(struct cli *c, const char *user, const char *method, const char *path,
            json_t *body_consume, json_t **ret, struct err *err)
{
	autofree char *text = body_consume ? json_dumps(body_consume, JSON_COMPACT) : NULL;
	autojson json_t *body = body_consume;
	autobuf struct buf in = { 0 };
	autofree char *url = NULL;
	long status = 0;
	CURLcode rc;

	if (asprintf(&url, "%s%s", c->target.url, path) < 0 || (body && !text))
		cli_oom();
	rc = perform(c, user, method, url, text, &in);
	if (rc != CURLE_OK)
		return unreachable(c, rc, err);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	cli_show_warning(c->curl);
	*ret = json_loadb((const char *)in.p, in.len, 0, NULL);
	return (int)status;
}

int cli_call_as(struct cli *c, const char *user, const char *method, const char *path,
                json_t *body_consume, json_t **ret)
{
	autojson json_t *reply = NULL;
	struct err err = { 0 };
	int status = cli_try(c, user, method, path, body_consume, &reply, &err);

	if (status < 0)
		return cli_fail(CLI_UNREACHABLE, "%s", err.msg);
	if (status < 200 || status > 299 || !(json_is_object(reply) || json_is_array(reply)))
		return cli_refused(c, status, reply);
	if (ret)
		*ret = TAKE_PTR(reply);
	return CLI_OK;
}

int cli_call(struct cli *c, const char *method, const char *path, json_t *body_consume,
             json_t **ret)
{
	return cli_call_as(c, NULL, method, path, body_consume, ret);
}
