/* SPDX-License-Identifier: Apache-2.0 */
/*
 * download.c - a file from elsewhere, for an import
 *
 * Redirects are followed; every address that is about to be connected to is checked by outbound.c.
 * The bytes go to a file without a name, up to a limit.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "git/import.h"
#include "hook/outbound.h"

#define DOWNLOAD_MS 1800000L
#define CONNECT_MS 30000L
#define REDIRECTS_MAX 5L

struct job {
	struct outbound out;
	int fd;
	int64_t left;
	bool too_large;
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

static void set_options(CURL *c, const char *url, struct job *j)
{
	outbound_set(c, url, &j->out);
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, DOWNLOAD_MS);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 100L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
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
	if (j->out.refused)
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
		return err_sys(err, -errno, "make a file for a download");
	c = curl_easy_init();
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	j = (struct job){ .out.allow_private = g->conf.allow_private, .fd = fd, .left = max };
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
