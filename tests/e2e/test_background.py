# SPDX-License-Identifier: Apache-2.0
"""Requests that outlive their connection, and the server that runs them; logs of what happened"""
import http.client
import json

from case import Case, limit, wait_for

AFTER = "x-freestyle-background-after-secs"


class Background(Case):
    server_env = {"PANDO_POOL": "0"}

    def begin(self, body=None):
        """POST /v1/vms that goes to the background at once; its id."""
        status, r = self.s.request("POST", "/v1/vms", body or {}, headers={AFTER: "0"})
        self.assertEqual(status, 202, r)
        self.assertRegex(r["requestId"], r"^ri-[a-z0-9]{20}$")
        return r["requestId"]

    def result(self, request):
        def ended():
            try:
                status, r = self.s.request("GET", f"/auth/v1/background-requests/{request}")
            except (OSError, http.client.HTTPException):
                return None  # pandod is about to be started again
            return None if status == 202 else (status, r)
        return wait_for(f"the end of {request}", ended, 80)

    def logs(self, **query):
        q = "&".join(f"{k}={v}" for k, v in query.items())
        return self.s.api("GET", f"/observability/v1/logs?{q}")["logs"]

    @limit(120)
    def test_goes_on_and_ends(self):
        request = self.begin()
        status, r = self.result(request)
        self.assertEqual(status, 200, r)
        self.assertEqual(self.s.sh(r["id"], "echo hi"), "hi")
        texts = [line["message"] for line in self.logs(requestId=request)]
        self.assertTrue(any("created" in t for t in texts), texts)
        self.s.delete(r["id"])
        self.assertIn("deleted", [line["message"] for line in self.logs(vmId=r["id"])])

    @limit(180)
    def test_server_killed_in_the_middle(self):
        """No client may poll for ever: after a crash the id still has a result or an error code."""
        request = self.begin({"idleTimeoutSeconds": None})
        self.s.kill9_pandod()
        status, r = self.result(request)
        if status != 200:  # else it was quicker than the signal
            self.assertEqual((status, r["code"]), (503, "UNAVAILABLE"), r)
            self.assertIn("restarted", r["message"])
        for vm in self.s.vms():
            self.s.delete(vm)

    @limit(120)
    def test_repeated_after_a_restart(self):
        """An Idempotency-Key outlives the server: no second VM."""
        head = {"Idempotency-Key": "once"}
        _, first = self.s.request("POST", "/v1/vms", {}, headers=head)
        self.s.restart()
        status, again = self.s.request("POST", "/v1/vms", {}, headers=head)
        self.assertEqual((status, json.dumps(again)), (200, json.dumps(first)))
        self.assertEqual(list(self.s.vms()), [first["id"]])
        self.s.delete(first["id"])
