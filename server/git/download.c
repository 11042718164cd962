/* SPDX-License-Identifier: Apache-2.0 */
/*
 * download.c - a file from elsewhere, for an import
 *
 * Every address that is about to be connected to is checked, after redirects too, and the
 * connection goes to the address that was checked. The bytes go to a file without a name, up to a
 * limit.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "git/import.h"

#define DOWNLOAD_S 1800L
#define CONNECT_S 30L
#define REDIRECTS_MAX 5L

struct job {
	int fd;
	int64_t left;
	bool allow_private, internal, too_large;
};

static size_t on_data(char *p, size_t size, size_t n, void *ctx)
{
	struct job *j = ctx;

	n *= size;
	if ((int64_t)n > j->left) {
		j->too_large = true;
		return 0;
	}
	j->left -= (int64_t)n;
	return io_write_all(j->fd, p, n) < 0 ? 0 : n;
}

static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct job *j = ctx;

	if (purpose != CURLSOCKTYPE_IPCXN || (!j->allow_private && addr_is_internal(&a->addr))) {
		j->internal = true;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void set_options(CURL *c, const char *url, struct job *j)
{
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, DOWNLOAD_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 100L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, j);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, j);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "pando");
}

static int explain(const struct job *j, CURLcode rc, long status, const char *url,
                   struct repo_about *about, struct err *err)
{
	const char *plain = about->url;

	source_hide(url, about->url, sizeof(about->url));
	if (j->too_large)
		return err_tag(err, -EFBIG, ERR_LIMIT_EXCEEDED, "'%.150s' is too large", plain);
	if (j->internal)
		return err_tag(err, -EINVAL, ERR_SOURCE_NOT_FOUND,
		               "'%.150s' cannot be reached: internal addresses are not allowed on "
		               "this server",
		               plain);
	if (status == 401 || status == 403)
		return err_tag(err, -EINVAL, ERR_SOURCE_UNAUTHORIZED,
		               "'%.150s' needs a valid user name and password", plain);
	return err_tag(err, -EINVAL, ERR_SOURCE_NOT_FOUND, "'%.150s' cannot be downloaded: %s",
	               plain, curl_easy_strerror(rc));
}

int download(struct repos *g, const char *url, int64_t max, int *ret_fd, struct repo_about *about,
             struct err *err)
{
	char dir[PATH_MAX];
	autofd int fd = -1;
	struct job j;
	CURLcode rc;
	long status = 0;
	CURL *c;

	repos_path(g, "tmp", "", dir);
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, -errno, "make a file in '%s'", dir);
	c = curl_easy_init();
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	j = (struct job){ .fd = fd, .left = max, .allow_private = g->conf.allow_private };
	set_options(c, url, &j);
	rc = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(c);
	if (rc != CURLE_OK)
		return explain(&j, rc, status, url, about, err);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(err, -errno, "rewind");
	*ret_fd = TAKE_FD(fd);
	return 0;
}
