#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-recipe.sh SOURCE TARGET: copies the recipe of the base image, including links, for `meson install`
#
# (install_subdir() of older versions of meson follows links, and the recipe's hash tells a link from a file.)
set -eu
umask 022
to=${DESTDIR:-}$2
rm -rf "$to/image" "$to/agent"
mkdir -p "$to/agent"
cp -R --preserve=links,timestamps "$1/image" "$to/image"
cp -R "$1/agent/kernels" "$to/agent/kernels"
rm "$to/image/README.md"
