# SPDX-License-Identifier: Apache-2.0
"""schema_check.py - does a value have the form that openapi.json says? The part of JSON Schema that the document uses, and stricter:
a member that no part of the type knows is an error too. tests/unit/contract.c checks the same in C, for every reply of the unit tests."""

KINDS = {"string": str, "array": list, "object": dict, "null": type(None), "boolean": bool}


def is_kind(kind, v):
    if kind == "integer":
        return isinstance(v, int) and not isinstance(v, bool)
    if kind == "number":
        return isinstance(v, (int, float)) and not isinstance(v, bool)
    return isinstance(v, KINDS[kind])


class Schemas:
    def __init__(self, doc):
        self.doc = doc

    def at(self, ref):
        found = self.doc
        for part in ref.removeprefix("#/").split("/"):
            found = found[part]
        return found

    def members(self, s):
        """(names, whether there may be others) of an object's type"""
        if "$ref" in s:
            return self.members(self.at(s["$ref"]))
        names, more = set(s.get("properties", {})), "additionalProperties" in s
        for part in s.get("allOf", []) + s.get("anyOf", []):
            n, m = self.members(part)
            names |= n
            more |= m
        return names, more

    def wrong(self, s, v, where="reply", whole=True):
        """What is wrong with it, in words; None: nothing"""
        if not s:
            return None
        if "$ref" in s:
            return self.wrong(self.at(s["$ref"]), v, where, whole)
        if "anyOf" in s:
            all_wrong = [self.wrong(part, v, where, whole) for part in s["anyOf"]]
            return None if None in all_wrong else all_wrong[0]
        for part in s.get("allOf", []):
            if w := self.wrong(part, v, where, False):
                return w
        if "enum" in s and v not in s["enum"]:
            return f"{where} is {v!r}, none of {s['enum']}"
        kinds = s.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(is_kind(k, v) for k in kinds):
            return f"{where} is {v!r}, not {' or '.join(kinds)}"
        if isinstance(v, list) and "items" in s:
            for i, item in enumerate(v):
                if w := self.wrong(s["items"], item, f"{where}[{i}]"):
                    return w
        if isinstance(v, dict):
            return self.wrong_object(s, v, where, whole)
        return None

    def wrong_object(self, s, v, where, whole):
        for name in s.get("required", []):
            if name not in v:
                return f"{where} has no '{name}'"
        for name, member in v.items():
            t = s.get("properties", {}).get(name, s.get("additionalProperties"))
            if t is not None and (w := self.wrong(t, member, f"{where}.{name}")):
                return w
        names, more = self.members(s)
        unknown = set(v) - names
        return f"{where} has {sorted(unknown)}, which is not described" if whole and unknown and not more else None

    def route(self, method, pattern):
        return self.doc["paths"][pattern][method.lower()]

    def wrong_reply(self, method, pattern, status, body):
        said = self.route(method, pattern)["responses"].get(str(status))
        if said is None:
            return f"{method} {pattern} does not say that it answers {status}"
        if status >= 400 and body.get("code") not in said["x-codes"]:
            return f"{method} {pattern} does not say that it fails with {body.get('code')}"
        media = said.get("content", {}).get("application/json")
        w = self.wrong(media["schema"], body) if media else None
        return f"{method} {pattern}: {w}" if w else None
