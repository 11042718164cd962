# SPDX-License-Identifier: Apache-2.0
"""case_clients.py - the unmodified npm package, through a node that has none of its VMs"""
import os
import subprocess
import threading

import node as npm
from cluster import TESTS, wait_for
from table import case

SDK = os.path.join(TESTS, "sdk")
FILES = ["vm.test.mjs", "life.test.mjs", "identity.test.mjs"]


@case(900)
def sdk_through_another_node(c):
    """tests/sdk, a few files, through a node that is drained: all VMs are made and run elsewhere."""
    one, _, three = c.nodes
    assert os.path.isdir(os.path.join(SDK, "node_modules")), "npm ci has not run: use make test-cluster"
    one.api("POST", "/v1/cluster/nodes/three/drain", {})
    wait_for("it is drained", lambda: [n["draining"] for n in one.api("GET", "/v1/cluster")["nodes"] if n["name"] == "three"] == [True], 30)
    owners, over = set(), threading.Event()

    def look():
        while not over.wait(0.5):
            owners.update(c.db.sql("SELECT DISTINCT nodes.name FROM vms JOIN nodes ON vms.node = nodes.id").split())
    watch = threading.Thread(target=look)
    watch.start()
    log = os.path.join(os.path.dirname(TESTS), "build-logs", "cluster-sdk-tap.log")
    try:
        with open(log, "w") as out:
            p = subprocess.Popen(["node", "--test", "--test-reporter=tap", "--test-concurrency=1", *FILES], cwd=SDK, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env={
                                     **os.environ, "FREESTYLE_API_URL": f"http://{three.at}:{three.port}", "FREESTYLE_API_KEY": three.key(),
                                     "NODE_OPTIONS": "--experimental-websocket", "PANDO_EDGE_HTTP_PORT": str(three.edge_http_port)})
            try:
                code = p.wait(2400)
            finally:
                npm.end(p)
    finally:
        over.set()
        watch.join()
        one.api("POST", "/v1/cluster/nodes/three/drain", {"drain": False})
    with open(log) as f:
        text = f.read()
    leaves = npm.leaf_results(text)
    failed = [name for name, ok, _ in leaves if not ok]
    assert code == 0 and leaves and not failed, f"exit code {code}, failed: {failed}\n{text[-4000:]}"
    assert owners and "three" not in owners, f"VMs ran on {owners}"
    one.delete_all()
    c.settled()
    return f"{len(leaves)} tests"
