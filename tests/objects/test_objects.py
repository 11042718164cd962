# SPDX-License-Identifier: Apache-2.0
"""test_objects.py [--ceph] PROGRAM: the client's tests against radosgw, which is started here; what test_objects.c needs is made first

--ceph: the large one, with monitor and OSD, instead of the one with SQLite (rgw.py).
"""
import os
import subprocess
import sys

import rgw

with (rgw.Ceph if sys.argv[1] == "--ceph" else rgw.Server)() as server:
    for bucket in ("one", "two", "full", "many"):
        server.bucket(bucket)
    server.curl("PUT", "/full/theirs", b"not ours")
    done = subprocess.run([sys.argv[-1]], env={**os.environ, "PANDO_TEST_S3": server.endpoint})
sys.exit(done.returncode)
