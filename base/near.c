/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.c - see near.h
 *
 * Distance: letters to insert, remove, replace or swap with their neighbour, whatever their case.
 * Near enough is a third of the word, or a word that the candidate begins or ends with.
 */
#include "base/near.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"

#define NEAR_MAX 40 /* bytes of a word; longer ones have no neighbours */
#define PART_MIN 4  /* a shorter part says nothing */

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned row[3][NEAR_MAX + 1]; /* two before, one before, this one */

	for (size_t j = 0; j <= m; j++)
		row[1][j] = (unsigned)j;
	memset(row[0], 0, sizeof(row[0]));
	for (size_t i = 1; i <= n; i++) {
		row[2][0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned d = row[1][j - 1] + !same(a[i - 1], b[j - 1]);

			d = MIN(d, row[1][j] + 1);
			d = MIN(d, row[2][j - 1] + 1);
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				d = MIN(d, row[0][j - 2] + 1);
			row[2][j] = d;
		}
		memcpy(row[0], row[1], sizeof(row[0]));
		memcpy(row[1], row[2], sizeof(row[1]));
	}
	return row[1][m];
}

void near_try(struct near *n, const char *candidate)
{
	size_t word_n = strlen(n->word), m = strlen(candidate);
	unsigned d, most;

	if (!word_n || !m || word_n > NEAR_MAX || m > NEAR_MAX)
		return;
	d = distance(n->word, word_n, candidate, m);
	most = (unsigned)MAX(word_n, m) / 3;
	if (d > most && word_n >= PART_MIN && m > word_n &&
	    (!strncasecmp(candidate, n->word, word_n) ||
	     !strcasecmp(candidate + m - word_n, n->word)))
		most = d;
	if (d > most || (n->best && d >= n->distance))
		return;
	n->best = candidate;
	n->distance = d;
}
