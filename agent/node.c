/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.c - finds a Node.js installed with nvm in /opt/nvm, for the PATH of commands
 *
 * Guides and helpers install Node there and then call `node` and `npm` from a shell that
 * reads no profile. nvm's file alias/default names the version ("24", "v22.1.0",
 * "node"); the newest installed one that matches is used, or the newest of all if
 * none does.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/io.h"

#define NVM_DIR "/opt/nvm"
#define VERSIONS NVM_DIR "/versions/node"

/* "v24.1.0" begins with "24", "v24" or "v24.1", but "v24" is not "v2". */
static bool fits(const char *version, const char *want)
{
	size_t n;

	if (*want == 'v')
		want++;
	n = strlen(want);
	return n && strncmp(version + 1, want, n) == 0 && !isdigit((unsigned char)version[1 + n]);
}

static void read_default(char ret[64])
{
	autofree char *text = NULL;

	ret[0] = '\0';
	if (io_read_file(AT_FDCWD, NVM_DIR "/alias/default", 63, &text, NULL) == 0)
		snprintf(ret, 64, "%.*s", (int)strcspn(text, " \t\r\n"), text);
}

void node_find(char ret[NODE_DIR_MAX])
{
	autodir DIR *d = opendir(VERSIONS);
	char want[64], best[256] = "";
	bool best_fits = false;
	struct dirent *de;

	ret[0] = '\0';
	if (!d)
		return;
	read_default(want);
	while ((de = readdir(d))) {
		bool fit = fits(de->d_name, want);

		/* ':' would end the directory in PATH */
		if (de->d_name[0] != 'v' || strchr(de->d_name, ':') || fit < best_fits)
			continue;
		if (fit == best_fits && strverscmp(de->d_name, best) <= 0)
			continue;
		best_fits = fit;
		snprintf(best, sizeof(best), "%s", de->d_name);
	}
	if (best[0])
		snprintf(ret, NODE_DIR_MAX, VERSIONS "/%s/bin", best);
}
