/* SPDX-License-Identifier: Apache-2.0 */
#include "setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/id.h"
#include "conf.h"
#include "engine/engine.h"
#include "objects/objects.h"
#include "store/store_object.h"

/*
 * The directory of the base image by its real name, which is part of the template's key:
 * PANDO_IMAGE, or the image scripts/pando-image.sh built last.
 */
static int find_image(struct conf *c, struct err *err)
{
	char path[sizeof(c->image_dir)];
	autofree char *real = NULL;

	snprintf(path, sizeof(path), "%s", c->image_dir);
	if (!*path)
		snprintf(path, sizeof(path), "%s/images/current", c->cache_dir);
	real = realpath(path, NULL);
	if (!real)
		return err_set(err, -EINVAL,
		               "there is no base image at '%s' (%s): build it with pando-image or "
		               "'make run', or set its directory with PANDO_IMAGE",
		               path, err_name(errno));
	if (strlen(real) >= sizeof(c->image_dir))
		return err_set(err, -EINVAL, "the path of the base image is too long: '%s'", real);
	snprintf(c->image_dir, sizeof(c->image_dir), "%s", real);
	return 0;
}

/* All files needed to boot must be there; their contents are checked when they are used. */
static int check_image(const char *dir, struct err *err)
{
	static const char *const files[] = { "vmlinux", "initrd", "rootfs.raw" };
	char path[600];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		if (access(path, R_OK) < 0)
			return err_set(
			        err, -EINVAL,
			        "the base image '%s' cannot be read (%s): build it with "
			        "pando-image or 'make run', or set its directory with PANDO_IMAGE",
			        path, err_name(errno));
	}
	return 0;
}

int setup_image(struct conf *c, struct err *err)
{
	int r = find_image(c, err);

	return r < 0 ? r : check_image(c->image_dir, err);
}

int setup_objects(const struct conf *c, struct store *store, struct objects **ret, struct err *err)
{
	char id[ID_SIZE];
	struct objects_conf oc = { .url = c->objects,
		                   .key_id = c->objects_key,
		                   .secret = c->objects_secret,
		                   .credentials = c->objects_credentials,
		                   .cluster = id,
		                   .transfers = c->objects_transfers };
	int r;

	if (!*c->objects)
		return 0;
	if ((r = store_objects_id(store, id, err)) < 0 || (r = objects_open(&oc, ret, err)) < 0)
		return r;
	r = objects_claim(*ret, err);
	return objects_hopeless(r) ? err_wrap(err, -EINVAL, "PANDO_OBJECTS") : 0;
}

/* ---- what settings mean to others ---- */

#define DISK_GB_MAX 2048u /* of PANDO_VM_DISK_GB too */

static int64_t quota_of(uint64_t n)
{
	return n ? (int64_t)n : QUOTA_NONE;
}

struct vm_quota setup_quota(const struct conf *c)
{
	return (struct vm_quota){ .vms = quota_of(c->quota_vms),
		                  .running = quota_of(c->quota_running),
		                  .vcpus = quota_of(c->quota_vcpus),
		                  .mem_mb = quota_of(c->quota_mem_mb),
		                  .disk_mb = quota_of((uint64_t)c->quota_disk_gb << 10),
		                  .snapshots = quota_of(c->quota_snapshots) };
}

/* Limits for specs: the same ranges as those of the settings for the default VM. */
struct builder_conf setup_builder(const struct conf *c, struct repos *repos)
{
	return (struct builder_conf){ .repos = repos,
		                      .timeout_s = c->build_timeout_s,
		                      .cache_max = c->spec_cache_max,
		                      .limits = { .vcpus = c->vcpus,
		                                  .mem_mb = c->mem_mb,
		                                  .disk_mb = c->disk_gb << 10,
		                                  .vcpus_max = ENGINE_VCPUS_MAX,
		                                  .mem_mb_max = ENGINE_MEM_MAX_MB,
		                                  .disk_mb_max = DISK_GB_MAX << 10,
		                                  .mem_mb_min = ENGINE_MEM_MIN_MB,
		                                  .image_dir = c->image_dir } };
}

struct deploy_limits setup_deployments(const struct conf *c)
{
	return (struct deploy_limits){ .deployments = c->deployments,
		                       .instances = c->deploy_instances,
		                       .account_instances = c->account_instances,
		                       .requests = c->deploy_requests,
		                       .idle_s = c->deploy_idle_s,
		                       .wait_ms = c->edge_wait_s * 1000 };
}
