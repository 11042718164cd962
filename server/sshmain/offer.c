/* SPDX-License-Identifier: Apache-2.0 */
/* offer.c - what the server offers: algorithms, and its host keys */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "sshmain/sshmain.h"

/* OpenSSH's client reports that its output is no longer read ("command | head") only to
 * OpenSSH servers.
 */
#define SERVER_NAME "OpenSSH_compatible_Pando_" PANDO_VERSION

/*
 * What is offered: no curve of NIST, no MAC that is computed over the plain text, no CBC, no SHA-1.
 * libssh leaves out what it does not know: versions that have the hybrid exchanges (ML-KEM, sntrup)
 * offer them first.
 */
static int algorithms(ssh_bind bind, struct err *err)
{
#define CIPHERS                                                                        \
	"chacha20-poly1305@openssh.com,aes256-gcm@openssh.com,aes128-gcm@openssh.com," \
	"aes256-ctr,aes192-ctr,aes128-ctr"
#define MACS "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com"
	static const struct {
		enum ssh_bind_options_e option;
		const char *names;
	} lists[] = {
		{ SSH_BIND_OPTIONS_KEY_EXCHANGE,
		  "mlkem768x25519-sha256,sntrup761x25519-sha512,sntrup761x25519-sha512@openssh.com,"
		  "curve25519-sha256,curve25519-sha256@libssh.org" },
		{ SSH_BIND_OPTIONS_HOSTKEY_ALGORITHMS, "ssh-ed25519,rsa-sha2-512,rsa-sha2-256" },
		{ SSH_BIND_OPTIONS_CIPHERS_C_S, CIPHERS },
		{ SSH_BIND_OPTIONS_CIPHERS_S_C, CIPHERS },
		{ SSH_BIND_OPTIONS_HMAC_C_S, MACS },
		{ SSH_BIND_OPTIONS_HMAC_S_C, MACS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (ssh_bind_options_set(bind, lists[i].option, lists[i].names) != 0)
			return err_set(err, -EIO, "offer '%s': %s", lists[i].names,
			               ssh_get_error(bind));
	return 0;
}

static int add_key(ssh_bind bind, const struct sshw_text *text, struct err *err)
{
	autowipe char *pem = strndup(text->n ? text->p : "", text->n);
	ssh_key key = NULL;

	if (!pem)
		return err_set(err, -ENOMEM, "out of memory");
	if (ssh_pki_import_privkey_base64(pem, NULL, NULL, NULL, &key) != SSH_OK)
		return err_set(err, -EINVAL, "a host key cannot be read");
	/* The bind owns it from now on, even on failure. */
	if (ssh_bind_options_set(bind, SSH_BIND_OPTIONS_IMPORT_KEY, key) != SSH_OK)
		return err_set(err, -EIO, "use a host key: %s", ssh_get_error(bind));
	return 0;
}

int offer(ssh_bind bind, const struct sshw_msg *start, struct err *err)
{
	int r;

	/* No configuration file of the host is used. */
	if (ssh_bind_options_set(bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &(bool){ false }) != 0 ||
	    ssh_bind_options_set(bind, SSH_BIND_OPTIONS_BANNER, SERVER_NAME) != 0)
		return err_set(err, -EIO, "set up the SSH server: %s", ssh_get_error(bind));
	for (unsigned i = 0; i < start->n_keys; i++)
		if ((r = add_key(bind, &start->keys[i], err)) < 0)
			return r;
	return algorithms(bind, err);
}
