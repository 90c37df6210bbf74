"""A server of files that can do all that servers do wrong."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Files by name, and how they are served."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    tags: bool = True
    dates: bool = False
    length: bool = True  # otherwise in chunks, without a length
    token: str | None = None  # that the query must have
    failures: list[int] = field(default_factory=list)  # codes of the next answers
    every: int = 0  # each n-th answer is a 503
    shifted: bool = False  # whether parts are from the front, whatever was asked for
    short: int = 0  # so many answers end before their time
    pause: float = 0.0  # seconds before every two bytes of a body
    stuck: bool = False  # whether bodies never come
    change_after: int | None = (
        None  # number of requests after which the content is another, of the same length
    )
    requests: int = 0
    address: str = ""

    def content(self, name: str) -> tuple[bytes, str]:
        content, version = self.files[name], "1"
        if self.change_after is not None and self.requests > self.change_after:
            middle = len(content) // 2
            content, version = content[:middle] + bytes(len(content) - middle), "2"
        return content, version


@contextmanager
def serve(site: Site):
    """Serve a site while the context lasts; its address is in `site.address`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *given):
            pass

        def do_GET(self):
            self.close_connection = True
            site.requests += 1
            path, _, query = self.path.partition("?")
            if site.failures:
                self.send_error(site.failures.pop(0))
            elif site.every and site.requests % site.every == 0:
                self.send_error(503)
            elif site.token is not None and f"token={site.token}" not in query:
                self.send_error(403)
            elif path.lstrip("/") not in site.files:
                self.send_error(404)
            else:
                self.send_content(*site.content(path.lstrip("/")))

        def send_content(self, content, version):
            first, last = 0, len(content) - 1
            asked = self.headers.get("Range") if site.ranges else None
            if asked:
                begin, _, end = asked.removeprefix("bytes=").partition("-")
                first, last = int(begin), min(int(end or last), last)
                if site.shifted:
                    first, last = 0, last - first
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            if site.tags:
                self.send_header("ETag", f'"{version}"')
            if site.dates:
                self.send_header("Last-Modified", f"Tue, 17 Nov 2026 00:00:0{version} GMT")
            body = content[first : last + 1]
            if site.length:
                self.send_header("Content-Length", str(len(body)))
            else:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if len(body) > 1 and site.short:
                site.short -= 1
                body = body[: len(body) // 2]
            if not site.length:
                body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            self.send_body(body)

        def send_body(self, body):
            try:
                while site.stuck:
                    time.sleep(0.05)
                if not site.pause:
                    self.wfile.write(body)
                    return
                for at in range(0, len(body), 2):
                    time.sleep(site.pause)
                    self.wfile.write(body[at : at + 2])
            except OSError:
                pass  # who asked has gone

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.stuck, site.pause = False, 0.0
        server.shutdown()
        server.server_close()
        thread.join()
