/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/sniff.h - the name a connection is for, out of its first bytes
 *
 * Pure functions on bytes of guests: the server name of a TLS ClientHello, the
 * head of an HTTP/1 request. For net/ and its tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct egress_header;
struct h1_head;

#define SNIFF_MAX (16u << 10) /* bytes looked at; real ones have a few hundred to two thousand */
#define SNIFF_NAME_MAX 254u   /* with the NUL */

/* 1: ret_name is set (lower case); 0: more bytes are needed; -ENOENT: there is none to be found. */
int sniff_tls(const void *p, size_t n, char ret_name[SNIFF_NAME_MAX]);
/* The same for HTTP; ret_head points into p. -EBADMSG: it is not HTTP, or a kind that two parsers
 * could read in two ways (h1/h1.h). */
int sniff_http(const void *p, size_t n, char ret_name[SNIFF_NAME_MAX], struct h1_head *ret_head);
/*
 * The head as it is sent on: with these headers in the place of any of their names, and so that one
 * connection carries one request, unless it becomes a WebSocket (h->upgrade; gate_upgrade()).
 */
void sniff_http_rewrite(const struct h1_head *h, const struct egress_header *add, size_t n_add,
                        struct buf *out);
