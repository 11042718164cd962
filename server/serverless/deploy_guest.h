/* SPDX-License-Identifier: Apache-2.0 */
/* serverless/deploy_guest.h - the programs of guest/, as they are written into a deployment's VM */
#pragma once

extern const char deploy_build_mjs[], deploy_check_mjs[], deploy_hook_mjs[], deploy_random_mjs[],
        deploy_run_mjs[];
