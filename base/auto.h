/* SPDX-License-Identifier: Apache-2.0 */
/* base/auto.h - locals that are released at the end of their scope; TAKE_*() passes them on */
#pragma once

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void auto_free_(void *p)
{
	free(*(void **)p);
}

/* For what was a secret: overwritten before it is freed. */
static inline void auto_wipe_(void *p)
{
	void *mem = *(void **)p;

	/* Forget what the compiler knows of its size: the allocator may have given more. */
	__asm__("" : "+r"(mem));
	if (mem)
		explicit_bzero(mem, malloc_usable_size(mem));
	free(mem);
}

static inline void auto_close_(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void auto_fclose_(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void auto_closedir_(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define AUTO(fn) __attribute__((cleanup(fn)))
#define autofree AUTO(auto_free_)
#define autowipe AUTO(auto_wipe_)
#define autofd AUTO(auto_close_)
#define autofile AUTO(auto_fclose_)
#define autodir AUTO(auto_closedir_)

#define TAKE(var, empty)                     \
	({                                   \
		__typeof__(var) took_ = var; \
		var = (empty);               \
		took_;                       \
	})
#define TAKE_PTR(p) TAKE(p, NULL)
#define TAKE_FD(fd) TAKE(fd, -1)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(n) (1u << (n))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
