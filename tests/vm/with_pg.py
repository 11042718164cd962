# SPDX-License-Identifier: Apache-2.0
"""with_pg.py PROGRAM [ARGUMENT...] - runs a test program with a PostgreSQL server of its own"""
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit"))
import pg  # noqa: E402

with pg.Server() as server:
    env = {**os.environ, "PANDO_TEST_DATABASE": server.url(), "PANDO_TEST_PG_SOCKET": server.dir}
    sys.exit(subprocess.run(sys.argv[1:], env=env).returncode)
