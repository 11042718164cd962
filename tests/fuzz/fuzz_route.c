/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_route.c - any path through the route table */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The handlers are named in the table; none is called. */
static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct route table[] = {
		{ METHOD_GET, "/v1/vms/{vm_id}/files/{path}", 1, 1, NULL, "" },
		{ METHOD_GET, "/v1/vms/{vm_id}", 1, 1, NULL, "" },
		{ METHOD_POST, "/v1/vms/{vm_id}/{verb}", 1, 1, NULL, "" },
		{ METHOD_GET, "/v1/vms/snapshots", 1, 1, NULL, "" },
		{ METHOD_GET, "/{a}/{b}/{c}", 1, 1, NULL, "" },
	};
	static struct route_match m;
	char *path = malloc(size + 1);
	int r;

	must(path != NULL);
	if (size)
		memcpy(path, data, size);
	path[size] = '\0';
	r = route_find(table, sizeof(table) / sizeof(table[0]), METHOD_GET, path, &m);
	must(r == 0 || r == -ENOENT || r == -EOPNOTSUPP || r == -EINVAL || r == -ENAMETOOLONG);
	for (size_t i = 0; r == 0 && i < m.n_args; i++) {
		must(m.arg[i] >= m.text && m.arg[i] < m.text + sizeof(m.text));
		must(strlen(m.arg[i]) <= size);
	}
	must((r == 0) == (m.route != NULL && r == 0));
	r = method_parse(path);
	must(r < 0 || strcmp(method_name((enum method)r), path) == 0 || strcmp(path, "HEAD") == 0);
	free(path);
	return 0;
}
