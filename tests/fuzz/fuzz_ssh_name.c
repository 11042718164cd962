/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ssh_name.c - user names of SSH clients
 *
 * What is accepted, put together again, is what came in; what is refused leaves nothing behind.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ssh/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), again[SSHD_NAME_MAX + 8];
	struct sshd_name n;
	char sep[2] = "";

	assert(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (sshd_name_parse(text, &n) < 0) {
		static const struct sshd_name nothing;

		assert(memcmp(&n, &nothing, sizeof(n)) == 0);
		free(text);
		return 0;
	}
	assert(id_valid("", n.vm) && (!*n.user || linux_user_valid(n.user)));
	sep[0] = text[strcspn(text, ":,")];
	snprintf(again, sizeof(again), "%s%s%s%s%s", n.vm, *n.user ? "+" : "", n.user, sep,
	         n.secret);
	assert(strcmp(again, text) == 0);
	free(text);
	return 0;
}
