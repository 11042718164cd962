/* SPDX-License-Identifier: Apache-2.0 */
/* self.c - who this machine is: its id in the data directory, its name */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "node/node.h"

int node_self_id(const char *data_dir, char ret[ID_SIZE], struct err *err)
{
	autofree char *text = NULL;
	char path[PATH_MAX], line[ID_SIZE + 1];
	int n, r;

	snprintf(path, sizeof(path), "%s/node", data_dir);
	r = io_read_file(AT_FDCWD, path, 256, &text, err);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0) {
		text[strcspn(text, "\n")] = '\0';
		if (!id_valid(NODE_ID_PREFIX, text))
			return err_set(err, -EINVAL,
			               "'%s' does not have the id of a node: restore the file, its "
			               "content is the id that 'pando node list' shows",
			               path);
		snprintf(ret, ID_SIZE, "%s", text);
		return 0;
	}
	id_make(NODE_ID_PREFIX, ret);
	n = snprintf(line, sizeof(line), "%s\n", ret);
	return io_write_file(AT_FDCWD, path, line, (size_t)n, 0600, err);
}

bool node_name_valid(const char *name)
{
	size_t n = strlen(name);

	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '.' && *p != '-')
			return false;
	return n > 0 && n < NODE_NAME_SIZE;
}

void node_self_name(char ret[NODE_NAME_SIZE])
{
	if (gethostname(ret, NODE_NAME_SIZE) < 0)
		ret[0] = '\0';
	ret[NODE_NAME_SIZE - 1] = '\0';
	for (char *p = ret; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '.')
			*p = '-';
	if (!*ret)
		snprintf(ret, NODE_NAME_SIZE, "node");
}
