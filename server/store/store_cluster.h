/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_cluster.h - which database belongs to which data directory; for main */
#pragma once

#include "base/id.h"
#include "store/store.h"

#define CLUSTER_ID_PREFIX "cl-"
#define CLUSTER_ID_SIZE ID_SIZE

/*
 * Before store_open(): where the database of that data directory is. database: PANDO_DATABASE, or
 * "". -EINVAL with a sentence: the data directory's rows are somewhere else.
 */
int store_place(const char *data_dir, const char *database, char *ret, size_t size,
                struct err *err);
/*
 * After it: the database and the data directory belong together from now on, or did before.
 * -EINVAL with a sentence: one of them is another cluster's, or it is shared by nodes and this is
 * none. *ret: the cluster's id; "" for a database in the data directory. *ret_new: the data
 * directory has just joined a database that others use.
 */
int store_cluster_join(struct store *s, const char *data_dir, bool node, char ret[CLUSTER_ID_SIZE],
                       bool *ret_new, struct err *err);
/* The two, and opening it between them: for pandod. node: its id, or NULL. */
int store_start(const char *data_dir, const char *database, const char *node, struct store **ret,
                bool *ret_new, struct err *err);
