"""The witness's answers over HTTP, for probes and a metrics scraper: three pages, read only.

What they say is `witness.health`.

1. `/health`: 200 with `{"ok": true, ...}`, or 503 with the faults. `/live`: 200 while the process
   answers at all; for whoever would restart it. `/metrics`: Prometheus text.
2. It listens on the loopback unless told otherwise, and answers nothing else.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from witness.health import Health
from witness.trouble import Reason, Trouble

REQUEST_SECONDS = 5.0


def serve(health: Health, *, port: int, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Answer on `host:port` (0: any free port) in a thread until `shutdown`. Raises Trouble."""
    try:
        server = ThreadingHTTPServer((host, port), _handler(health))
    except OSError as error:
        todo = "choose another port"
        raise Trouble(Reason.BAD_INPUT, str(error), where=f"{host}:{port}", todo=todo) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="witness-web", daemon=True).start()
    return server


def _handler(health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/health":
                    report = health.report()
                    self._answer(200 if report["ok"] else 503, json.dumps(report).encode())
                case "/live":
                    self._answer(200, b'{"ok": true}')
                case "/metrics":
                    self._answer(200, generate_latest(health.registry), CONTENT_TYPE_LATEST)
                case _:
                    self._answer(404, b'{"ok": false}')

        def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes are not worth a line each."""

    return Handler
