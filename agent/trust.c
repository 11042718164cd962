/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trust.c - makes a certificate authority of the host's one that this guest trusts
 *
 * What update-ca-certificates does, for one certificate, without minutes of hashing the others: its
 * file, so that the real one keeps it; links by which OpenSSL finds it; its text at the end of the
 * bundle that GnuTLS, curl, git and Python's requests read. For Node.js, which has authorities of
 * its own, a variable (TRUST_ENV) names a file with all of ours; Java is told by the hook that its
 * package has installed. An empty text takes one away. It is on the path of every thaw: a file that
 * is already there is compared, and nothing else is done.
 *
 * A server whose domain is below "localhost", which is what developers use, needs one thing more:
 * libc and curl take all such names for this machine's own and ask nobody. So the name server is
 * asked before them, and git is told where its name leads.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define FILE_DIR "/usr/local/share/ca-certificates"
#define CERTS_DIR "/etc/ssl/certs"
#define BUNDLE CERTS_DIR "/ca-certificates.crt"
#define JAVA_HOOK "/etc/ca-certificates/update.d/jks-keystore"
#define BUNDLE_MAX (8u << 20)
#define CONFIG_MAX (1u << 20)
#define OURS_DIR "/etc/pando"

struct trust {
	struct agent *a;
	const char *name, *hash, *pem;
	const char *domain; /* below "localhost", or "" */
	char file[PATH_MAX], bundle[PATH_MAX];
};

static void path_of(const struct trust *t, char ret[PATH_MAX], const char *dir, const char *name,
                    const char *suffix)
{
	snprintf(ret, PATH_MAX, "%s%s/%s%s", t->a->test_root ? t->a->test_root : "", dir, name,
	         suffix);
}

static int put(const char *path, int flags, const char *text, size_t n)
{
	autofd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

	return fd < 0 ? -errno : io_write_all(fd, text, n);
}

/* A link named `from` to the certificate's file, whatever was there. */
static int link_to(const struct trust *t, const char *name, const char *suffix)
{
	char from[PATH_MAX], to[PATH_MAX];

	path_of(t, from, CERTS_DIR, name, suffix);
	snprintf(to, sizeof(to), FILE_DIR "/%s.crt", t->name);
	(void)unlink(from);
	return symlink(to, from) < 0 ? -errno : 0;
}

/* The one that was trusted under this name before is not any more. */
static int bundle_drop(const struct trust *t, const char *old)
{
	autofree char *all = NULL;
	char tmp[PATH_MAX + 8], *at;
	int r;

	if (!*old)
		return 0; /* as at the first start: the bundle, large and not in memory, is not read
		           */
	r = io_read_file(AT_FDCWD, t->bundle, BUNDLE_MAX, &all, NULL);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	at = strstr(all, old);
	if (!at)
		return 0;
	memmove(at, at + strlen(old), strlen(at + strlen(old)) + 1);
	snprintf(tmp, sizeof(tmp), "%s.pando", t->bundle);
	r = put(tmp, O_TRUNC, all, strlen(all));
	return r < 0 ? r : rename(tmp, t->bundle) < 0 ? -errno : 0;
}

static void java_child(const struct trust *t)
{
	char *argv[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
		         (char *)(uintptr_t) "echo \"+" CERTS_DIR "/$0.pem\" | " JAVA_HOOK
		                             " >/dev/null 2>&1",
		         (char *)(uintptr_t)t->name, NULL };
	char *envp[] = { (char *)(uintptr_t) "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

	setsid();
	execve("/bin/sh", argv, envp);
	_exit(127);
}

/* In the background: it starts a Java machine. */
static void tell_java(const struct trust *t)
{
	struct job_fds fds;
	struct stream *s;

	if (t->a->test_root || access(JAVA_HOOK, X_OK) < 0)
		return;
	s = stream_new(t->a, 0, AGENT_OP_TRUST);
	if (s && job_fork(t->a, s, 0, &fds) == 1)
		java_child(t);
}

/* All of them, as one file. */
static int put_ours(const struct trust *t)
{
	char dir[PATH_MAX], path[PATH_MAX];
	autobuf struct buf all = { 0 };
	struct dirent *e;
	int r;
	DIR *d;

	path_of(t, dir, FILE_DIR, "", "");
	d = opendir(dir);
	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		autofree char *pem = NULL;

		if (strncmp(e->d_name, "pando-", 6) != 0 || !strstr(e->d_name, ".crt"))
			continue;
		if (io_read_file(dirfd(d), e->d_name, AGENT_CA_MAX, &pem, NULL) == 0)
			buf_printf(&all, "%s", pem);
	}
	closedir(d);
	path_of(t, dir, OURS_DIR, "", "");
	path_of(t, path, OURS_DIR, "ca.pem", "");
	r = io_mkdirs(dir, 0755, NULL);
	if (r < 0 || all.failed)
		return r < 0 ? r : -ENOMEM;
	return io_write_file(AT_FDCWD, path, all.p, all.len, 0644, NULL);
}

static int distrust(const struct trust *t, const char *old)
{
	char link[PATH_MAX];
	int r = bundle_drop(t, old);

	if (r < 0)
		return r;
	path_of(t, link, CERTS_DIR, t->hash, ".0");
	(void)unlink(link);
	path_of(t, link, CERTS_DIR, t->name, ".pem");
	(void)unlink(link);
	return unlink(t->file) < 0 && errno != ENOENT ? -errno : put_ours(t);
}

static int trust(const struct trust *t)
{
	autofree char *old = NULL;
	char link[PATH_MAX], dir[PATH_MAX];
	struct stat st;
	int r = io_read_file(AT_FDCWD, t->file, AGENT_CA_MAX, &old, NULL);

	if (!*t->pem)
		return r < 0 ? 0 : distrust(t, old);

	path_of(t, link, CERTS_DIR, t->hash, ".0");
	if (r == 0 && !strcmp(old, t->pem) && lstat(link, &st) == 0)
		return 0;
	path_of(t, dir, FILE_DIR, "", "");
	if (access(dir, F_OK) < 0 && (r = io_mkdirs(dir, 0755, NULL)) < 0)
		return r;
	path_of(t, dir, CERTS_DIR, "", "");
	if (access(dir, F_OK) < 0 && (r = io_mkdirs(dir, 0755, NULL)) < 0)
		return r;
	if ((r = bundle_drop(t, old ? old : "")) < 0 ||
	    (r = put(t->bundle, O_APPEND, t->pem, strlen(t->pem))) < 0 ||
	    (r = link_to(t, t->hash, ".0")) < 0 || (r = link_to(t, t->name, ".pem")) < 0 ||
	    (r = put(t->file, O_TRUNC, t->pem, strlen(t->pem))) < 0 || (r = put_ours(t)) < 0)
		return r;
	tell_java(t);
	return 0;
}

/* ---- a domain below localhost ---- */

static int rewrite(const char *path, const char *p, size_t n, const char *line, const char *rest)
{
	autobuf struct buf b = { 0 };

	buf_put(&b, p, n);
	buf_printf(&b, "%s%s", line, rest);
	return b.failed ? -ENOMEM : put(path, O_TRUNC, (const char *)b.p, b.len);
}

/* "hosts: files dns myhostname": nss-myhostname would answer. */
static int ask_dns_first(const struct trust *t)
{
	autofree char *all = NULL;
	char path[PATH_MAX], *line, *end, *mine, *dns;
	int r;

	path_of(t, path, "/etc", "nsswitch.conf", "");
	r = io_read_file(AT_FDCWD, path, CONFIG_MAX, &all, NULL);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	line = strncmp(all, "hosts:", 6) == 0 ? all : strstr(all, "\nhosts:");
	if (!line)
		return 0;
	line += *line == '\n';
	end = line + strcspn(line, "\n");
	mine = memmem(line, (size_t)(end - line), "myhostname", 10);
	dns = memmem(line, (size_t)(end - line), "dns", 3);
	if (!mine || !dns || dns < mine)
		return 0;
	return rewrite(path, all, (size_t)(line - all), "hosts:          files dns myhostname",
	               end);
}

static int tell_git(const struct trust *t)
{
	autofree char *all = NULL;
	char path[PATH_MAX], line[2 * AGENT_DOMAIN_MAX + 128];
	int r;

	path_of(t, path, "/etc", "gitconfig", "");
	snprintf(line, sizeof(line),
	         "[http]\n\tcurloptResolve = git.%s:443:10.0.0.1\n"
	         "\tcurloptResolve = git.%s:80:10.0.0.1\n",
	         t->domain, t->domain);
	r = io_read_file(AT_FDCWD, path, CONFIG_MAX, &all, NULL);
	if (r < 0 && r != -ENOENT)
		return r;
	return all && strstr(all, line) ? 0 : put(path, O_APPEND, line, strlen(line));
}

static bool valid(const struct trust *t)
{
	return *t->name && !t->name[strspn(t->name, "abcdefghijklmnopqrstuvwxyz-")] &&
	       strlen(t->hash) == 8 && strspn(t->hash, "0123456789abcdef") == 8 &&
	       (!*t->pem || (!strncmp(t->pem, "-----BEGIN CERTIFICATE-----\n", 28) &&
	                     t->pem[strlen(t->pem) - 1] == '\n')) &&
	       !t->domain[strspn(t->domain, "abcdefghijklmnopqrstuvwxyz0123456789.-")];
}

void trust_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct trust t = { .a = a };
	int r;

	if (agent_text_get(c, AGENT_CA_NAME, &t.name) < 0 ||
	    agent_text_get(c, AGENT_CA_NAME, &t.hash) < 0 ||
	    agent_text_get(c, AGENT_CA_MAX, &t.pem) < 0 ||
	    agent_text_get(c, AGENT_DOMAIN_MAX, &t.domain) < 0 || rd_end(c) < 0 || !valid(&t)) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "not a certificate");
		return;
	}
	path_of(&t, t.file, FILE_DIR, t.name, ".crt");
	path_of(&t, t.bundle, CERTS_DIR, "ca-certificates", ".crt");
	r = trust(&t);
	if (r == 0 && *t.domain && (r = ask_dns_first(&t)) == 0)
		r = tell_git(&t);
	stream_answer(a, id, (uint32_t)-r, AGENT_TAG_NONE,
	              r < 0 ? "a file could not be written" : "");
}
