/* SPDX-License-Identifier: Apache-2.0 */
/* spec_size.c - sizes in a spec */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "build/spec_internal.h"

struct sizing {
	json_t *vcpus, *mem_gb, *disk_gb;
};
static const struct json_field sizing_fields[] = {
	JSON_FIELD(JSON_WANT_ANY, sizing, vcpus, "vcpuCount", 0, 0, 0, "int | null"),
	JSON_FIELD(JSON_WANT_ANY, sizing, mem_gb, "memSizeGb", 0, 0, 0, "int | null"),
	JSON_FIELD(JSON_WANT_ANY, sizing, disk_gb, "rootfsSizeGb", 0, 0, 0, "int | null"),
};
JSON_TABLE(Sizing, sizing_fields);

const char *spec_has_size(const json_t *layer)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizing_fields); i++) {
		const json_t *v = json_object_get(layer, sizing_fields[i].name);

		if (v && !json_is_null(v))
			return sizing_fields[i].name;
	}
	return NULL;
}

/* 1: there is a number, in *ret; 0: none */
static int number(const json_t *v, const char *where, const char *name, struct spec_ctx *c,
                  double *ret, struct err *err)
{
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_number(v))
		return spec_bad(c, ERR_NONE, err, "'%s%s' must be a number or null", where, name);
	*ret = json_number_value(v);
	spec_extra(c, "got",
	           json_is_integer(v) ? json_integer(json_integer_value(v)) : json_real(*ret));
	return 1;
}

static json_t *gb(double mb)
{
	double v = mb / 1024;

	return v == floor(v) ? json_integer((json_int_t)v) : json_real(v);
}

static bool power_of_two(double v)
{
	int exp;

	return v > 0 && frexp(v, &exp) == 0.5;
}

static int read_vcpus(const json_t *v, const char *where, struct spec_ctx *c, uint32_t *ret,
                      struct err *err)
{
	double n = 0;
	int r = number(v, where, "vcpuCount", c, &n, err);

	if (r <= 0)
		return r;
	if (!(n >= 1 && n <= c->limits->vcpus_max)) {
		spec_extra(c, "max", json_integer(c->limits->vcpus_max));
		return spec_bad(c, ERR_CREATE_VM_VCPU_OUT_OF_RANGE, err,
		                "'%svcpuCount' is %g: allowed are 1 to %u", where, n,
		                c->limits->vcpus_max);
	}
	if (!power_of_two(n) || n != floor(n))
		return spec_bad(c, ERR_CREATE_VM_VCPU_NOT_POWER_OF_TWO, err,
		                "'%svcpuCount' is %g: it must be a power of two", where, n);
	*ret = (uint32_t)n;
	return 0;
}

static int read_mem(const json_t *v, const char *where, struct spec_ctx *c, uint32_t *ret,
                    struct err *err)
{
	double n = 0;
	int r = number(v, where, "memSizeGb", c, &n, err);

	if (r <= 0)
		return r;
	if (!(n * 1024 >= c->limits->mem_mb_min && n * 1024 <= c->limits->mem_mb_max)) {
		spec_extra(c, "min", gb(c->limits->mem_mb_min));
		spec_extra(c, "max", gb(c->limits->mem_mb_max));
		return spec_bad(c, ERR_CREATE_VM_MEM_OUT_OF_RANGE, err,
		                "'%smemSizeGb' is %g: allowed are %g to %g", where, n,
		                c->limits->mem_mb_min / 1024.0, c->limits->mem_mb_max / 1024.0);
	}
	if (!power_of_two(n))
		return spec_bad(c, ERR_CREATE_VM_MEM_NOT_POWER_OF_TWO, err,
		                "'%smemSizeGb' is %g: it must be a power of two", where, n);
	*ret = (uint32_t)(n * 1024);
	return 0;
}

static int read_disk(const json_t *v, const char *where, struct spec_ctx *c, uint32_t *ret,
                     struct err *err)
{
	const struct spec_limits *l = c->limits;
	double n = 0;
	int r = number(v, where, "rootfsSizeGb", c, &n, err);

	if (r <= 0)
		return r;
	if (!(n * 1024 >= l->disk_mb && n * 1024 <= l->disk_mb_max) || n != floor(n)) {
		spec_extra(c, "min", gb(l->disk_mb));
		spec_extra(c, "max", gb(l->disk_mb_max));
		return spec_bad(c, ERR_CREATE_VM_ROOTFS_OUT_OF_RANGE, err,
		                "'%srootfsSizeGb' is %g: allowed are whole numbers from %g to %g",
		                where, n, l->disk_mb / 1024.0, l->disk_mb_max / 1024.0);
	}
	*ret = (uint32_t)n * 1024;
	return 0;
}

int spec_size(const json_t *layer, const char *where, struct spec_ctx *c, struct spec_layer *l,
              struct err *err)
{
	struct sizing s = { 0 };
	int r;

	if ((r = spec_fields(layer, where, sizing_fields, ARRAY_SIZE(sizing_fields), &s, c, err)) <
	            0 ||
	    (r = read_vcpus(s.vcpus, where, c, &l->vcpus, err)) < 0 ||
	    (r = read_mem(s.mem_gb, where, c, &l->mem_mb, err)) < 0 ||
	    (r = read_disk(s.disk_gb, where, c, &l->disk_mb, err)) < 0)
		return r;
	json_object_del(c->extra, "got");
	return 0;
}
