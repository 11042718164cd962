/* SPDX-License-Identifier: Apache-2.0 */
/* pty_escape.c - the escape key, which is not sent to the terminal in the VM */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "cli/pty.h"

int pty_escape_parse(const char *s, int *ret_key)
{
	if (strcasecmp(s, "none") == 0) {
		*ret_key = -1;
		return 0;
	}
	if (strncasecmp(s, "ctrl-", 5) == 0)
		s += 5;
	else if (*s == '^')
		s++;
	else
		return -EINVAL;
	if (!s[0] || s[1] || toupper((unsigned char)*s) < '@' || toupper((unsigned char)*s) > '_')
		return -EINVAL;
	*ret_key = toupper((unsigned char)*s) & 0x1f;
	return 0;
}

enum pty_action pty_escape_feed(struct pty_escape *e, const uint8_t *p, size_t n, struct buf *out,
                                size_t *ret_used)
{
	enum pty_action action = PTY_NOTHING;
	size_t i = 0;

	while (i < n && action == PTY_NOTHING) {
		int ch = p[i++];

		if (!e->armed) {
			if (ch == e->key)
				e->armed = 1;
			else
				buf_put_u8(out, (uint8_t)ch);
			continue;
		}
		e->armed = 0;
		if (ch == 'd' || ch == '.' || ch == 'q')
			action = PTY_DETACH;
		else if (ch == 'k')
			action = PTY_KILL;
		else if (ch == '?' || ch == 'h')
			action = PTY_HELP;
		else if (ch == e->key)
			buf_put_u8(out, (uint8_t)ch);
		else { /* not a command: both keys are input */
			buf_put_u8(out, (uint8_t)e->key);
			buf_put_u8(out, (uint8_t)ch);
		}
	}
	*ret_used = i;
	return action;
}
