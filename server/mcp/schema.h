/* SPDX-License-Identifier: Apache-2.0 */
/* mcp/schema.h - pieces of the JSON schemas of tools; for mcp/tools*.c only */
#pragma once

/* clang-format off */
#define OBJECT(required, members) \
	"{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]," \
	"\"additionalProperties\":false}"
#define RESULT(required, members) /* may have further members */ \
	"{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]}"
#define STRING(name, text) "\"" name "\":{\"type\":\"string\",\"description\":\"" text "\"}"
#define ENUM(name, values, text) \
	"\"" name "\":{\"type\":\"string\",\"enum\":[" values "],\"description\":\"" text "\"}"
#define BOOL(name, text) "\"" name "\":{\"type\":\"boolean\",\"description\":\"" text "\"}"
#define INTEGER(name, min, max, text) \
	"\"" name "\":{\"type\":\"integer\",\"minimum\":" min ",\"maximum\":" max ",\"description\":\"" text "\"}"
#define OBJECT_OF(name, text) "\"" name "\":{\"type\":\"object\",\"description\":\"" text "\"}"
#define LIST_OF(name, text, type) \
	"\"" name "\":{\"type\":\"array\",\"items\":{\"type\":\"" type "\"},\"description\":\"" text "\"}"
#define NUMBER(name) "\"" name "\":{\"type\":\"integer\"}"
#define TEXT(name) "\"" name "\":{\"type\":\"string\"}"
#define TEXT_OR_NULL(name) "\"" name "\":{\"type\":[\"string\",\"null\"]}"
#define VM_ID STRING("vmId", "Id of the VM")
#define USER STRING("user", "Linux user to act as; default root")
#define TIMEOUT INTEGER("timeoutMs", "1", "3600000", "Time limit in milliseconds; default 300000")
#define MAX_OUTPUT INTEGER("maxOutputBytes", "256", "4194304", \
	"Maximum bytes of stdout and of stderr to return; longer output is shortened in the middle. Default 65536")
#define ENV "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}," \
	"\"description\":\"More environment variables\"}"
#define CWD STRING("cwd", "Absolute path of the directory to run it in")
/* clang-format on */
