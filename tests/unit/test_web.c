/* SPDX-License-Identifier: Apache-2.0 */
/* test_web.c - files of a site: which is found, unpacking, and what clients say they take and have
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "web/web.h"

#define TEXT "<!doctype html><p>hello hello hello hello hello hello"

static unsigned char data[512];
static struct web_file files[] = {
	{ "assets/a-00000000.js", "text/javascript", "\"a\"", 0, 3, 3, false, true },
	{ "docs/guides/agents.html", "text/html", "\"g\"", 0, 3, 3, false, false },
	{ "docs/index.html", "text/html", "\"d\"", 0, 3, 3, false, false },
	{ "docs/llms.txt", "text/plain", "\"l\"", 0, 3, 3, false, false },
	{ "index.html", "text/html", "\"i\"", 3, 0, sizeof(TEXT) - 1, true, false },
};
static const struct web site = { files, ARRAY_SIZE(files), data };

static int pack(void **state)
{
	z_stream z = { .next_in = (z_const Bytef *)TEXT, .avail_in = sizeof(TEXT) - 1 };

	for (size_t i = 0; i < 3; i++)
		data[i] = (unsigned char)"abc"[i];
	z.next_out = data + 3;
	z.avail_out = sizeof(data) - 3;
	if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
	    deflate(&z, Z_FINISH) != Z_STREAM_END)
		return -1;
	files[4].len = (uint32_t)z.total_out;
	deflateEnd(&z);
	return 0;
}

static void finds(void **state)
{
	static const char *const none[] = { "",
		                            "/",
		                            "index",
		                            "INDEX.HTML",
		                            "assets",
		                            "assets/",
		                            "../index.html",
		                            "assets/../index.html",
		                            "assets/a-00000000.js/",
		                            "zzz" };
	const struct web empty = { 0 };

	for (size_t i = 0; i < site.n; i++)
		assert_ptr_equal(web_find(&site, files[i].path), &files[i]);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		assert_null(web_find(&site, none[i]));
	assert_null(web_find(&empty, "index.html"));
}

static void finds_pages(void **state)
{
	char deep[2000] = "docs/";

	assert_ptr_equal(web_find_page(&site, "docs"), &files[2]);
	assert_ptr_equal(web_find_page(&site, "docs/"), &files[2]);
	assert_ptr_equal(web_find_page(&site, "docs///"), &files[2]);
	assert_ptr_equal(web_find_page(&site, "docs/index.html"), &files[2]);
	assert_ptr_equal(web_find_page(&site, "docs/llms.txt"), &files[3]);
	assert_ptr_equal(web_find_page(&site, "docs/guides/agents"), &files[1]);
	assert_null(web_find_page(&site, "docs/guides"));
	assert_null(web_find_page(&site, "docs/../index"));
	assert_null(web_find_page(&site, ""));
	memset(deep + 5, 'a', sizeof(deep) - 6);
	assert_null(web_find_page(&site, deep));
}

static void unpacks(void **state)
{
	struct web_file cut = files[4], longer = files[4];
	struct err err = { 0 };
	void *p;

	assert_int_equal(web_unpack(&site, &files[4], &p, &err), 0);
	assert_memory_equal(p, TEXT, sizeof(TEXT) - 1);
	free(p);
	assert_int_equal(web_unpack(&site, &files[0], &p, &err), 0);
	assert_memory_equal(p, "abc", 3);
	free(p);
	/* A table that does not fit its block is an error, not a crash. */
	cut.len -= 5;
	assert_int_equal(web_unpack(&site, &cut, &p, &err), -EIO);
	assert_null(p);
	longer.raw += 1;
	assert_int_equal(web_unpack(&site, &longer, &p, &err), -EIO);
	longer.raw -= 2;
	assert_int_equal(web_unpack(&site, &longer, &p, &err), -EIO);
}

static void encodings(void **state)
{
	static const char *const yes[] = {
		"gzip",        "GZip", "gzip, deflate, br", "br,gzip;q=0.5", "deflate , gzip ; q=1",
		"gzip;q=0.001"
	};
	static const char *const no[] = { "",      "br",       "identity",      "xgzip",
		                          "gzipx", "gzip;q=0", "gzip; q=0.000", "deflate, br;q=1",
		                          ",,," };

	assert_false(web_takes_gzip(NULL));
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(web_takes_gzip(yes[i]));
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(web_takes_gzip(no[i]));
}

static void versions(void **state)
{
	static const char *const yes[] = { "\"i\"", "W/\"i\"", "*", "\"x\", \"i\"",
		                           " \"x\" ,W/\"i\" " };
	static const char *const no[] = { "", "\"x\"", "i", "\"i", "\"ii\"", "W/", "**" };

	assert_false(web_known(NULL, "\"i\""));
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(web_known(yes[i], "\"i\""));
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(web_known(no[i], "\"i\""));
}

/* What scripts/web.sh made: sorted, within its block, and every file can be unpacked. */
static void the_site(void **state)
{
	struct err err = { 0 };

	assert_non_null(web_find(&web_site, "index.html"));
	for (size_t i = 0; i < web_site.n; i++) {
		const struct web_file *f = &web_site.files[i];
		void *p;

		if (i)
			assert_true(strcmp(f[-1].path, f->path) < 0);
		assert_ptr_equal(web_find(&web_site, f->path), f);
		assert_int_equal(web_unpack(&web_site, f, &p, &err), 0);
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds),    cmocka_unit_test(finds_pages),
		cmocka_unit_test(unpacks),  cmocka_unit_test(encodings),
		cmocka_unit_test(versions), cmocka_unit_test(the_site),
	};

	return cmocka_run_group_tests(tests, pack, NULL);
}
