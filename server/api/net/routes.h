/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/net/routes.h - names and private networks: /domains, /dns, /v1/ca, /v1/vpcs
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help), and ROUTE_INTAKE for bodies that
 * are passed on while they arrive; the DOC lines below a route describe it, as api/doc/openapi.h
 * says. No include guard: handlers.h makes the prototypes from it, routes.c the table.
 */
/* clang-format off */

/* names that lead to VMs */
DOC(SECTION, "Domains")
ROUTE(GET, "/domains/v1/domains", SCOPE_ACCOUNT, NO_BODY, api_domain_list, 0,
      "List verified domains")
DOC(QUERY, "limit?: int, offset?: int")
DOC(REPLY, "Domain[]")
ROUTE(GET, "/domains/v1/verifications", SCOPE_ACCOUNT, NO_BODY, api_verification_list, 0,
      "List pending verifications")
DOC(REPLY, "Verification[]")
ROUTE(POST, "/domains/v1/verifications", SCOPE_ACCOUNT, KIB(64), api_verification_create, 0,
      "Begin to verify a domain; the reply says which TXT record to add")
DOC(BODY, "VerificationWish")
DOC(REPLY, "Verification")
DOC(FAILS, "BAD_REQUEST INVALID_DOMAIN DOMAIN_ALREADY_EXISTS NO_DOMAIN_OWNERSHIP")
ROUTE(PUT, "/domains/v1/verifications", SCOPE_ACCOUNT, KIB(64), api_verification_complete, 0,
      "Check the TXT record and complete a verification")
DOC(BODY, "VerificationWish")
DOC(REPLY, "{domain: string}")
DOC(FAILS, "BAD_REQUEST VERIFICATION_NOT_FOUND DOMAIN_OWNERSHIP_VERIFICATION_FAILED FAILED_TO_VERIFY_DOMAIN DOMAIN_ALREADY_EXISTS NO_DOMAIN_OWNERSHIP "
    "INVALID_DOMAIN")
ROUTE(DELETE, "/domains/v1/verifications", SCOPE_ACCOUNT, KIB(64), api_verification_cancel, 0,
      "Cancel a verification")
DOC(BODY, "VerificationWish")
DOC(REPLY, "{domain: string, verificationCode: string}")
DOC(FAILS, "BAD_REQUEST VERIFICATION_NOT_FOUND INVALID_DOMAIN")
ROUTE(GET, "/domains/v1/mappings", SCOPE_ACCOUNT, NO_BODY, api_mapping_list, 0,
      "List the names that are mapped to VMs")
DOC(QUERY, "domain?: string, domainOwnership?: string, limit?: int, offset?: int")
DOC(REPLY, "Mapping[]")
DOC(FAILS, "INVALID_DOMAIN")
ROUTE(POST, "/domains/v1/mappings/{domain}", SCOPE_ACCOUNT, KIB(64), api_mapping_create, 0,
      "Map a name to a port of a VM, or to a deployment")
DOC(BODY, "MappingNew")
DOC(REPLY, "Mapping & {dnsRecords: NameRecord[]}")
DOC(FAILS, "BAD_REQUEST INVALID_DOMAIN DOMAIN_ALREADY_EXISTS DOMAIN_OWNERSHIP_NOT_VERIFIED NO_DOMAIN_OWNERSHIP VM_NOT_FOUND INVALID_VM_ID DEPLOYMENT_NOT_FOUND")
ROUTE(DELETE, "/domains/v1/mappings/{domain}", SCOPE_ACCOUNT, NO_BODY, api_mapping_delete, 0,
      "Remove the mapping of a name")
DOC(REPLY, "Mapping")
DOC(FAILS, "INVALID_DOMAIN NOT_FOUND NO_DOMAIN_OWNERSHIP DOMAIN_NOT_MAPPED")
ROUTE(GET, "/domains/v1/certs", SCOPE_ACCOUNT, NO_BODY, api_cert_list, 0,
      "Certificates of the account's names, and for the operator all")
DOC(REPLY, "{certs: Certificate[]}")
DOC(FAILS, "SERVICE_UNAVAILABLE")
ROUTE(POST, "/domains/v1/certs/{domain}/wildcard", SCOPE_ACCOUNT, NO_BODY, api_cert_wildcard, 0,
      "Get a wildcard certificate for a verified domain")
DOC(REPLY, "{domain: string}")
DOC(FAILS, "INVALID_DOMAIN DOMAIN_OWNERSHIP_NOT_VERIFIED NO_DOMAIN_OWNERSHIP FAILED_TO_PROVISION_CERTIFICATE SERVICE_UNAVAILABLE")
ROUTE(GET, "/v1/ca", SCOPE_PUBLIC, NO_BODY, api_ca, 0,
      "The certificate of the local CA, for trust stores")
DOC(REPLY, "{certificate: string =PEM=}")
DOC(FAILS, "SERVICE_UNAVAILABLE")

/* DNS records of verified domains */
DOC(SECTION, "DNS records")
ROUTE(GET, "/dns/v1/records", SCOPE_ACCOUNT, NO_BODY, api_record_list, 0,
      "List the DNS records of a verified domain")
DOC(QUERY, "domain: string")
DOC(REPLY, "{records: DnsRecord[], nameServer: string | null}")
DOC(FAILS, "DOMAIN_OWNERSHIP_ERROR INVALID_DOMAIN SERVICE_UNAVAILABLE BAD_REQUEST")
ROUTE(POST, "/dns/v1/records", SCOPE_ACCOUNT, KIB(64), api_record_create, 0,
      "Add a DNS record")
DOC(BODY, "DnsRecordAdd")
DOC(REPLY, "{record: DnsRecord}")
DOC(FAILS, "DOMAIN_OWNERSHIP_ERROR INVALID_DOMAIN SERVICE_UNAVAILABLE BAD_REQUEST CONFLICT")
ROUTE(DELETE, "/dns/v1/records", SCOPE_ACCOUNT, NO_BODY, api_record_delete, 0,
      "Delete a DNS record")
DOC(QUERY, "domain: string, recordId?: string, record?: string =as JSON=")
DOC(REPLY, "{message: string, id: string}")
DOC(FAILS, "DOMAIN_OWNERSHIP_ERROR RECORD_OWNERSHIP_ERROR INVALID_DOMAIN SERVICE_UNAVAILABLE BAD_REQUEST")
DOC(SECTION, "Private networks")
ROUTE(POST, "/v1/vpcs", SCOPE_ACCOUNT, KIB(64), api_vpc_create, 0,
      "Create a private network")
DOC(BODY, "VpcNew")
DOC(REPLY, "Vpc")
DOC(FAILS, "BAD_REQUEST CONFLICT")
ROUTE(GET, "/v1/vpcs", SCOPE_ACCOUNT, NO_BODY, api_vpc_list, 0,
      "List VPCs")
DOC(REPLY, "{vpcs: Vpc[], totalCount: int}")
ROUTE(GET, "/v1/vpcs/{vpc_id}", SCOPE_ACCOUNT, NO_BODY, api_vpc_get, 0,
      "Get a private network with its VMs")
DOC(REPLY, "Vpc")
ROUTE(DELETE, "/v1/vpcs/{vpc_id}", SCOPE_ACCOUNT, NO_BODY, api_vpc_delete, 0,
      "Delete a VPC that has no VMs")
DOC(REPLY, "{vpcId: string}")
DOC(FAILS, "CONFLICT")
ROUTE(GET, "/v1/vpcs/{vpc_id}/wireguard", SCOPE_ACCOUNT, NO_BODY, api_wg_list, 0,
      "Open tunnels of a VPC")
DOC(REPLY, "{vpcId: string, sessions: TunnelOpen[]}")
ROUTE(POST, "/v1/vpcs/{vpc_id}/wireguard/ephemeral", SCOPE_ACCOUNT, KIB(64), api_wg_ephemeral, 0,
      "Open a temporary WireGuard tunnel into a VPC")
DOC(BODY, "{}")
DOC(REPLY, "Tunnel")
DOC(FAILS, "BAD_REQUEST SERVICE_UNAVAILABLE")
ROUTE(DELETE, "/v1/vpcs/{vpc_id}/wireguard/ephemeral", SCOPE_ACCOUNT, KIB(64), api_wg_close, 0,
      "Close a tunnel")
DOC(BODY, "WireguardClose")
DOC(REPLY, "{sessionId: string}")
DOC(FAILS, "BAD_REQUEST")
ROUTE(POST, "/v1/vpcs/{vpc_id}/wireguard/peers", SCOPE_ACCOUNT, KIB(64), api_wg_peer, 0,
      "Open a tunnel for a public key of the client")
DOC(BODY, "WireguardPeerNew")
DOC(REPLY, "Tunnel")
DOC(FAILS, "BAD_REQUEST SERVICE_UNAVAILABLE VM_NOT_FOUND")
/* clang-format on */
