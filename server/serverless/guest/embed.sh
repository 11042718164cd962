#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# embed.sh FILE... - C with each file as a string: build.mjs becomes deploy_build_mjs
set -eu
echo '#include "serverless/deploy_guest.h"'
for file; do
	name=$(basename "$file" | tr . _)
	echo "const char deploy_${name}[] = {"
	od -An -v -tx1 "$file" | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
	echo '0 };'
done
