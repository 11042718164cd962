/* SPDX-License-Identifier: Apache-2.0 */
/* base/banned.h - included in every source file; uses of these functions do not compile */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok atoi atol system
