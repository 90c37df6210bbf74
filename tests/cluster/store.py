"""An S3 server on the loopback address, behind a gate that counts what goes through and can be closed."""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress


class Gate:
    """Passes connections on to a server, counts the bytes that come back, and closes where it is told to."""

    def __init__(self, port):
        self.behind, self.sent, self.open = port, 0, True
        self.limit, self.closed = None, threading.Event()
        self.lock, self.live = threading.Lock(), set()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close_gate(self):
        """Let nobody through, and cut off those who are on their way."""
        with self.lock:
            self.open, self.limit = False, None
            live = list(self.live)
        for one in live:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.closed.set()

    def close_after(self, sent):
        """Close when so many bytes more have come back, whatever else the machine is doing."""
        with self.lock:
            self.closed.clear()
            self.limit = self.sent + sent

    def reopen(self):
        """Let everybody through again."""
        with self.lock:
            self.open, self.limit = True, None

    def _accept(self):
        with suppress(OSError):
            while True:
                near = self.socket.accept()[0]
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        with near, socket.create_connection(("127.0.0.1", self.behind)) as far:
            with self.lock:
                if not self.open:
                    return
                self.live |= {near, far}
            asking = threading.Thread(target=self._pass, args=(near, far, False), daemon=True)
            asking.start()
            self._pass(far, near, True)
            asking.join()
            with self.lock:
                self.live -= {near, far}

    def _pass(self, source, sink, counted):
        with suppress(OSError):
            while content := source.recv(1 << 16):
                if counted:
                    with self.lock:
                        self.sent += len(content)
                        enough = self.limit is not None and self.sent >= self.limit
                    if enough:
                        self.close_gate()
                sink.sendall(content)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Store:
    """The server, its gate, and what a client needs to know."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.1)
        else:
            raise RuntimeError("the S3 server did not come up")
        self.gate = Gate(port)
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.gate.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, path, name):
        """Upload a file to the bucket `rows`."""
        from pyarrow import fs

        key = self.environment
        system = fs.S3FileSystem(
            access_key=key["AWS_ACCESS_KEY_ID"], secret_key=key["AWS_SECRET_ACCESS_KEY"],
            region=key["AWS_REGION"], endpoint_override=key["AWS_ENDPOINT_URL"], allow_bucket_creation=True,
        )  # fmt: skip
        system.create_dir("rows")
        with open(path, "rb") as source, system.open_output_stream(f"rows/{name}") as sink:
            sink.write(source.read())

    def close(self):
        """End the server."""
        self.gate.close_gate()
        self.gate.socket.close()
        self.process.terminate()
        self.process.wait()

    def process_environment(self, **more):
        """Return the environment of a process that uses the store."""
        return os.environ | self.environment | more
