/* SPDX-License-Identifier: Apache-2.0 */
/* git/github.h - calls of GitHub's REST API, as an App, an installation or nobody; for git/ only */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define GITHUB "https://github.com"
#define GITHUB_API "https://api.github.com"

/* ---- ghapps_read.c ---- */
/* "https://Host:443/path" -> "https://host:443". name: the member of the body, for messages. */
int github_origin(const char *url, const char *name, char *ret, size_t size, struct err *err);
/* Where the API of a server is; url NULL: where GitHub has it. */
int github_api_url(const char *server, const char *url, char *ret, size_t size, struct err *err);

/* ---- github.c ---- */
/* An RSA key in PEM that can sign? */
bool github_key_ok(const char *pem);

struct github_net {
	bool allow_private;
	const atomic_bool *ending;
};
struct github_call {
	const char *method; /* "GET", "POST", "DELETE" */
	const char *url;
	const char *bearer; /* or NULL */
	const char *body;   /* JSON, or NULL; with POST "" */
};
/*
 * One request; any answer is one: its status in *ret_status, its JSON in *ret (NULL if it is none).
 * *ret_ahead_s: how far the server's clock is ahead of ours; may be NULL. A failure's message
 * begins with what was wanted.
 */
int github_call(const struct github_net *net, const struct github_call *q, const char *what,
                json_t **ret, long *ret_status, int64_t *ret_ahead_s, struct err *err);

/* An App: whose key signs, and where. */
struct github_who {
	const char *api_url, *app_id, *private_key;
};
/* The same with path below the API, as the App: signed; once more if the clocks differ. */
int github_call_app(const struct github_net *net, const struct github_who *who, const char *method,
                    const char *path, const char *body, const char *what, json_t **ret,
                    long *ret_status, struct err *err);
