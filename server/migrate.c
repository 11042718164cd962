/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migrate.c - "pandod migrate": rows of a data directory to PostgreSQL and back
 *
 * For `pando migrate`, which runs it as the user that owns the data directory: pandod is where the
 * SQL and the settings are. Settings come as always; --to says where, --check stops before anything
 * is written. Exit status: 0, or 1 after a message.
 */
#include "migrate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "conf.h"
#include "store/store_move.h"

struct words {
	const char *to;
	bool check;
	char **rest; /* owned; for conf_load() */
	int n_rest;
};

static void words_done(struct words *w)
{
	free(w->rest);
}

static int take_words(int argc, char **argv, struct words *w, struct err *err)
{
	w->rest = calloc((size_t)argc + 1, sizeof(*w->rest));
	if (!w->rest)
		return err_set(err, -ENOMEM, "out of memory");
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--check") == 0)
			w->check = true;
		else if (strcmp(argv[i], "--to") == 0 && i + 1 < argc)
			w->to = argv[++i];
		else
			w->rest[w->n_rest++] = argv[i];
	}
	return w->to ? 0
	             : err_set(err, -EINVAL,
	                       "say where to with --to: database, file, or postgresql://...");
}

static int read_words(const struct words *w, const struct conf *c, struct store_move *m,
                      struct err *err)
{
	m->data_dir = c->data_dir;
	m->database = c->database;
	m->check = w->check;
	m->has_objects = *c->objects != '\0';
	m->back = strcmp(w->to, "file") == 0;
	if (!m->back && strcmp(w->to, "database") != 0)
		m->database = w->to;
	if (!*m->database)
		return err_set(err, -EINVAL,
		               "PANDO_DATABASE is not set: it names the PostgreSQL database%s",
		               m->back ? " that the rows are in" : "");
	if (access(c->data_dir, W_OK) < 0)
		return err_sys(err, -errno, "data directory '%s'", c->data_dir);
	return 0;
}

static void say(void *ctx, const char *what, uint64_t done, uint64_t all)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (strcmp(what, "check") == 0)
		fprintf(stderr, "checking\n");
	else if (strcmp(what, "commit") == 0)
		fprintf(stderr, "\r\033[Kwriting it down\n");
	else if (all)
		fprintf(stderr, "\r\033[K%s: %llu of %llu", what, (unsigned long long)done,
		        (unsigned long long)all);
}

static void print_tables(const struct store_moved *m)
{
	printf("%-24s %10s  %s\n", "TABLE", "ROWS", "SUM");
	for (size_t i = 0; i < m->n_tables; i++)
		if (m->tables[i].rows)
			printf("%-24s %10llu  %s\n", m->tables[i].name,
			       (unsigned long long)m->tables[i].rows, m->tables[i].sum);
	printf("%llu rows of %zu tables, the same on both sides\n", (unsigned long long)m->rows,
	       m->n_tables);
}

static void print_vms(const struct store_moved *m)
{
	printf("VMs: %u suspended, %u stopped, %u lost\n", m->suspended, m->stopped, m->lost);
	if (m->only_stored)
		printf("%llu files are in the object store only: they are fetched when they are "
		       "used\n",
		       (unsigned long long)m->only_stored);
	if (m->missing)
		printf("%llu files of layers are neither here nor in the object store\n",
		       (unsigned long long)m->missing);
}

static void print_next(const struct store_move *m, const struct store_moved *done)
{
	if (m->back)
		printf("\nThe rows are in '%s/pando.db'. Remove PANDO_DATABASE, PANDO_NODE_ADDRESS "
		       "and PANDO_NODE_NAME from the settings, keep PANDO_OBJECTS if it is set, "
		       "and "
		       "start the server. No server starts with the database any more: drop it "
		       "when "
		       "you have a backup.\n",
		       m->data_dir);
	else
		printf("\nThe rows are in the database, which is cluster %s. Set PANDO_DATABASE to "
		       "it and start the server with the same data directory. What was the "
		       "database "
		       "is '%s/pando.db.moved': delete it when you have a backup.\n",
		       done->cluster, m->data_dir);
}

static int migrate(int argc, char **argv, struct err *err)
{
	AUTO(words_done) struct words w = { 0 };
	struct store_move m = { .say = say };
	struct store_moved done;
	struct conf c;
	int r;

	if ((r = take_words(argc, argv, &w, err)) < 0 ||
	    (r = conf_load(&c, w.n_rest, w.rest, err)) != 0 ||
	    (r = read_words(&w, &c, &m, err)) < 0 || (r = store_move(&m, &done, err)) < 0)
		return r;
	if (m.check) {
		print_vms(&done);
		printf("Nothing is in the way. Nothing was changed.\n");
		return 0;
	}
	if (done.finished)
		printf("An earlier run had moved the rows, what it had left is done.\n");
	else
		print_tables(&done);
	print_vms(&done);
	print_next(&m, &done);
	return 0;
}

int migrate_main(int argc, char **argv)
{
	struct err err = { 0 };
	int r;

	umask(0077);
	log_init("pandod", LOG_LV_WARN);
	if (geteuid() == 0) {
		log_error("this must not run as root: 'pando migrate' starts it as the user that "
		          "owns the data directory");
		return 1;
	}
	r = migrate(argc, argv, &err);
	if (r < 0)
		fprintf(stderr, "pandod: nothing more was done: %s\n", err.msg);
	return r < 0;
}
