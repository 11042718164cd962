/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - pando host: load, memory, disk, VMs of the server, and what is wrong with it */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"

static double number(const json_t *o, const char *group, const char *member)
{
	return json_number_value(json_object_get(json_object_get(o, group), member));
}

static double gb(const json_t *o, const char *group, const char *member)
{
	return number(o, group, member) / (1 << 30);
}

static void print_vms(const json_t *h)
{
	json_t *by = json_object_get(json_object_get(h, "vms"), "byState"), *n;
	const char *state, *sep = "";

	printf("VMs       ");
	json_object_foreach(by, state, n)
	{
		if (!json_integer_value(n))
			continue;
		printf("%s%lld %s", sep, (long long)json_integer_value(n), state);
		sep = ", ";
	}
	printf("%s\n", *sep ? "" : "none");
}

static void print_notes(const json_t *h)
{
	json_t *notes = json_object_get(h, "notes"), *n;
	size_t i;

	json_array_foreach(notes, i, n)
	{
		printf("\n%s: ", cli_str(n, "level"));
		cli_put_text(stdout, cli_str(n, "text"));
		printf("\n  ");
		cli_put_text(stdout, cli_str(n, "whatToDo"));
		printf("\n");
	}
	if (!json_array_size(notes))
		printf("\nNothing is wrong.\n");
}

static void print_host(const json_t *h)
{
	const json_t *load = json_object_get(json_object_get(h, "cpu"), "load");

	printf("server    %s, up %.1f h, accelerator %s\n", cli_str(h, "version"),
	       json_number_value(json_object_get(h, "uptimeSeconds")) / 3600, cli_str(h, "accel"));
	printf("CPU       %.0f %% of %.0f cores, load %.2f\n", number(h, "cpu", "percent"),
	       number(h, "cpu", "cores"), json_number_value(json_array_get(load, 0)));
	printf("memory    %.1f GB: private to VMs %.1f, shared by VMs %.1f, cache %.1f, other "
	       "%.1f, "
	       "free %.1f\n",
	       gb(h, "memory", "totalBytes"), gb(h, "memory", "privateBytes"),
	       gb(h, "memory", "sharedBytes"), gb(h, "memory", "cacheBytes"),
	       gb(h, "memory", "otherBytes"), gb(h, "memory", "freeBytes"));
	printf("disk      %.1f of %.1f GB free, %.0f layers with %.1f GB\n",
	       gb(h, "disk", "freeBytes"), gb(h, "disk", "sizeBytes"), number(h, "disk", "layers"),
	       gb(h, "disk", "layerBytes"));
	print_vms(h);
	printf("pool      %.0f of %.0f ready, %.0f blank processes; %.0f creates found one, %.0f "
	       "did "
	       "not\n",
	       number(h, "pool", "ready"), number(h, "pool", "wanted"),
	       number(h, "pool", "blankProcesses"), number(h, "pool", "given"),
	       number(h, "pool", "missed"));
	print_notes(h);
}

static int host(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/host", NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (cli_json(c))
		cli_dump(reply);
	else
		print_host(reply);
	return CLI_OK;
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "",
	  "show load, memory, disk and pool of the server, and what is wrong (operator's key)",
	  host,
	  { { 0 } },
	  .about =
	          "Memory is split so that its parts add up: what VMs have of their own, what they "
	          "share, what the kernel keeps of files, everything else.",
	  .examples = "pando host --json | jq .notes # what is wrong, for a script" },
};
const struct cli_noun cli_host = { "host", "the machine the server runs on", verbs,
	                           ARRAY_SIZE(verbs) };
