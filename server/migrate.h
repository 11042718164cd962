/* SPDX-License-Identifier: Apache-2.0 */
/* migrate.h - "pandod migrate": rows of a data directory to PostgreSQL and back; for main */
#pragma once

/* The whole program: its exit status. argv[0] is "migrate". */
int migrate_main(int argc, char **argv);
