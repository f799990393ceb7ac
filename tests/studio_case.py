"""A table, a model of it, and a proxy that writes down what Label Studio and a backend say."""

import http.client
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from dm2l.tables import FitOptions, fit_table, read_table, save_bundle
from half_labelled import as_csv, make_table, spell

TOKEN = "recorded-token-of-the-tests"


def make_case(folder):
    """Write ``tickets.csv`` and ``tickets.dm2l``; returns the complete labels."""
    columns, truth, observed = make_table(120, blank=0.5)
    path = folder / "tickets.csv"
    path.write_bytes(as_csv(columns, spell(truth, observed, "Yes", "No")).encode())
    table = read_table(path, "topic_*")
    model = fit_table(table, FitOptions("linear", 0.1, 0.3, cv=3), estimate_folds=0)
    save_bundle(model, folder / "tickets.dm2l")
    return truth


class Recorder(ThreadingHTTPServer):
    """Passes requests on to a port and keeps them, with the replies."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Recording)
        self.target, self.exchanges = None, []
        self.thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()


class _Recording(BaseHTTPRequestHandler):
    def do_GET(self):
        self._pass_on(b"")

    def do_POST(self):
        self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

    def _pass_on(self, content):
        headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=60)
        try:
            connection.request(self.command, self.path, content, headers)
            reply = connection.getresponse()
            status, body = reply.status, reply.read()
        except OSError:  # nobody is there
            status, body = 502, b"{}"
        finally:
            connection.close()
        kept = {k: v for k, v in headers.items() if k in ("Content-Type", "Authorization")}
        body_sent = json.loads(content) if content else None
        said = json.loads(body) if body.startswith(b"{") else None
        self.server.exchanges.append(
            {
                "method": self.command,
                "path": self.path,
                "headers": kept,
                "body": body_sent,
                "status": status,
                "reply": said,
            }
        )
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""
