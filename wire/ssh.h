/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/ssh.h - the contract between pandod (ssh/) and pando-ssh (sshmain/)
 *
 * pando-ssh speaks the SSH protocol with one client and is taken to be that client's: it can ask
 * what a client that speaks SSH can ask, in the order in which such a client may. Which account, VM
 * or repository a connection is for pandod decides at AUTH and never hears again from it.
 *
 * A SOCK_SEQPACKET socket, one message per packet, big endian: {u16 kind, u32 id} and the fields of
 * its kind in the order of enum sshw_field. pandod begins with START, and with CONNECT when there
 * is a client. Each of AUTH, SESSION, ENV, PTY, RUN, LISTEN and CANCEL is answered by one ANSWER
 * before the next; DIRECT by DIALED with its id, when it is known. The id is that of a channel:
 * pando-ssh counts up for those that its client opens, pandod sets the top bit for those that the
 * guest opens (KNOCK). LEAVE ends the connection. Descriptors travel as SCM_RIGHTS, from pandod
 * only: the client's socket with CONNECT, a channel's stream with ANSWER to RUN, with DIALED and
 * with KNOCK. Everything both ends must agree on is listed once, in SSHW_KINDS; numbers are never
 * reused.
 *
 * A stream is a SOCK_SEQPACKET socket as well: frames of one byte (enum sshw_frame) and what
 * belongs to it. Whoever closes it has closed the channel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define SSHW_VERSION 1u
#define SSHW_FD 3                     /* the socket in pando-ssh */
#define SSHW_MSG_MAX (136u << 10)     /* bytes of one packet */
#define SSHW_SNDBUF (256 << 10)       /* asked for as a buffer in pando-ssh: the largest packet */
#define SSHW_UNREAD (64 << 10)        /* likewise in pandod, whose packets are small */
#define SSHW_KEYS_MAX 4u              /* host keys */
#define SSHW_KEY_MAX (16u << 10)      /* bytes of one, as text */
#define SSHW_USER_SIZE 512            /* of a user name, with the NUL */
#define SSHW_SECRET_SIZE 256          /* of a secret */
#define SSHW_NAME_SIZE 256            /* of a variable, a terminal, a signal */
#define SSHW_VALUE_SIZE 4096          /* of a variable */
#define SSHW_HOST_SIZE 254            /* of a host */
#define SSHW_ADDR_SIZE 46             /* of a numeric address */
#define SSHW_TEXT_SIZE 512            /* of a reason */
#define SSHW_COMMAND_MAX (128u << 10) /* bytes of a command */
#define SSHW_CHANNELS_MAX 64          /* per connection, including those being opened */
#define SSHW_GUESTS_ID 0x80000000u    /* in ids of channels that the guest opens */
#define SSHW_CHUNK (32u << 10)        /* bytes of data in a frame */
#define SSHW_FRAME_MAX (1 + SSHW_CHUNK)
#define SSHW_STREAM_BYTES (64 << 10) /* asked for as a stream's buffer, each way */

enum sshw_field {
	HF_START = 1 << 0,   /* version, level of the log, host keys */
	HF_VERSION = 1 << 1, /* u32 */
	HF_OK = 1 << 2,      /* u8: 1 yes, 0 no */
	HF_LOGIN = 1 << 3,   /* user name; u8: is there a secret beside it?; the secret */
	HF_NAME = 1 << 4,    /* of a variable, a terminal, a signal */
	HF_VALUE = 1 << 5,   /* of a variable */
	HF_SIZE = 1 << 6,    /* u32 columns, u32 rows */
	HF_RUN = 1 << 7,     /* u8 enum sshw_run; a command or the name of a subsystem */
	HF_HOST = 1 << 8,    /* where to, or what is listened on */
	HF_PORT = 1 << 9,    /* u16 */
	HF_FROM = 1 << 10,   /* numeric address, u16 port */
	HF_TEXT = 1 << 11,   /* a reason, for the client */
};

enum sshw_from { SSHW_HOST = 1, SSHW_CHILD = 2 };

/* number, NAME, sender, fields */
/* clang-format off */
#define SSHW_KINDS(M)                                                   \
	M(1,  START,   SSHW_HOST,  HF_START)                            \
	M(2,  READY,   SSHW_CHILD, HF_VERSION)                          \
	M(3,  CONNECT, SSHW_HOST,  0)                                   \
	M(4,  ANSWER,  SSHW_HOST,  HF_OK | HF_PORT)                     \
	M(5,  LEAVE,   SSHW_HOST,  HF_TEXT)                             \
	M(6,  AUTH,    SSHW_CHILD, HF_LOGIN)                            \
	M(7,  SESSION, SSHW_CHILD, 0)                                   \
	M(8,  ENV,     SSHW_CHILD, HF_NAME | HF_VALUE)                  \
	M(9,  PTY,     SSHW_CHILD, HF_NAME | HF_SIZE)                   \
	M(10, RUN,     SSHW_CHILD, HF_RUN)                              \
	M(11, RESIZE,  SSHW_CHILD, HF_SIZE)                             \
	M(12, SIGNAL,  SSHW_CHILD, HF_NAME)                             \
	M(13, CLOSE,   SSHW_CHILD, 0)                                   \
	M(14, DIRECT,  SSHW_CHILD, HF_HOST | HF_PORT)                   \
	M(15, DIALED,  SSHW_HOST,  HF_OK)                               \
	M(16, LISTEN,  SSHW_CHILD, HF_HOST | HF_PORT)                   \
	M(17, CANCEL,  SSHW_CHILD, HF_HOST | HF_PORT)                   \
	M(18, KNOCK,   SSHW_HOST,  HF_HOST | HF_PORT | HF_FROM)
/* clang-format on */

#define SSHW_AS_ENUM(num, NAME, from, fields) SSHW_##NAME = (num),
enum sshw_kind { SSHW_KINDS(SSHW_AS_ENUM) SSHW_KIND_END };

enum sshw_run { SSHW_SHELL, SSHW_EXEC, SSHW_SUBSYSTEM, SSHW_RUN_END };

struct sshw_text {
	const char *p; /* weak: into the packet, or the sender's; not terminated, without a NUL */
	size_t n;
};

struct sshw_msg {
	unsigned kind; /* one of enum sshw_kind, checked by decode */
	uint32_t id;
	uint32_t version;
	uint32_t log_level;
	unsigned n_keys;
	struct sshw_text keys[SSHW_KEYS_MAX];
	bool ok;
	char user[SSHW_USER_SIZE];
	bool has_secret;
	char secret[SSHW_SECRET_SIZE];
	char name[SSHW_NAME_SIZE];
	char value[SSHW_VALUE_SIZE];
	uint32_t cols, rows;
	uint8_t run;
	struct sshw_text command;
	char host[SSHW_HOST_SIZE];
	uint16_t port;
	char from[SSHW_ADDR_SIZE];
	uint16_t from_port;
	char text[SSHW_TEXT_SIZE];
};

/* 0, -EINVAL or -E2BIG (a field out of its limits), -ENOMEM. */
int sshw_encode(const struct sshw_msg *m, struct buf *out, struct err *err);
/* Every field in its limits, no byte left over, and a kind that `from` sends; or -EBADMSG. Texts
 * point into p. Only the fields of its kind are set. */
int sshw_decode(const void *p, size_t n, enum sshw_from from, struct sshw_msg *ret,
                struct err *err);

/* Of a stream. */
enum sshw_frame_kind {
	SSHW_DATA = 1,   /* the client's input; the program's output */
	SSHW_ERR = 2,    /* pandod: output of its stderr */
	SSHW_EOF = 3,    /* no more data from here; the other direction goes on */
	SSHW_EXIT = 4,   /* pandod: the last one; u8 status */
	SSHW_KILLED = 5, /* pandod: the last one; the name of the signal */
};

struct sshw_frame {
	enum sshw_frame_kind kind;
	const uint8_t *p; /* weak: DATA, ERR */
	size_t n;
	uint8_t status;
	char name[16];
};
/* 0, or -EBADMSG: not a frame that `from` sends. */
int sshw_frame_decode(const uint8_t *p, size_t n, enum sshw_from from, struct sshw_frame *ret);
