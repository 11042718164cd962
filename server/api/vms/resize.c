/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c - resize and optimize */
#include "api/vms/shared.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/auto.h"

#define MESSAGE_MAX 512

struct resize_body {
	json_t *vcpus, *mem, *disk;
};
static const struct json_field resize_fields[] = {
	JSON_FIELD(JSON_WANT_ANY, resize_body, vcpus, "vcpuCount", 0, 0, 0, "int | null"),
	JSON_FIELD(JSON_WANT_ANY, resize_body, mem, "memSizeGb", 0, 0, 0, "int | null"),
	JSON_FIELD(JSON_WANT_ANY, resize_body, disk, "rootfsSizeGb", 0, 0, 0, "int | null"),
};
JSON_TABLE(VmResize, resize_fields);

/* 0 means "unchanged", so an explicit 0 becomes an invalid size. */
static int number(const json_t *v, const char *name, double *ret, struct err *err)
{
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_number(v))
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'%s' must be a number", name);
	*ret = json_number_value(v);
	if (*ret == 0)
		*ret = -1;
	return 0;
}

static json_t *shape_number(double v)
{
	return v == floor(v) && fabs(v) < 1e15 ? json_integer((json_int_t)v) : json_real(v);
}

/* The members that Freestyle's protocol has for each of these codes. */
static void add_fault(struct reply *res, enum err_code tag, const struct vm_size_fault *f)
{
	const char *name = err_code_name(tag);

	if (!name)
		return;
	if (tag == ERR_RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED) {
		reply_extra(res, "currentMb", json_integer(f->current_mb));
		reply_extra(res, "requestedMb", json_integer(f->requested_mb));
	} else if (tag == ERR_ROOTFS_SIZE_TOO_LARGE) {
		reply_extra(res, "gotGb", shape_number(f->got));
	} else if (strstr(name, "_NOT_POWER_OF_TWO") || strstr(name, "_OUT_OF_RANGE")) {
		reply_extra(res, "got", shape_number(f->got));
		if (strstr(name, "_OUT_OF_RANGE")) {
			reply_extra(res, "min", shape_number(f->min));
			reply_extra(res, "max", shape_number(f->max));
		}
	}
}

int api_vm_resize(struct request *req, struct reply *res, struct err *err)
{
	struct vm_size_fault fault = { 0 };
	struct resize_body b = { 0 };
	struct vm_size want = { 0 };
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, resize_fields, ARRAY_SIZE(resize_fields), &b,
	                        err)) < 0 ||
	    (r = number(b.vcpus, "vcpuCount", &want.vcpus, err)) < 0 ||
	    (r = number(b.mem, "memSizeGb", &want.mem_gb, err)) < 0 ||
	    (r = number(b.disk, "rootfsSizeGb", &want.disk_gb, err)) < 0)
		return r;
	r = vmm_resize(deps_of(req)->vmm, who_of(req)->account, id, &want, &fault, err);
	if (r < 0) {
		add_fault(res, err->tag, &fault);
		return r;
	}
	return reply_json(res, json_object(), err);
}

int api_vm_optimize(struct request *req, struct reply *res, struct err *err)
{
	char message[MESSAGE_MAX];
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_optimize(deps_of(req)->vmm, who_of(req)->account, id, message, sizeof(message),
	                      err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:o}", "id", id, "message",
	                            shape_output(message, strlen(message))),
	                  err);
}
