/* SPDX-License-Identifier: Apache-2.0 */
/* ca.c - pando ca: the certificate of the server's local CA, for trust stores */
#include <stdio.h>

#include "base/auto.h"
#include "cli/cli.h"

static int ca(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/ca", NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (cli_json(c))
		cli_dump(reply);
	else
		fputs(cli_str(reply, "certificate"), stdout);
	return CLI_OK;
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "",
	  "print the certificate of the local CA (PEM)",
	  ca,
	  { { 0 } },
	  .examples = "pando ca >pando-ca.crt # for curl --cacert, or a trust store" },
};
const struct cli_noun cli_ca = { "ca", "the CA certificate that signs the names of VMs", verbs,
	                         ARRAY_SIZE(verbs) };
