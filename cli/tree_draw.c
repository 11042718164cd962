/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_draw.c - points and VMs as a tree of lines
 *
 * Children are found with a map from parent to rows, so that each node is visited once. A point
 * with one child is a step in a line, not a branch: its child is below it in the same
 * column, after an arrow, or a VM with a hundred snapshots would run off the screen.
 */
#include "cli/tree.h"

#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json_field.h"
#include "cli/cli.h"

struct pen {
	FILE *f;
	const struct tree_style *style;
	const json_t *children; /* id -> array of nodes */
	struct buf prefix;
};

static const struct {
	const char *state, *glyph, *ascii, *colour;
} states[] = {
	{ "running", "●", "*", "\033[32m" }, { "suspended", "◐", "~", "\033[33m" },
	{ "stopped", "○", "o", "\033[2m" },  { "building", "◌", "+", "\033[36m" },
	{ "lost", "✗", "!", "\033[31m" },    { "", "●", "*", "" },
};

const char *tree_size(long long bytes, char dst[16])
{
	static const char *const unit[] = { "B", "K", "M", "G", "T" };
	double v = (double)bytes;
	size_t i = 0;

	for (; v >= 1000 && i + 1 < ARRAY_SIZE(unit); i++)
		v /= 1024;
	snprintf(dst, 16, i && v < 10 ? "%.1f%s" : "%.0f%s", v, unit[i]);
	return dst;
}

static long long size_of(const json_t *node, const char *what, const char *which)
{
	return json_integer_value(json_object_get(json_object_get(node, what), which));
}

static void put_sizes(const struct pen *p, const json_t *node)
{
	const char *which =
	        json_is_true(json_object_get(node, "shared")) ? "sharedBytes" : "ownBytes";
	char mem[16], disk[16];

	if (p->style->sizes)
		fprintf(p->f, "  %smem %s, disk %s%s", p->style->colour ? "\033[2m" : "",
		        tree_size(size_of(node, "memory", which), mem),
		        tree_size(size_of(node, "disk", which), disk),
		        p->style->colour ? "\033[0m" : "");
}

static void put_vm(const struct pen *p, const json_t *node)
{
	const char *state = cli_str(node, "state"), *name = cli_str(node, "name");
	size_t i = 0;

	while (*states[i].state && strcmp(states[i].state, state) != 0)
		i++;
	fprintf(p->f, "%s%s%s ", p->style->colour ? states[i].colour : "",
	        p->style->ascii ? states[i].ascii : states[i].glyph,
	        p->style->colour ? "\033[0m" : "");
	if (*name) {
		cli_put_text(p->f, name);
		fputc(' ', p->f);
	}
	fprintf(p->f, "%s %s", cli_str(node, "id"), state);
}

static void put_node(const struct pen *p, const json_t *node)
{
	const char *kind = cli_str(node, "kind"), *name = cli_str(node, "name");
	const char *snapshot = cli_str(node, "snapshotId");

	if (strcmp(cli_str(node, "type"), "vm") == 0) {
		put_vm(p, node);
	} else {
		fputs(kind, p->f);
		if (*name) {
			fputc(' ', p->f);
			cli_put_text(p->f, name);
		}
		fprintf(p->f, " %s", *snapshot ? snapshot : cli_str(node, "id"));
	}
	put_sizes(p, node);
	fputc('\n', p->f);
}

static void put_child(struct pen *p, const json_t *node, const char *mark)
{
	fwrite(p->prefix.p ? p->prefix.p : (const uint8_t *)"", 1, p->prefix.len, p->f);
	fputs(mark, p->f);
	put_node(p, node);
}

/* Everything below a node. A line of single children is a loop, a branch a recursion. */
static void put_below(struct pen *p, const char *id)
{
	bool ascii = p->style->ascii;
	const json_t *rows;
	size_t n;

	while ((n = json_array_size(rows = json_object_get(p->children, id))) == 1) {
		put_child(p, json_array_get(rows, 0), ascii ? "v " : "↓ ");
		id = cli_str(json_array_get(rows, 0), "id");
	}
	for (size_t i = 0; i < n; i++) {
		const json_t *node = json_array_get(rows, i);
		bool last = i + 1 == n;
		const char *mark = ascii ? (last ? "`- " : "|- ") : last ? "└─ " : "├─ ";
		const char *more = last ? "   " : ascii ? "|  " : "│  ";
		size_t keep = p->prefix.len;

		put_child(p, node, mark);
		buf_put(&p->prefix, more, strlen(more));
		put_below(p, cli_str(node, "id"));
		p->prefix.len = keep;
	}
}

void tree_draw(FILE *f, const json_t *tree, const struct tree_style *style)
{
	autojson json_t *children = json_object(), *byid = json_object();
	struct pen p = { .f = f, .style = style, .children = children };
	const json_t *nodes = json_object_get(tree, "nodes");
	size_t i;
	json_t *node;

	json_array_foreach(nodes, i, node) json_object_set(byid, cli_str(node, "id"), node);
	json_array_foreach(nodes, i, node)
	{
		const char *parent = cli_str(node, "parent");
		json_t *rows = json_object_get(children, parent);

		/* a node whose parent is not shown is a root */
		if (!*parent || !json_object_get(byid, parent))
			continue;
		if (!rows) {
			rows = json_array();
			json_object_set_new(children, parent, rows);
		}
		json_array_append(rows, node);
	}
	json_array_foreach(nodes, i, node)
	{
		const char *parent = cli_str(node, "parent");

		if (*parent && json_object_get(byid, parent))
			continue;
		put_node(&p, node);
		put_below(&p, cli_str(node, "id"));
	}
	buf_done(&p.prefix);
}
