/* SPDX-License-Identifier: Apache-2.0 */
/* test_cli_draw.c - what the pando command draws: the tree, pictures in terminals */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/auto.h"
#include "base/json_field.h"
#include "cli/image.h"
#include "cli/stream.h"
#include "cli/tree.h"

static const char tree_text[] =
        "{'nodes': ["
        "{'id':'pt-1','type':'point','kind':'template','parent':null,'shared':true,'name':null,"
        " 'memory':{'ownBytes':0,'sharedBytes':200000000},'disk':{'ownBytes':0,'sharedBytes':"
        "1400000000}},"
        "{'id':'pt-2','type':'point','kind':'snapshot','parent':'pt-1','name':'be\\u001bfore','"
        "snapshotId':'sc-2',"
        " 'memory':{'ownBytes':1500000},'disk':{'ownBytes':300}},"
        "{'id':'pt-3','type':'point','kind':'fork','parent':'pt-2','name':null,'snapshotId':null,"
        " 'memory':{'ownBytes':0},'disk':{'ownBytes':0}},"
        "{'id':'v1','type':'vm','kind':'vm','parent':'pt-3','name':'web','state':'running',"
        " 'memory':{'ownBytes':0},'disk':{'ownBytes':262144}},"
        "{'id':'pt-4','type':'point','kind':'suspend','parent':'pt-3','name':null,"
        " 'memory':{'ownBytes':5},'disk':{'ownBytes':5}},"
        "{'id':'v2','type':'vm','kind':'vm','parent':'pt-4','name':null,'state':'suspended',"
        " 'memory':{'ownBytes':0},'disk':{'ownBytes':0}},"
        "{'id':'v3','type':'vm','kind':'vm','parent':'pt-3','name':'b','state':'stopped',"
        " 'memory':{'ownBytes':0},'disk':{'ownBytes':0}},"
        "{'id':'v4','type':'vm','kind':'vm','parent':'pt-gone','name':'orphan','state':'lost',"
        " 'memory':{'ownBytes':0},'disk':{'ownBytes':0}}]}";

static const char golden_utf8[] = "template pt-1  mem 191M, disk 1.3G\n"
                                  "↓ snapshot be?fore sc-2  mem 1.4M, disk 300B\n"
                                  "↓ fork pt-3  mem 0B, disk 0B\n"
                                  "├─ ● web v1 running  mem 0B, disk 256K\n"
                                  "├─ suspend pt-4  mem 5B, disk 5B\n"
                                  "│  ↓ ◐ v2 suspended  mem 0B, disk 0B\n"
                                  "└─ ○ b v3 stopped  mem 0B, disk 0B\n"
                                  "✗ orphan v4 lost  mem 0B, disk 0B\n";
static const char golden_ascii[] = "template pt-1\n"
                                   "v snapshot be?fore sc-2\n"
                                   "v fork pt-3\n"
                                   "|- * web v1 running\n"
                                   "|- suspend pt-4\n"
                                   "|  v ~ v2 suspended\n"
                                   "`- o b v3 stopped\n"
                                   "! orphan v4 lost\n";

static char *draw(const json_t *tree, const struct tree_style *style)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	assert_non_null(f);
	tree_draw(f, tree, style);
	fclose(f);
	return text;
}

static void test_tree_golden(void **state)
{
	autofree char *json = strdup(tree_text);
	autojson json_t *tree = NULL;
	autofree char *a = NULL, *b = NULL;

	for (char *p = json; *p; p++)
		if (*p == '\'')
			*p = '"';
	tree = json_loads(json, 0, NULL);
	assert_non_null(tree);
	a = draw(tree, &(struct tree_style){ .sizes = true });
	assert_string_equal(a, golden_utf8);
	b = draw(tree, &(struct tree_style){ .ascii = true });
	assert_string_equal(b, golden_ascii);
}

/* A line of thousands of points causes neither deep recursion nor a wide drawing. */
static void test_tree_long_line(void **state)
{
	autojson json_t *tree = json_pack("{s:[]}", "nodes");
	autofree char *text = NULL;

	for (int i = 0; i < 20000; i++) {
		char id[32], parent[32];

		snprintf(id, sizeof(id), "pt-%d", i);
		snprintf(parent, sizeof(parent), "pt-%d", i - 1);
		json_array_append_new(json_object_get(tree, "nodes"),
		                      json_pack("{s:s, s:s, s:s, s:s}", "id", id, "type", "point",
		                                "kind", "fork", "parent", i ? parent : ""));
	}
	text = draw(tree, &(struct tree_style){ .ascii = true });
	assert_non_null(strstr(text, "\nv fork pt-19999\n"));
}

static void test_sizes(void **state)
{
	char s[16];

	assert_string_equal(tree_size(0, s), "0B");
	assert_string_equal(tree_size(999, s), "999B");
	assert_string_equal(tree_size(1000, s), "1.0K");
	assert_string_equal(tree_size(10LL << 30, s), "10G");
}

static void test_image_choice(void **state)
{
	static const struct {
		struct image_terminal t;
		const char *setting;
		enum image_protocol want;
	} cases[] = {
		{ { .tty = true, .term = "xterm-kitty" }, NULL, IMAGE_KITTY },
		{ { .tty = true, .term = "xterm-256color", .kitty_window = "1" },
		  "auto",
		  IMAGE_KITTY },
		{ { .tty = true, .term = "xterm-256color", .term_program = "ghostty" },
		  NULL,
		  IMAGE_KITTY },
		{ { .tty = true, .term = "xterm-256color", .konsole = "220400" },
		  NULL,
		  IMAGE_KITTY },
		{ { .tty = true, .term = "xterm-256color", .term_program = "iTerm.app" },
		  NULL,
		  IMAGE_ITERM },
		{ { .tty = true, .term = "xterm-256color", .lc_terminal = "iTerm2" },
		  NULL,
		  IMAGE_ITERM },
		{ { .tty = true, .term = "xterm-256color", .term_program = "WezTerm" },
		  NULL,
		  IMAGE_ITERM },
		{ { .tty = true, .term = "foot", .sixel = true }, NULL, IMAGE_SIXEL },
		{ { .tty = true, .term = "tmux-256color", .kitty_window = "1" }, NULL, IMAGE_NONE },
		{ { .tty = true, .term = "screen", .lc_terminal = "iTerm2", .sixel = true },
		  NULL,
		  IMAGE_SIXEL },
		{ { .tty = true, .term = "xterm" }, NULL, IMAGE_NONE },
		{ { .tty = true, .term = "dumb", .sixel = true }, NULL, IMAGE_NONE },
		{ { .tty = true }, NULL, IMAGE_NONE },
		{ { .tty = false, .term = "xterm-kitty" }, NULL, IMAGE_NONE },
		{ { .tty = false }, "sixel", IMAGE_SIXEL },
		{ { .tty = true, .term = "xterm-kitty" }, "none", IMAGE_NONE },
	};
	enum image_protocol p;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(image_choose(&cases[i].t, cases[i].setting, &p));
		if (p != cases[i].want)
			fail_msg("case %zu: %d", i, p);
	}
	assert_false(image_choose(&cases[0].t, "ascii-art", &p));
}

static void test_terminals_answer(void **state)
{
	static const struct {
		const char *reply;
		bool sixel;
	} replies[] = {
		{ "\033[?62;4;22c", true },
		{ "\033[?4c", true },
		{ "\033[?62;22c", false },
		{ "\033[?64;44c", false },
		{ "", false },
		{ "\033[?", false },
		{ "x\033[?1;2;4", true },
		{ "\033[?99999999999c", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(replies); i++)
		if (image_da1_sixel(replies[i].reply, strlen(replies[i].reply)) != replies[i].sixel)
			fail_msg("reply %zu", i);
}

static char *put(enum image_protocol p, const void *png, size_t n, int *ret)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	*ret = image_put(f, p, png, n);
	fclose(f);
	return text;
}

/* 2 x 1 pixels, red and blue. */
static const char png64[] = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGP4zwAE/"
                            "wEHAAH/4iOeWQAAAABJRU5ErkJggg==";

static void test_protocols(void **state)
{
	size_t n = 0;
	autofree unsigned char *png = base64_decode(png64, &n);
	autofree char *big = calloc(1, 10000);
	autofree char *kitty = NULL, *iterm = NULL, *sixel = NULL, *none = NULL, *broken = NULL,
	              *chunks = NULL;
	int r;

	assert_non_null(png);
	kitty = put(IMAGE_KITTY, png, n, &r);
	assert_int_equal(r, 0);
	assert_memory_equal(kitty, "\033_Ga=T,f=100,m=0;iVBOR",
	                    strlen("\033_Ga=T,f=100,m=0;iVBOR"));
	iterm = put(IMAGE_ITERM, png, n, &r);
	assert_memory_equal(iterm, "\033]1337;File=inline=1;size=70:iVBOR",
	                    strlen("\033]1337;File=inline=1;size=70:iVBOR"));
	sixel = put(IMAGE_SIXEL, png, n, &r);
	assert_int_equal(r, 0);
	assert_memory_equal(sixel, "\033P0;1q\"1;1;2;1#0;2;", strlen("\033P0;1q\"1;1;2;1#0;2;"));
	assert_non_null(strstr(sixel, "@"));
	none = put(IMAGE_NONE, png, n, &r);
	assert_int_equal(r, -ENOTSUP);
	broken = put(IMAGE_SIXEL, png, n / 2, &r);
	assert_int_equal(r, -EINVAL);
	chunks = put(IMAGE_KITTY, big, 10000, &r);
	assert_non_null(strstr(chunks, "m=1;"));
	assert_non_null(strstr(chunks, "\033_Gm=0;"));
}

static void test_sixel_golden(void **state)
{
	static const uint8_t rows[] = { 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
	                     palette[] = { 255, 0, 0, 0, 0, 255 };
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	assert_non_null(f);
	image_sixel(f, rows, 2, 7, palette, 2);
	fclose(f);
	assert_string_equal(text, "\033P0;1q\"1;1;2;7#0;2;100;0;0#1;2;0;0;100"
	                          "#0xw$#1EF$-#0@@$-\033\\\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree_golden),
		cmocka_unit_test(test_tree_long_line),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_image_choice),
		cmocka_unit_test(test_terminals_answer),
		cmocka_unit_test(test_protocols),
		cmocka_unit_test(test_sixel_golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
