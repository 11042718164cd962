/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events/access.h - the access log: who asked for which name of which VM; for main.c, front/, api/
 *
 * Lines are kept in memory, the newest of each name and VM, and belong to the account that owned
 * the name when they were written. logs_query() shows them. An orderly stop writes them to a file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"

struct access;
struct err;

#define ACCESS_RING_MAX (256u << 10)  /* bytes of lines of one name and VM */
#define ACCESS_ACCOUNT_MAX (2u << 20) /* of all of an account; the longest unused go first */
#define ACCESS_ALL_MAX (32u << 20)    /* of all accounts; those of the largest one go first */
#define ACCESS_KEEP_MS (INT64_C(7) * 24 * 3600 * 1000) /* older lines are not shown */
#define ACCESS_NAME_SIZE 256
#define ACCESS_PATH_SIZE 257

struct access_line {
	int64_t at_ms; /* since the epoch; never before that of an earlier line */
	uint64_t seq;  /* set by access_add() */
	uint64_t in, out;
	uint32_t ms;
	uint16_t status; /* 0: no response */
	uint8_t proto;   /* 10, 11, 20; 0: a TLS connection, passed on as it was */
	bool tls, woke, guest;
	char host[ACCESS_NAME_SIZE];
	char vm[ID_SIZE];
	char method[33];
	char path[ACCESS_PATH_SIZE]; /* printable ASCII: other bytes are written %XX */
	char client[64];
	char error[48]; /* a code, or "" */
};

struct access *access_new(void); /* NULL: out of memory */
struct access *access_free(struct access *a);
/* name: the mapping, which can be a wildcard; l->host is what was asked for. Short, never blocks.
 */
void access_add(struct access *a, const char *account, const char *name,
                const struct access_line *l);
/* Of an account that is deleted. */
void access_forget(struct access *a, const char *account);
/* "203.0.113.9 GET app.example.org/x HTTP/2 200, 0 B in, 12 B out, 3 ms" */
/* "HTTP/2" */
const char *access_protocol(const struct access_line *l);
#define ACCESS_TEXT_SIZE 1024
void access_text(const struct access_line *l, char ret[ACCESS_TEXT_SIZE]);
/* Path as it is kept: printable, cut to what fits. */
void access_path(const char *path, char ret[ACCESS_PATH_SIZE]);
/* To and from a file; loading one that is missing or damaged leaves the log as it is. */
int access_save(struct access *a, const char *path, struct err *err);
int access_load(struct access *a, const char *path, struct err *err);
