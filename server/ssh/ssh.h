/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh/ssh.h - the SSH server: logins to VMs that have no sshd, and Git; for main.c
 *
 * Carries out clients' requests through the agent or, after a login to a repository, with Git's
 * programs. One thread per connection, and one process, pando-ssh, which speaks the SSH protocol;
 * nothing of a connection outlives it. What another node has is served there: the process stays
 * here.
 */
#pragma once

#include <stddef.h>

struct auth;
struct err;
struct peers;
struct repos;
struct sshd;
struct starter_kind;
struct store;
struct vmm;

struct sshd_deps { /* all weak: they outlive it */
	struct auth *auth;
	struct vmm *vmm;
	struct repos *repos;  /* NULL: no logins to repositories */
	struct store *store;  /* of nodes, which have host keys together; NULL: none */
	struct peers *peers;  /* the other nodes; NULL: none. sshd_free() comes after peers_end() */
	const char *data_dir; /* host keys are in <data_dir>/ssh; copied */
	int listen_fd;        /* from sshd_listen(); sshd_start() takes it */
	unsigned grace_ms;    /* from a connection to a login; 0: the default. Tests shorten it */
};

/* For starter_open(), after sshd_kind_init(): the only way processes are started. path: of the
 * program; NULL: it is beside this one, or where it is installed. */
extern const struct starter_kind sshd_kind;
int sshd_kind_init(const char *path, struct err *err);

/* Opens the socket early, so that an address in use is found before anything else starts. */
int sshd_listen(const char *address, struct err *err);
int sshd_start(const struct sshd_deps *deps, struct sshd **ret, struct err *err);
/*
 * Accepts no new connections, asks existing ones to end and waits up to drain_ms. 0: all have
 * ended. -EBUSY: some still wait for a VM; end it and call again, or exit the process.
 */
int sshd_stop(struct sshd *d, unsigned drain_ms, struct err *err);
void sshd_free(struct sshd *d); /* call it after sshd_stop(); NULL is fine */

struct sshd_status {
	char address[64];       /* "127.0.0.1:2222", with the real port */
	unsigned connections;   /* all of them */
	unsigned authenticated; /* those logged in */
	unsigned channels;      /* open shells, commands and forwarded connections */
	unsigned ended_badly;   /* processes that did not end by themselves and well */
};
void sshd_status(struct sshd *d, struct sshd_status *ret);
