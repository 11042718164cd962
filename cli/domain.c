/* SPDX-License-Identifier: Apache-2.0 */
/* domain.c - pando domain: domains, mappings, DNS records */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/resolve.h"

#define LIST_MAX "1000" /* what an account can have */

static const struct cli_col domain_cols[] = {
	{ "DOMAIN", "domain" },
	{ "VERIFIED", "verifiedDns" },
	{ "DNS HERE", "manageDns" },
	{ "CREATED", "createdAt" },
};
static const struct cli_col verification_cols[] = {
	{ "DOMAIN", "domain" },
	{ "CODE", "verificationCode" },
	{ "ID", "id" },
	{ "CREATED", "createdAt" },
};
static const struct cli_col mapping_cols[] = {
	{ "DOMAIN", "domain" },     { "VM", "vmId" },           { "PORT", "vmPort" },
	{ "PROTOCOL", "protocol" }, { "CREATED", "createdAt" },
};
static const struct cli_col record_cols[] = {
	{ "NAME", "name" }, { "KIND", "kind" },         { "VALUE", "value" },
	{ "TTL", "ttl" },   { "PRIORITY", "priority" }, { "ID", "id" },
};

static int list_of(struct cli *c, char *path_consume, const struct cli_col *cols, size_t n)
{
	autofree char *path = path_consume;
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", path, NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, reply, cols, n);
	return r;
}

/* ---- verification ---- */

/* The records of a reply, a line each. Caller frees. */
static char *records_text(const json_t *reply)
{
	autobuf struct buf b = { 0 };
	const json_t *rec;
	size_t i;

	json_array_foreach(json_object_get(reply, "dnsRecords"), i, rec)
	        buf_printf(&b, "  %s  %s  %s\n", cli_str(rec, "name"), cli_str(rec, "type"),
	                   cli_str(rec, "value"));
	return buf_take_str(&b);
}

static int verify(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", "/domains/v1/verifications",
	                 json_pack("{s:s}", "domain", a->arg[0]), &reply);

	autofree char *records = r == CLI_OK ? records_text(reply) : NULL;

	if (r == CLI_OK)
		cli_say(c, reply,
		        "Add these records to the DNS of %s; TXT proves that it is yours, the "
		        "others "
		        "lead here:\n\n%s\nThen run: pando domain complete %s",
		        cli_str(reply, "domain"), records ? records : "", cli_str(reply, "domain"));
	return r;
}

static int complete(struct cli *c, const struct cli_args *a)
{
	const char *member = strncmp(a->arg[0], "dv-", 3) == 0 ? "id" : "domain";
	autojson json_t *reply = NULL;
	int r = cli_call(c, "PUT", "/domains/v1/verifications",
	                 json_pack("{s:s}", member, a->arg[0]), &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "%s is verified", cli_str(reply, "domain"));
	return r;
}

static int cancel(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", "/domains/v1/verifications",
	                 json_pack("{s:s}", "domain", a->arg[0]), &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "cancelled");
	return r;
}

static int verifications(struct cli *c, const struct cli_args *a)
{
	return list_of(c, cli_path(c, "/domains/v1/verifications"), verification_cols,
	               ARRAY_SIZE(verification_cols));
}

static int list(struct cli *c, const struct cli_args *a)
{
	return list_of(c, cli_path(c, "/domains/v1/domains?limit=" LIST_MAX), domain_cols,
	               ARRAY_SIZE(domain_cols));
}

static int wildcard(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/domains/v1/certs/%s/wildcard", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "*.%s has a certificate", cli_str(reply, "domain"));
	return r;
}

/* ---- mappings ---- */

static int map(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/domains/v1/mappings/%s", a->arg[0]);
	autofree char *vm = cli_vm_id(c, a->arg[1]);
	autojson json_t *reply = NULL;
	int r;

	if (!vm)
		return CLI_REFUSED;
	r = cli_call(c, "POST", path,
	             json_pack("{s:s, s:I, s:s}", "vmId", vm, "vmPort",
	                       (json_int_t)(a->opt[0] ? a->num[0] : 3000), "protocol",
	                       a->opt[1] ? a->opt[1] : "http1"),
	             &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s is mapped to port %lld of %s", cli_str(reply, "domain"),
		        (long long)json_integer_value(json_object_get(reply, "vmPort")), vm);
	return r;
}

static int unmap(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/domains/v1/mappings/%s", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "unmapped");
	return r;
}

static int mappings(struct cli *c, const struct cli_args *a)
{
	char *path = cli_path(c, "/domains/v1/mappings?limit=" LIST_MAX);

	cli_query(c, &path, "domain", a->opt[0]);
	return list_of(c, path, mapping_cols, ARRAY_SIZE(mapping_cols));
}

/* ---- DNS records ---- */

static int records(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/dns/v1/records?domain=%s", a->arg[0]);
	autojson json_t *reply = NULL;
	const char *server;
	int r = cli_call(c, "GET", path, NULL, &reply);

	if (r != CLI_OK)
		return r;
	cli_table(c, reply, json_object_get(reply, "records"), record_cols,
	          ARRAY_SIZE(record_cols));
	server = json_string_value(json_object_get(reply, "nameServer"));
	if (!cli_json(c) && server)
		printf("served by %s\n", server);
	else if (!cli_json(c))
		printf("not served: the name server is off (PANDO_DNS_LISTEN)\n");
	return r;
}

static int record_add(struct cli *c, const struct cli_args *a)
{
	json_t *record = json_pack("{s:s, s:s, s:s}", "name", a->arg[1], "kind", a->arg[2], "value",
	                           a->arg[3]);
	autojson json_t *reply = NULL;
	int r;

	if (a->opt[0])
		json_object_set_new(record, "ttl", json_integer(a->num[0] / 1000));
	if (a->opt[1])
		json_object_set_new(record, "priority", json_integer(a->num[1]));
	r = cli_call(c, "POST", "/dns/v1/records",
	             json_pack("{s:s, s:o}", "domain", a->arg[0], "record", record), &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(json_object_get(reply, "record"), "id"));
	return r;
}

static int record_delete(struct cli *c, const struct cli_args *a)
{
	autofree char *path =
	        cli_path(c, "/dns/v1/records?domain=%s&recordId=%s", a->arg[0], a->arg[1]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "deleted");
	return r;
}

static const struct cli_verb verbs[] = {
	{ "verify",
	  "DOMAIN",
	  "start verifying a domain: prints the TXT record to add",
	  verify,
	  { { 0 } },
	  .examples = "pando domain verify example.org" },
	{ "complete",
	  "DOMAIN",
	  "check the TXT record; DOMAIN may be the verification's id",
	  complete,
	  { { 0 } } },
	{ "cancel", "DOMAIN", "cancel a verification", cancel, { { 0 } } },
	{ "verifications", "", "list pending verifications", verifications, { { 0 } } },
	{ "list", "", "verified domains", list, { { 0 } } },
	{ "map",
	  "DOMAIN VM",
	  "map a name to a port of a VM",
	  map,
	  { { "port", "PORT", "the VM's port; default 3000", 'p', CLI_NUMBER, .min = 1,
	      .max = 65535 },
	    { "protocol", "NAME",
	      "what it speaks there: http1 (default), h2c for gRPC, tls: it has its own "
	      "certificate" } },
	  .about = "A name below the server's base domain or style.dev needs no verification; any "
	           "other must be at or below a verified domain. A name that is already mapped "
	           "moves to the new port.",
	  .examples = "pando domain map my-app.style.dev web # port 3000 of the VM 'web'\n"
	              "pando domain map app.example.org web -p 8080" },
	{ "unmap", "DOMAIN", "remove a mapping", unmap, { { 0 } } },
	{ "mappings",
	  "",
	  "list mapped names",
	  mappings,
	  { { "domain", "DOMAIN", "only this one" } } },
	{ "wildcard",
	  "DOMAIN",
	  "get a certificate for all names below a verified domain",
	  wildcard,
	  { { 0 } } },
	{ "records", "DOMAIN", "DNS records of a verified domain", records, { { 0 } } },
	{ "record-add",
	  "DOMAIN NAME KIND VALUE",
	  "add a DNS record: A, AAAA, CNAME, TXT, NS or MX",
	  record_add,
	  { { "ttl", "TIME", "how long resolvers may cache it: 300, 5m, 1h", .type = CLI_DURATION },
	    { "priority", "N", "of an MX record; default 10", .type = CLI_NUMBER, .min = 0,
	      .max = 65535 } },
	  .about = "NAME is relative to the domain; @ is the domain itself, * any name without "
	           "records of its own. Records are served if the server's name server is on "
	           "(PANDO_DNS_LISTEN) and the domain is delegated to it.",
	  .examples = "pando domain record-add example.org www A 192.0.2.7 --ttl 1h\n"
	              "pando domain record-add example.org @ MX mail.example.org --priority 5" },
	{ "record-delete",
	  "DOMAIN RECORD",
	  "delete a DNS record, by its id",
	  record_delete,
	  { { 0 } } },
};
const struct cli_noun cli_domain = { "domain",
	                             "domains: verification, mappings to VMs, DNS records", verbs,
	                             ARRAY_SIZE(verbs) };
