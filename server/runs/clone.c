/* SPDX-License-Identifier: Apache-2.0 */
/* clone.c - copies a repository into a guest */
#include "runs/clone.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/id.h"
#include "guest/guest.h"

const char clone_script[] =
        "set -e\n"
        "trap 'rm -rf \"$BUNDLE\" \"$BUNDLE.shallow\" \"$BUNDLE.git\"' EXIT\n"
        "export GIT_TERMINAL_PROMPT=0 GIT_LFS_SKIP_SMUDGE=1\n"
        "from=$BUNDLE\n"
        "if [ -s \"$BUNDLE.shallow\" ]; then\n"
        "  git init --quiet --bare \"$BUNDLE.git\"\n"
        "  cp \"$BUNDLE.shallow\" \"$BUNDLE.git/shallow\"\n"
        "  git -C \"$BUNDLE.git\" fetch --quiet \"$BUNDLE\" '+refs/*:refs/*'\n"
        "  from=file://$BUNDLE.git\n"
        "fi\n"
        "if [ ! -e \"$BUNDLE\" ]; then\n"
        "  git init --quiet -b \"$BRANCH\" -- \"$DEST\"\n"
        "  git -C \"$DEST\" remote add origin \"$URL\"\n"
        "  exit 0\n"
        "fi\n"
        "if git ls-remote --exit-code \"$from\" \"refs/heads/$BRANCH\" >/dev/null; then\n"
        "  git clone --quiet --branch \"$BRANCH\" -- \"$from\" \"$DEST\"\n"
        "else\n"
        "  git clone --quiet --no-checkout -- \"$from\" \"$DEST\"\n"
        "fi\n"
        "git -C \"$DEST\" remote set-url origin \"$URL\"\n"
        "[ -z \"$REV\" ] || git -C \"$DEST\" checkout --quiet \"$REV\" --\n"
        "if [ -n \"$COMMIT\" ] && [ \"$(git -C \"$DEST\" rev-parse HEAD)\" != \"$COMMIT\" ]; then\n"
        "  git -C \"$DEST\" reset --quiet --hard \"$COMMIT\"\n"
        "fi\n"
        "git -C \"$DEST\" log -1 --format='%H %s'\n";

static ssize_t read_fd(void *ctx, uint8_t *p, size_t n)
{
	ssize_t k = read(*(int *)ctx, p, n);

	return k < 0 ? -errno : k;
}

int clone_put(struct repos *g, struct guest *guest, const struct store_repo *r,
              uint64_t deadline_ms, struct clone *ret, struct err *err)
{
	autofree char *shallow = NULL;
	char id[ID_SIZE], path[96];
	autofd int fd = -1;
	int rc;

	id_make("", id);
	snprintf(ret->bundle, sizeof(ret->bundle), "/var/tmp/pando-%s.bundle", id);
	repo_url(g, r->id, ret->url, sizeof(ret->url));
	if ((rc = repo_default_branch(g, r, ret->branch, err)) < 0 ||
	    (rc = repo_bundle(g, r, &fd, &shallow, err)) < 0 || fd < 0)
		return rc;
	rc = guest_write_file(guest, NULL, ret->bundle, 0600, read_fd, &fd, deadline_ms, err);
	if (rc == 0 && shallow) {
		struct guest_bytes b = { shallow, strlen(shallow) };

		snprintf(path, sizeof(path), "%s.shallow", ret->bundle);
		rc = guest_write_file(guest, NULL, path, 0600, guest_bytes_source, &b, deadline_ms,
		                      err);
	}
	return rc < 0 ? err_wrap(err, rc, "copy the repository into the VM") : 0;
}
