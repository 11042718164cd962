/* SPDX-License-Identifier: Apache-2.0 */
/* cli/config.h - settings of `pando login` and `pando config`, and finding the server; for cli/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;

#define CONFIG_VALUE_MAX 512
#define CONFIG_DATA_DIR "/var/lib/pando"
#define CONFIG_ETC_CONF "/etc/pando/pando.conf" /* of the service that the package installs */

/* Settings by name; the table in config.c says which there are. */
enum config_name { CONFIG_URL, CONFIG_KEY, CONFIG_IMAGES, CONFIG_ESCAPE, CONFIG_MAX };
extern const char *const config_names[CONFIG_MAX];

struct config {
	char value[CONFIG_MAX][CONFIG_VALUE_MAX]; /* "" when not set */
};

/* Below XDG_CONFIG_HOME or ~/.config; -ENOENT without a home. */
int config_path(char *dst, size_t size, struct err *err);
/* ~/.local/state/pando/NAME, its directory is created; -errno. */
int config_state_path(const char *name, char *dst, size_t size, struct err *err);
/* A missing file counts as empty; lines with unknown settings are -EINVAL. */
int config_load(struct config *ret, struct err *err);
int config_save(const struct config *cf, struct err *err);
/* For tests: the text of the file. */
int config_parse(const char *text, struct config *ret, struct err *err);

/* The server and the key. */
struct target {
	char url[CONFIG_VALUE_MAX];
	char key[CONFIG_VALUE_MAX];
	char url_from[CONFIG_VALUE_MAX], key_from[CONFIG_VALUE_MAX]; /* for messages */
};
/* url and data_dir may be NULL; -ENOKEY if only the key is missing. */
int target_find(const char *url, const char *data_dir, struct target *ret, struct err *err);
/* The server alone, by the same rules. */
int target_find_url(const char *url, const char *data_dir, struct target *ret, struct err *err);
/* Without slashes at the end, with a scheme; -EINVAL. */
int target_url(const char *text, char *dst, size_t size, struct err *err);
