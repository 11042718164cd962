# SPDX-License-Identifier: Apache-2.0
"""Names that lead to ports of VMs: TLS, HTTP/1.1 and HTTP/2, bodies, WebSockets, waking, pages that explain, hostile clients"""
import base64
import os
import subprocess
import threading
import time

from case import Case, limit, wait_for
from edge_checks import Checks, Edge, read_until_closed, status_of

APP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "edge_app.py")
PORT = 8000


class EdgeBase(Case):
    limit_s = 240

    @classmethod
    def start_app(cls, vm, port=PORT):
        with open(APP, "rb") as f:
            body = {"content": base64.b64encode(f.read()).decode(), "encoding": "base64"}
        cls.s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fedge_app.py", body)
        cls.s.sh(vm, f"setsid python3 /root/edge_app.py {port} </dev/null >/root/app-{port}.log 2>&1 & "
                     f"timeout 60 sh -c 'until [ -s /root/app-{port}.log ]; do sleep 0.1; done'", timeout_ms=90000)

    @classmethod
    def map(cls, domain, vm, port=PORT):
        return cls.s.api("POST", f"/domains/v1/mappings/{domain}", {"domain": domain, "vmId": vm, "vmPort": port})

    @classmethod
    def use_edge(cls):
        cls.tls_port, cls.http_port = cls.s.edge_port, cls.s.edge_http_port
        cls.ca = os.path.join(cls.s.dir, "certs/ca.crt")
        cls.e = Edge(cls.tls_port, cls.http_port, cls.ca)


class Edges(Checks, EdgeBase):
    host = "app.pando.localhost"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.use_edge()
        cls.vm = cls.s.create()
        cls.start_app(cls.vm)
        cls.map(cls.host, cls.vm)
