/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/manifest.h - what a backup consists of; shared by backup.c and restore.c
 *
 * A backup is a directory with manifest.json and data/, which is a data directory. The manifest is
 * written last and lists every directory ("path/") and every file of data/, with size, mode, time
 * and checksum; a directory without it is not a backup.
 *
 * Checksum: SHA-256 over the offset (8 bytes, little endian) and the bytes of each block of 64 KiB
 * that is not all zeros. So the holes of a disk image cost nothing, and a copy has the same
 * checksum whether or not it kept them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

#define MANIFEST "manifest.json"
#define MANIFEST_FORMAT 1
#define HASH_SIZE 65

/* -EINTR: ended by a signal (backup_signals()). */
int manifest_hash(const char *path, char ret[HASH_SIZE], struct err *err);
/* Calls fn for everything below dir, directories ("sub/") before what is in them. */
int manifest_walk(const char *dir, int (*fn)(void *ctx, const char *path, struct err *err),
                  void *ctx, struct err *err);
/* The manifest of the backup in dir, checked for its form. Caller json_decref()s. */
int manifest_load(const char *dir, json_t **ret, struct err *err);
/* dir itself, or the newest complete backup in it. -ENOENT. */
int manifest_find(const char *dir, char *ret, size_t size, struct err *err);

/* SIGINT, SIGTERM and SIGHUP end what is being done, properly. */
void backup_signals(void);
int backup_stopped(struct err *err); /* 0, or -EINTR */

/* "copied 12 of 345 MiB" on a terminal. */
struct progress {
	const char *verb;
	uint64_t done, all; /* bytes */
	uint64_t said_ms;
};
void progress_add(struct progress *p, uint64_t bytes);
void progress_end(struct progress *p);
