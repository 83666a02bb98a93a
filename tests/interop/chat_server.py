"""A real HTTP server that answers chat completions, or fails in ways that servers do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[int, dict[str, Any]], str]
"""What to say to the n-th question, from 0, with this body: a word of `FAILURES`, or the answer."""
WAIT = "<wait>"
FAILURES = {
    "<429>": (429, {"Retry-After": "0.3"}, '{"error": {"message": "slow down"}}'),
    "<500>": (500, {}, '{"error": {"message": "oops"}}'),
    "<401>": (401, {}, '{"error": {"message": "wrong key: a-secret-key"}}'),
    "<400>": (400, {}, '{"error": {"message": "prompt too long"}}'),
    "<later>": (429, {"Retry-After": "86400"}, '{"error": {"message": "no credit"}}'),
}


class ChatServer(ThreadingHTTPServer):
    """Answers questions, and keeps them with the time at which they came."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.questions: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.open = self.most_open = 0
        self.lock = threading.Lock()
        self.released = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no failure of a test."""

    def close(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.questions)
            server.questions.append(body)
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.times.append(time.monotonic())
            server.open += 1
            server.most_open = max(server.most_open, server.open)
        try:
            self._say(server.answer(number, body))
        finally:
            with server.lock:
                server.open -= 1

    def _say(self, answer: str) -> None:
        if answer == WAIT:
            self.server.released.wait(60)
            return
        if answer in FAILURES:
            status, headers, text = FAILURES[answer]
            self._head(status, {**headers, "Content-Type": "application/json", "Content-Length": str(len(text))})
            self.wfile.write(text.encode())
            return
        self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        if answer == "<garbage>":
            self._send("data: {not json\n\n")
        elif answer == "<broken>":
            self._event({"content": "half of an ans"})
            self.close_connection = True
            return
        elif answer == "<no end>":
            self._event({"content": "half of an ans"})
        else:
            middle = len(answer) // 2
            self._event({"role": "assistant", "content": None, "reasoning_content": "It doubles."})
            self._event({"content": answer[:middle]})
            self._event({"content": answer[middle:]}, finish="stop")
            self._send('data: {"id": "x", "choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}\n\n')
        self._send("data: [DONE]\n\n")
        self._send("")

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _event(self, delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self._send(f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n")

    def _send(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *arguments: Any) -> None:
        """Tests print nothing."""
