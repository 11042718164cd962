#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scripted_model.py PORT - a model server for agents' programs in a guest: it speaks two vendors' protocols, and follows one script

A request that offers tools and has no result of one yet is answered with a call: of the first offered tool that runs commands (SHELLS), with the command
that the prompt has after "RUN:". The next one, which has the result, is answered with its text. Everything else (titles, summaries) is "ok". What was asked is
written to /root/model.log, one JSON object a line, so that a test can see that the agent sent key, prompt and result.
"""
import http.server
import json
import re
import sys
import threading

SHELLS = ("Bash", "bash", "shell", "exec", "exec_command", "run_command")
lock = threading.Lock()


def texts(x):
    """All strings under "text", "content", "output" and "input_text" of a message, in order."""
    if isinstance(x, str):
        return [x]
    if isinstance(x, list):
        return [t for i in x for t in texts(i)]
    if isinstance(x, dict):
        return [t for k in ("text", "content", "output") if k in x for t in texts(x[k])]
    return []


def is_result(m):
    """A message that brings what a tool said."""
    parts = m.get("content")
    return (m.get("role") == "tool" or m.get("type") == "function_call_output"
            or isinstance(parts, list) and any(isinstance(p, dict) and p.get("type") == "tool_result" for p in parts))


def next_step(body, messages):
    """("call", tool, command), or ("say", text)."""
    tools = {t.get("name") or (t.get("function") or {}).get("name") for t in body.get("tools") or ()}
    shell = next((name for name in SHELLS if name in tools), None)
    results = [m for m in messages if is_result(m)]
    if results:
        return "say", "The command said: " + " ".join(texts(results[-1])).strip()
    wanted = re.findall(r"RUN:\s*([^\n\"<]+)", "\n".join(t for m in messages for t in texts(m)))
    if shell and wanted:
        return "call", shell, wanted[-1].strip()
    return "say", "ok"


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def events(self, events, named=True):
        data = "".join((f"event: {e['type']}\n" if named else "") + f"data: {json.dumps(e)}\n\n" for e in events)
        data = (data + ("" if named else "data: [DONE]\n\n")).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self):
        self.answer({})

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "test"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = self.path.split("?")[0]
        messages = body.get("messages") or body.get("input") or []
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        step = next_step(body, messages)
        with lock, open("/root/model.log", "a") as f:
            print(json.dumps({"path": path, "key": self.headers.get("x-api-key") or self.headers.get("authorization"), "model": body.get("model"),
                              "step": step, "prompt": "\n".join(t for m in messages for t in texts(m))[-4000:]}), file=f)
        stream = bool(body.get("stream"))
        if path.endswith("/count_tokens"):
            self.answer({"input_tokens": 1})
        elif path.endswith("/messages"):
            self.say_messages(body, step, stream)
        elif path.endswith("/chat/completions"):
            self.say_chat(body, step, stream)
        elif path.endswith("/responses"):
            self.say_responses(body, step, stream)
        else:
            self.answer({})

    def say_messages(self, body, step, stream):
        """/v1/messages."""
        if step[0] == "call":
            block = {"type": "tool_use", "id": "toolu_1", "name": step[1], "input": {"command": step[2], "description": "as asked"}}
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            block = {"type": "text", "text": step[1]}
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": step[1]}
        why = "tool_use" if step[0] == "call" else "end_turn"
        m = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [block], "stop_reason": why,
             "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if not stream:
            return self.answer(m)
        return self.events([{"type": "message_start", "message": {**m, "content": [], "stop_reason": None}},
                            {"type": "content_block_start", "index": 0, "content_block": empty},
                            {"type": "content_block_delta", "index": 0, "delta": delta}, {"type": "content_block_stop", "index": 0},
                            {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": {"output_tokens": 1}},
                            {"type": "message_stop"}])

    def say_chat(self, body, step, stream):
        """OpenAI's older protocol."""
        if step[0] == "call":
            said = {"role": "assistant", "content": None, "tool_calls": [
                {"index": 0, "id": "call_1", "type": "function",
                 "function": {"name": step[1], "arguments": json.dumps({"command": step[2], "description": "as asked"})}}]}
        else:
            said = {"role": "assistant", "content": step[1]}
        why = "tool_calls" if step[0] == "call" else "stop"
        base = {"id": "chatcmpl-1", "created": 0, "model": body.get("model")}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not stream:
            return self.answer({**base, "object": "chat.completion", "usage": usage, "choices": [{"index": 0, "message": said, "finish_reason": why}]})
        base["object"] = "chat.completion.chunk"
        return self.events([{**base, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
                            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
                            {**base, "choices": [], "usage": usage}], named=False)

    def say_responses(self, body, step, stream):
        """OpenAI's newer protocol."""
        if step[0] == "call":
            item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": step[1], "status": "completed",
                    "arguments": json.dumps({"command": step[2]})}
        else:
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": step[1], "annotations": []}]}
        whole = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": body.get("model"), "output": [item],
                 "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0},
                           "output_tokens_details": {"reasoning_tokens": 0}}}
        if not stream:
            return self.answer(whole)
        events = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}]
        if step[0] == "call":
            events += [{"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": "", "status": "in_progress"}},
                       {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": item["arguments"]},
                       {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": item["arguments"]}]
        else:
            part = {"type": "output_text", "text": "", "annotations": []}
            where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            events += [{"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": [], "status": "in_progress"}},
                       {"type": "response.content_part.added", **where, "part": part},
                       {"type": "response.output_text.delta", **where, "delta": step[1]},
                       {"type": "response.output_text.done", **where, "text": step[1]},
                       {"type": "response.content_part.done", **where, "part": {**part, "text": step[1]}}]
        events += [{"type": "response.output_item.done", "output_index": 0, "item": item}, {"type": "response.completed", "response": whole}]
        return self.events([{**e, "sequence_number": n} for n, e in enumerate(events)])


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model)
    server.daemon_threads = True
    server.serve_forever()
