/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smart_http.c - Git's own protocol over HTTP, at /<repository> and /<repository>.git
 *
 * Git asks without a password first and sends one when it is challenged; so a repository that is
 * not public answers 401 to a stranger, whether it exists or not. The password is a token or an API
 * key, the user name does not matter.
 *
 * A fetch's request is small and kept (decompressed up to a limit) before upload-pack runs on it; a
 * push is passed on to receive-pack while it arrives. Both answer while they work.
 */
#include "api/git/shared.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <zlib.h>

#include "base/auto.h"
#include "base/io.h"

#define FETCH_MAX MIB(64)    /* of a fetch's request, decompressed: it lists commits */
#define CREDENTIALS_MAX 512u /* bytes of a user name and a password */
#define INFLATE_PIECE 65536u

/* ---- who asks ---- */

int repo_id_check(struct request *req, struct err *err)
{
	const char *id = request_arg(req, "{repo}");
	size_t n;
	int r;

	if (!id && strncmp(req->match.route->pattern, "/git/", 5) != 0)
		return 0;
	if (!deps_of(req)->repos)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "repositories are not available on this server");
	if ((r = repos_ready(deps_of(req)->repos, err)) < 0 || !id)
		return r;
	n = strlen(id);
	if (req->match.route->scope == SCOPE_GIT_HTTP && n > 4 && strcmp(id + n - 4, ".git") == 0)
		n -= 4;
	snprintf(caller_of(req)->repo_id, sizeof(caller_of(req)->repo_id), "%.*s",
	         (int)MIN(n, sizeof(caller_of(req)->repo_id) - 1), id);
	return 0;
}

/* "Basic ..." -> "Bearer <password>"; a password alone may also stand where the user is. */
static int basic_to_bearer(const char *text, char *ret, size_t size)
{
	unsigned char plain[CREDENTIALS_MAX + 4];
	size_t n = strlen(text);
	const char *pass;
	int k;

	if (n == 0 || n % 4 || n / 4 * 3 > CREDENTIALS_MAX)
		return -EINVAL;
	k = EVP_DecodeBlock(plain, (const unsigned char *)text, (int)n);
	if (k < 0)
		return -EINVAL;
	plain[k] = '\0'; /* padding has become NULs as well */
	pass = strchr((char *)plain, ':');
	if (pass && pass[1])
		pass++;
	else
		pass = (char *)plain;
	k = (int)strcspn(pass, ":");
	snprintf(ret, size, "Bearer %.*s", k, pass);
	OPENSSL_cleanse(plain, sizeof(plain));
	return 0;
}

static bool wants_write(struct request *req)
{
	const char *pattern = req->match.route->pattern;
	autofree char *service = NULL;

	if (strstr(pattern, "/info/refs"))
		return request_query(req, "service", &service, NULL) == 0 && service &&
		       strcmp(service, "git-receive-pack") == 0;
	return strstr(pattern, "git-receive-pack") || req->match.route->method == METHOD_PUT;
}

int git_check(struct request *req, struct err *err)
{
	const char *header = request_header(req, "Authorization");
	const char *token = request_header(req, "X-Freestyle-Identity-Access-Token");
	char bearer[CREDENTIALS_MAX + 16] = "";
	struct store_repo repo;
	int r;

	caller_of(req)->scope = wants_write(req) ? SCOPE_GIT_WRITE : SCOPE_GIT_READ;
	if (!header && !token) {
		r = repo_find(deps_of(req)->repos, "", caller_of(req)->repo_id, REPO_READ, &repo,
		              err);
		if (r < 0 && r != -ENOENT)
			return r;
		if (r == 0 && caller_of(req)->scope == SCOPE_GIT_READ) {
			caller_of(req)->scope = SCOPE_PUBLIC;
			return 1;
		}
		req->challenge = GIT_CHALLENGE;
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED,
		               "a password is required: an access token or an API key");
	}
	if (header && strncasecmp(header, "Basic ", 6) == 0) {
		if (basic_to_bearer(header + 6, bearer, sizeof(bearer)) < 0)
			r = err_tag(err, -EACCES, ERR_UNAUTHORIZED,
			            "the password is not a valid access token or API key");
		else
			r = auth_check(deps_of(req)->auth, bearer, NULL, who_of(req), err);
		OPENSSL_cleanse(bearer, sizeof(bearer));
	} else {
		r = auth_check(deps_of(req)->auth, header, token, who_of(req), err);
	}
	if (r == -EACCES)
		req->challenge = GIT_CHALLENGE;
	return r;
}

int request_repo(struct request *req, enum repo_access access, struct store_repo *ret,
                 struct err *err)
{
	return repo_find(deps_of(req)->repos, who_of(req)->account, caller_of(req)->repo_id, access,
	                 ret, err);
}

struct repo_client request_repo_client(struct request *req)
{
	return (struct repo_client){ .holder = req->holder,
		                     .stranger = !*req->account,
		                     .fd = request_client_fd(req) };
}

/* ---- what git says ---- */

struct says {
	struct svc *s; /* owned */
	char prefix[64];
	size_t n, at; /* of the prefix */
};

static ssize_t says_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct says *y = ctx;
	size_t left = y->n - y->at;

	if (left) {
		left = MIN(left, max);
		memcpy(p, y->prefix + y->at, left);
		y->at += left;
		return (ssize_t)left;
	}
	return svc_read(y->s, p, max, err);
}

static int says_fd(void *ctx)
{
	return svc_fd(((struct says *)ctx)->s);
}

static void says_free(void *ctx)
{
	struct says *y = ctx;

	svc_free(y->s);
	free(y);
}

static unsigned says_stall_ms(void *ctx)
{
	return svc_stall_ms(((struct says *)ctx)->s);
}

static const struct outflow_ops says_ops = {
	.next = says_next, .fd = says_fd, .free = says_free, .stall_ms = says_stall_ms
};

int reply_service(struct request *req, struct reply *res, struct svc *s_consume, const char *prefix,
                  const char *type, struct err *err)
{
	struct says *y = calloc(1, sizeof(*y));

	if (!y) {
		svc_free(s_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	y->s = s_consume;
	y->n = (size_t)snprintf(y->prefix, sizeof(y->prefix), "%s", prefix ? prefix : "");
	return reply_flow(req, res, &says_ops, y, OUTFLOW_UNKNOWN, type, err);
}

/* ---- what there is ---- */

int api_git_info_refs(struct request *req, struct reply *res, struct err *err)
{
	const char *protocol = request_header(req, "Git-Protocol");
	struct repo_client by = request_repo_client(req);
	struct svc_opts o = { .protocol = protocol,
		              .by = who_of(req)->key,
		              .advertise = true,
		              .stdin_fd = -1,
		              .client = &by };
	autofree char *name = NULL;
	char prefix[64] = "", type[64];
	struct store_repo repo;
	struct svc *s;
	int r;

	if ((r = request_query(req, "service", &name, err)) < 0)
		return r;
	if (!name || !*name)
		return err_tag(
		        err, -EACCES, ERR_EXPECTED_SERVICE,
		        "'service' is missing: this server only supports Git's smart protocol");
	if (strcmp(name, "git-upload-pack") != 0 && strcmp(name, "git-receive-pack") != 0)
		return err_tag(err, -EACCES, ERR_INVALID_SERVICE,
		               "'service' must be git-upload-pack or git-receive-pack");
	o.kind = strcmp(name, "git-upload-pack") == 0 ? REPO_UPLOAD_PACK : REPO_RECEIVE_PACK;
	if ((r = request_repo(req, o.kind == REPO_UPLOAD_PACK ? REPO_READ : REPO_WRITE, &repo,
	                      err)) < 0 ||
	    (r = svc_start(deps_of(req)->repos, &repo, &o, &s, err)) < 0)
		return r;
	snprintf(type, sizeof(type), "application/x-%s-advertisement", name);
	if (o.kind == REPO_RECEIVE_PACK || !protocol || !strstr(protocol, "version=2"))
		snprintf(prefix, sizeof(prefix), "%04zx# service=%s\n0000", strlen(name) + 15,
		         name);
	return reply_service(req, res, s, prefix, type, err);
}

/* ---- fetch ---- */

static bool is_gzip(struct request *req)
{
	const char *e = request_header(req, "Content-Encoding");

	return e && (strcasecmp(e, "gzip") == 0 || strcasecmp(e, "x-gzip") == 0);
}

static int bad_gzip(struct err *err)
{
	return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST, "the body is not valid gzip data");
}

static int inflate_to(int fd, const char *p, size_t n, struct err *err)
{
	z_stream z = { .next_in = (unsigned char *)(uintptr_t)p, .avail_in = (unsigned)n };
	autofree uint8_t *out = malloc(INFLATE_PIECE);
	uint64_t total = 0;
	int rc = Z_OK, r = 0;

	if (!out || inflateInit2(&z, 15 + 16) != Z_OK)
		return err_set(err, -ENOMEM, "out of memory");
	while (r == 0 && rc != Z_STREAM_END) {
		z.next_out = out;
		z.avail_out = INFLATE_PIECE;
		rc = inflate(&z, Z_NO_FLUSH);
		total += INFLATE_PIECE - z.avail_out;
		if ((rc != Z_OK && rc != Z_STREAM_END) ||
		    (rc == Z_OK && z.avail_out && !z.avail_in))
			r = bad_gzip(err);
		else if (total > FETCH_MAX)
			r = err_tag(err, -E2BIG, ERR_GIT_INVALID_REQUEST,
			            "the request is too long");
		else
			r = io_write_all(fd, out, INFLATE_PIECE - z.avail_out);
	}
	inflateEnd(&z);
	return r;
}

/* The request's body as a file, to be read from its start. */
static int request_file(struct request *req, int *ret, struct err *err)
{
	autofd int fd = memfd_create("fetch", MFD_CLOEXEC);
	const char *p;
	size_t n;
	int r;

	if (fd < 0)
		return err_sys(err, -errno, "create a file in memory");
	if ((r = body_view(&req->body, &p, &n, err)) < 0)
		return r;
	r = is_gzip(req) ? inflate_to(fd, p, n, err) : io_write_all(fd, p, n);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(err, -errno, "rewind");
	*ret = TAKE_FD(fd);
	return 0;
}

int api_git_upload_pack(struct request *req, struct reply *res, struct err *err)
{
	struct repo_client by = request_repo_client(req);
	struct svc_opts o = { .kind = REPO_UPLOAD_PACK,
		              .protocol = request_header(req, "Git-Protocol"),
		              .by = who_of(req)->key,
		              .client = &by };
	struct store_repo repo;
	struct svc *s;
	autofd int fd = -1;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = request_file(req, &fd, err)) < 0)
		return r;
	o.stdin_fd = fd;
	if ((r = svc_start(deps_of(req)->repos, &repo, &o, &s, err)) < 0)
		return r;
	return reply_service(req, res, s, NULL, "application/x-git-upload-pack-result", err);
}

/* ---- push ---- */

struct push {
	struct svc *s; /* owned; NULL once it is the reply's */
	z_stream z;
	bool gzip, deaf; /* deaf: receive-pack reads no more, the rest of the body is dropped */
};

static void push_drop(void *ctx)
{
	struct push *p = ctx;

	svc_free(p->s);
	if (p->gzip)
		inflateEnd(&p->z);
	free(p);
}

static int push_open(struct request *req, struct err *err)
{
	struct repo_client by = request_repo_client(req);
	struct svc_opts o = { .kind = REPO_RECEIVE_PACK,
		              .protocol = request_header(req, "Git-Protocol"),
		              .by = who_of(req)->key,
		              .stdin_fd = -1,
		              .client = &by };
	struct store_repo repo;
	struct push *p;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	if (is_gzip(req) && inflateInit2(&p->z, 15 + 16) != Z_OK) {
		free(p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	p->gzip = is_gzip(req);
	r = svc_start(deps_of(req)->repos, &repo, &o, &p->s, err);
	if (r < 0) {
		push_drop(p);
		return r;
	}
	req->intake = p;
	return 0;
}

/* When receive-pack stops reading it tells the client why. */
static int pass_on(struct push *p, const void *data, size_t n, struct err *err)
{
	int r = p->deaf ? 0 : svc_write(p->s, data, n, err);

	if (r == -EPIPE) {
		p->deaf = true;
		return 0;
	}
	return r;
}

static int push_data(struct request *req, const void *data, size_t n, struct err *err)
{
	struct push *p = req->intake;
	uint8_t out[16384];
	int rc, r = 0;

	if (!p->gzip)
		return pass_on(p, data, n, err);
	p->z.next_in = (unsigned char *)(uintptr_t)data;
	p->z.avail_in = (unsigned)n;
	do {
		p->z.next_out = out;
		p->z.avail_out = sizeof(out);
		rc = inflate(&p->z, Z_NO_FLUSH);
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return bad_gzip(err);
		r = pass_on(p, out, sizeof(out) - p->z.avail_out, err);
	} while (r == 0 && rc == Z_OK && p->z.avail_out == 0);
	return r;
}

const struct intake api_git_push_intake = { push_open, push_data, push_drop };

int api_git_receive_pack(struct request *req, struct reply *res, struct err *err)
{
	struct push *p = req->intake;
	int r = svc_write_end(p->s, err);

	if (r < 0)
		return r;
	return reply_service(req, res, TAKE_PTR(p->s), NULL,
	                     "application/x-git-receive-pack-result", err);
}
