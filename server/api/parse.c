/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - members of bodies that several routes have: environments, bytes in base64 */
#include "api/shape.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "base/err.h"

void env_list_done(struct env_list *e)
{
	for (size_t i = 0; e->v[i]; i++)
		free(e->v[i]);
}

int parse_env(json_t *env, size_t max, struct env_list *ret, struct err *err)
{
	const char *name;
	json_t *value;
	size_t n = 0;

	json_object_foreach(env, name, value)
	{
		if (!*name || strchr(name, '='))
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "a name in 'env' is empty or contains '='");
		if (!json_is_string(value) ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "values in 'env' must be strings without NUL");
		if (n == max)
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "'env' has more than %zu variables", max);
		if (asprintf(&ret->v[n], "%s=%s", name, json_string_value(value)) < 0) {
			ret->v[n] = NULL;
			return err_set(err, -ENOMEM, "out of memory");
		}
		n++;
	}
	return 0;
}

int parse_base64(const char *text, size_t n, const char *what, uint8_t **ret, size_t *ret_n,
                 struct err *err)
{
	autofree uint8_t *p = malloc(n / 4 * 3 + 4);
	size_t pad = 0;
	int k;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	while (pad < 2 && pad < n && text[n - pad - 1] == '=')
		pad++;
	k = n % 4 || n > INT_MAX ? -1 : EVP_DecodeBlock(p, (const unsigned char *)text, (int)n);
	if (k < 0 || (size_t)k < pad)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'%s' is not base64", what);
	*ret_n = (size_t)k - pad;
	*ret = TAKE_PTR(p);
	return 0;
}
