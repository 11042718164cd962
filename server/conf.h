/* SPDX-License-Identifier: Apache-2.0 */
/* conf.h - configuration of pandod: environment, pando.conf, command line; listed once in conf.c */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;

#define CONF_VCPUS_MAX 32u
#define CONF_MEM_MIN_MB 512u
#define CONF_MEM_MAX_MB 65536u
#define CONF_SIZES_MAX 16

struct conf {
	char data_dir[256];    /* PANDO_DATA_DIR */
	char cache_dir[256];   /* PANDO_CACHE_DIR */
	char image_dir[512];   /* PANDO_IMAGE: directory with vmlinux, initrd, rootfs.raw */
	char database[512];    /* PANDO_DATABASE: postgresql://...; "": pando.db in data_dir */
	char node_address[64]; /* PANDO_NODE_ADDRESS; "": the database is not shared */
	char node_name[64];    /* PANDO_NODE_NAME; "": the host's name */
	char objects[512];     /* PANDO_OBJECTS: s3://bucket?endpoint=...; "": none */
	char objects_key[128]; /* PANDO_OBJECTS_KEY, PANDO_OBJECTS_SECRET; "": from the file */
	char objects_secret[160];
	char objects_credentials[256]; /* PANDO_OBJECTS_CREDENTIALS: the file; "" */
	uint32_t objects_cache_mb;     /* PANDO_OBJECTS_CACHE_MB; 0: no bound */
	uint32_t objects_keep_s;       /* PANDO_OBJECTS_KEEP_S */
	uint32_t objects_transfers;    /* PANDO_OBJECTS_TRANSFERS */
	char secret_key[256];  /* PANDO_SECRET_KEY: file of the keys of secrets; "": see secret/ */
	char listen[64];       /* PANDO_LISTEN */
	char ssh_listen[64];   /* PANDO_SSH_LISTEN; "none": no SSH server */
	char metrics_key[128]; /* PANDO_METRICS_KEY; "": only the operator's keys */
	char metrics_listen[64]; /* PANDO_METRICS_LISTEN, or "none" */
	char domain[128];        /* PANDO_DOMAIN */
	char accel[8];           /* PANDO_ACCEL: auto, kvm, tcg */
	uint32_t kvm_probe_s;    /* PANDO_KVM_PROBE_S */
	uint32_t boot_s;         /* PANDO_BOOT_S */
	char qemu[256];          /* PANDO_QEMU */
	char egress_ca[512]; /* PANDO_EGRESS_CA: certificates upstreams are checked against; "": the
	                        system's */
	char wg_host[256];   /* PANDO_WG_HOST: name or address clients reach this host by; "": found
	                      * out
	                      */
	uint32_t wg_session_s; /* PANDO_WG_SESSION_S: lifetime of a tunnel that is not closed */
	uint32_t wg_port;      /* PANDO_WG_PORT: first of the UDP ports of VPCs */
	char guest_ca[256];    /* PANDO_GUEST_CA; "": none */
	char guest_proxy[512]; /* PANDO_GUEST_PROXY; "": none, as the mirrors below */
	char guest_apt[1024];  /* PANDO_GUEST_APT_MIRROR: one or two */
	char guest_npm[512];   /* PANDO_GUEST_NPM_REGISTRY */
	char guest_pip[512];   /* PANDO_GUEST_PIP_INDEX */
	char resolver[64]; /* PANDO_RESOLVER: address of the name server guests use; "": the host's
	                    */
	char log_level[8]; /* PANDO_LOG */
	uint32_t vcpus;    /* PANDO_VM_VCPUS */
	uint32_t mem_mb;   /* PANDO_VM_MEM_MB */
	uint32_t disk_gb;  /* PANDO_VM_DISK_GB */
	uint32_t ahead_mem_mb;                          /* PANDO_AHEAD_MEM_MB */
	uint32_t pool;                                  /* PANDO_POOL */
	uint32_t pool_mem_mb;                           /* PANDO_POOL_MEM_MB */
	uint32_t blanks;                                /* PANDO_BLANKS */
	uint32_t seeds;                                 /* PANDO_SEEDS */
	char sizes[400];                                /* PANDO_SIZES; conf_sizes() reads it */
	uint32_t sizes_disk_mb;                         /* PANDO_SIZES_DISK_MB */
	uint32_t quota_vms, quota_running, quota_vcpus; /* PANDO_QUOTA_*; 0: no limit */
	uint32_t quota_mem_mb, quota_disk_gb, quota_snapshots;
	uint32_t audit_days;         /* PANDO_AUDIT_DAYS */
	uint32_t parse_mb;           /* PANDO_PARSE_MB */
	uint32_t output_mb;          /* PANDO_OUTPUT_MB */
	uint32_t background;         /* PANDO_BACKGROUND */
	uint32_t create_grace_s;     /* PANDO_CREATE_GRACE_S */
	char strangers[24];          /* PANDO_API_STRANGERS: start:rate:full */
	uint32_t strangers_each;     /* PANDO_API_STRANGERS_EACH */
	char proxies[512];           /* PANDO_PROXIES */
	uint32_t rate_key;           /* PANDO_RATE_KEY; 0: no limit */
	uint32_t rate_address;       /* PANDO_RATE_ADDRESS; 0: no limit */
	char walls[8];               /* PANDO_WALLS: off, log, on */
	char log_file[256];          /* PANDO_LOG_FILE; "": stderr */
	uint32_t log_file_mb;        /* PANDO_LOG_FILE_MB */
	char cors_origins[1024];     /* PANDO_CORS_ORIGINS */
	uint32_t build_timeout_s;    /* PANDO_BUILD_TIMEOUT_S */
	uint32_t spec_cache_max;     /* PANDO_SPEC_CACHE_MAX */
	uint32_t busy_wait_s;        /* PANDO_BUSY_WAIT_S */
	uint32_t disk_budget_mb;     /* PANDO_DISK_BUDGET_MB */
	uint32_t disk_free_mb;       /* PANDO_DISK_FREE_MB */
	uint32_t vm_reserve_mb;      /* PANDO_VM_RESERVE_MB */
	uint32_t quota_git_repos;    /* PANDO_QUOTA_GIT_REPOS */
	uint32_t quota_git_mb;       /* PANDO_QUOTA_GIT_MB */
	uint32_t git_private;        /* PANDO_GIT_ALLOW_PRIVATE */
	uint32_t git_search_s;       /* PANDO_GIT_SEARCH_S */
	uint32_t git_search_mb;      /* PANDO_GIT_SEARCH_MB */
	uint32_t git_slow_s;         /* PANDO_GIT_SLOW_S */
	uint32_t git_unjailed;       /* PANDO_GIT_UNJAILED */
	char edge_listen[64];        /* PANDO_EDGE_LISTEN, or "none" */
	char edge_http_listen[64];   /* PANDO_EDGE_HTTP_LISTEN, or "none" */
	char dns_listen[64];         /* PANDO_DNS_LISTEN, or "none" */
	char dns_name[128];          /* PANDO_DNS_NAME; "": ns.<domain> */
	char alias_names[1024];      /* PANDO_ALIAS_NAMES: patterns separated by spaces */
	char port_range[16];         /* PANDO_PORT_RANGE */
	char port_listen[64];        /* PANDO_PORT_LISTEN */
	uint32_t port_idle_s;        /* PANDO_PORT_IDLE_S */
	uint32_t deployments;        /* PANDO_DEPLOYMENTS */
	uint32_t deploy_instances;   /* PANDO_DEPLOY_INSTANCES */
	uint32_t account_instances;  /* PANDO_DEPLOY_ACCOUNT_INSTANCES */
	uint32_t deploy_requests;    /* PANDO_DEPLOY_REQUESTS */
	uint32_t deploy_idle_s;      /* PANDO_DEPLOY_IDLE_S */
	uint32_t edge_wait_s;        /* PANDO_EDGE_WAIT_S */
	uint32_t edge_answer_s;      /* PANDO_EDGE_ANSWER_S */
	uint32_t edge_stall_s;       /* PANDO_EDGE_STALL_S */
	uint32_t edge_idle_s;        /* PANDO_EDGE_IDLE_S */
	uint32_t edge_addr_conns;    /* PANDO_EDGE_ADDR_CONNS */
	uint32_t edge_addr_requests; /* PANDO_EDGE_ADDR_REQUESTS */
	uint32_t edge_fd_reserve;    /* PANDO_EDGE_FD_RESERVE */
	uint32_t edge_mem_mb;        /* PANDO_EDGE_MEM_MB; 0: no limit */
	uint32_t edge_hsts_s;        /* PANDO_EDGE_HSTS_S */
	char tls_cert[256];          /* PANDO_TLS_CERT; "": none */
	char tls_key[256];           /* PANDO_TLS_KEY */
	char public_address[128];    /* PANDO_PUBLIC_ADDRESS; "": found */
	char acme_url[256];          /* PANDO_ACME_URL; "": no ACME */
	char acme_email[128];        /* PANDO_ACME_EMAIL */
	char acme_dns_hook[256];     /* PANDO_ACME_DNS_HOOK; "": no wildcards by ACME */
	uint32_t acme_renew_days;    /* PANDO_ACME_RENEW_DAYS */
	char github_url[256];        /* PANDO_GITHUB_URL */
	uint32_t sync_poll_s;        /* PANDO_SYNC_POLL_S */
	uint32_t webhook_private;    /* PANDO_WEBHOOK_ALLOW_PRIVATE */
	uint32_t webhook_retry_s;    /* PANDO_WEBHOOK_RETRY_S */
	uint32_t trigger_timeout_s;  /* PANDO_TRIGGER_TIMEOUT_S */
	bool self_check;             /* --self-check */
};

struct conf_size {
	uint32_t vcpus, mem_mb;
};
/* The sizes in PANDO_SIZES, which is checked already; their number. */
int conf_sizes(const struct conf *c, struct conf_size ret[CONF_SIZES_MAX]);

/* Defaults, then pando.conf (PANDO_CONF or <data>/pando.conf), then the environment, then argv. 1:
 * help or version was printed. */
int conf_load(struct conf *c, int argc, char **argv, struct err *err);
void conf_help(FILE *f);
