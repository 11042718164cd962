/* SPDX-License-Identifier: Apache-2.0 */
/* cli/doc.h - a page of documentation and its output formats; for doc*.c */
#pragma once

#include <stdio.h>

struct doc_ops {
	/* "pando-vm", "virtual machines" */
	void (*title)(FILE *f, const char *name, const char *summary);
	void (*section)(FILE *f, const char *title);
	void (*synopsis)(FILE *f, const char *line);
	/* Paragraphs; an empty line is between two. */
	void (*para)(FILE *f, const char *text);
	/* A term and what it means. */
	void (*item)(FILE *f, const char *term, const char *text);
	void (*example)(FILE *f, const char *what, const char *command);
};
extern const struct doc_ops doc_text, doc_man, doc_md;
