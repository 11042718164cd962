/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ssh_name.c - user names of SSH clients, and the commands of Git
 *
 * An accepted name, put together again, is the input; a rejected one leaves an empty result.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ssh/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken as Git's names the repository and begins with Git's word. */
static void command(const char *text)
{
	static const char repo[] = "0a000000-0000-4000-8000-000000000000";
	enum sshd_git kind;

	if (sshd_git_parse(text, repo, &kind) == 0)
		assert(strncmp(text, "git-", 4) == 0 && strstr(text, repo));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), again[SSHD_NAME_MAX + 8];
	struct sshd_name n;
	char sep[2] = "";

	assert(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	command(text);
	if (sshd_name_parse(text, &n) < 0) {
		static const struct sshd_name nothing;

		assert(memcmp(&n, &nothing, sizeof(n)) == 0);
		free(text);
		return 0;
	}
	assert(*n.repo ? uuid_valid(n.repo) && !*n.vm && !*n.user
	               : id_valid("", n.vm) && (!*n.user || linux_user_valid(n.user)));
	sep[0] = text[strcspn(text, ":,")];
	snprintf(again, sizeof(again), "%s%s%s%s%s%s", n.repo, n.vm, *n.user ? "+" : "", n.user,
	         sep, n.secret);
	assert(strcmp(again, text) == 0);
	free(text);
	return 0;
}
