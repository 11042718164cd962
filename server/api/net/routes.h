/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/net/routes.h - names and private networks: /domains, /dns, /v1/ca, /v1/vpcs
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive. No include guard: handlers.h makes the prototypes from it,
 * routes.c the table.
 */
/* clang-format off */

/* names that lead to VMs */
ROUTE(GET, "/domains/v1/domains", SCOPE_ACCOUNT, NO_BODY, api_domain_list, 0,
      "List verified domains; limit, offset")
ROUTE(GET, "/domains/v1/verifications", SCOPE_ACCOUNT, NO_BODY, api_verification_list, 0,
      "List pending verifications")
ROUTE(POST, "/domains/v1/verifications", SCOPE_ACCOUNT, KIB(64), api_verification_create, 0,
      "Begin to verify a domain; the reply says which TXT record to add")
ROUTE(PUT, "/domains/v1/verifications", SCOPE_ACCOUNT, KIB(64), api_verification_complete, 0,
      "Check the TXT record and complete a verification; id or domain")
ROUTE(DELETE, "/domains/v1/verifications", SCOPE_ACCOUNT, KIB(64), api_verification_cancel, 0,
      "Cancel a verification; domain, verificationCode")
ROUTE(GET, "/domains/v1/mappings", SCOPE_ACCOUNT, NO_BODY, api_mapping_list, 0,
      "List the names that are mapped to VMs; domain, limit, offset")
ROUTE(POST, "/domains/v1/mappings/{domain}", SCOPE_ACCOUNT, KIB(64), api_mapping_create, 0,
      "Map a name to a port of a VM; vmId, vmPort")
ROUTE(DELETE, "/domains/v1/mappings/{domain}", SCOPE_ACCOUNT, NO_BODY, api_mapping_delete, 0,
      "Remove the mapping of a name")
ROUTE(GET, "/domains/v1/certs", SCOPE_ACCOUNT, NO_BODY, api_cert_list, 0,
      "Certificates of the account's names, and for the operator all: name, source, validity, state")
ROUTE(POST, "/domains/v1/certs/{domain}/wildcard", SCOPE_ACCOUNT, NO_BODY, api_cert_wildcard, 0,
      "Get a wildcard certificate for a verified domain")
ROUTE(GET, "/v1/ca", SCOPE_PUBLIC, NO_BODY, api_ca, 0,
      "The certificate of the local CA, for trust stores")

/* DNS records of verified domains */
ROUTE(GET, "/dns/v1/records", SCOPE_ACCOUNT, NO_BODY, api_record_list, 0,
      "List the DNS records of a verified domain; domain")
ROUTE(POST, "/dns/v1/records", SCOPE_ACCOUNT, KIB(64), api_record_create, 0,
      "Add a DNS record; domain, record")
ROUTE(DELETE, "/dns/v1/records", SCOPE_ACCOUNT, NO_BODY, api_record_delete, 0,
      "Delete a DNS record; domain, and recordId or record")
ROUTE(POST, "/v1/vpcs", SCOPE_ACCOUNT, KIB(64), api_vpc_create, 0,
      "Create a private network; name, cidr")
ROUTE(GET, "/v1/vpcs", SCOPE_ACCOUNT, NO_BODY, api_vpc_list, 0,
      "List VPCs")
ROUTE(GET, "/v1/vpcs/{vpc_id}", SCOPE_ACCOUNT, NO_BODY, api_vpc_get, 0,
      "Get a private network with its VMs")
ROUTE(DELETE, "/v1/vpcs/{vpc_id}", SCOPE_ACCOUNT, NO_BODY, api_vpc_delete, 0,
      "Delete a VPC that has no VMs")
ROUTE(GET, "/v1/vpcs/{vpc_id}/wireguard", SCOPE_ACCOUNT, NO_BODY, api_wg_list, 0,
      "Open tunnels of a VPC: keys, addresses, last handshake, bytes")
ROUTE(POST, "/v1/vpcs/{vpc_id}/wireguard/ephemeral", SCOPE_ACCOUNT, KIB(64), api_wg_ephemeral, 0,
      "Open a temporary WireGuard tunnel into a VPC")
ROUTE(DELETE, "/v1/vpcs/{vpc_id}/wireguard/ephemeral", SCOPE_ACCOUNT, KIB(64), api_wg_close, 0,
      "Close a tunnel; sessionId")
ROUTE(POST, "/v1/vpcs/{vpc_id}/wireguard/peers", SCOPE_ACCOUNT, KIB(64), api_wg_peer, 0,
      "Open a tunnel for a public key of the client; gatewayVmId, clientPublicKey")
/* clang-format on */
