"""A process that serves S3 over HTTP on a port of this machine: moto's server.

    python s3_server.py PORT [UPLOADS]

With UPLOADS, it kills itself (SIGKILL) in the middle of the upload after so many.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    def log(self, *args: Any, **kwargs: Any) -> None:
        """Say nothing of requests."""


def main() -> None:
    port = int(sys.argv[1])
    survived = int(sys.argv[2]) if len(sys.argv) > 2 else None
    application = DomainDispatcherApplication(create_backend_app)
    counted = threading.Lock()
    uploads = 0

    def served(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        nonlocal uploads
        if survived is not None and environ["REQUEST_METHOD"] == "PUT" and "/files/" in environ["PATH_INFO"]:
            with counted:
                uploads += 1
                if uploads > survived:
                    environ["wsgi.input"].read(1)
                    os.kill(os.getpid(), signal.SIGKILL)
        answer: Iterable[bytes] = application(environ, start)
        return answer

    server = make_server("127.0.0.1", port, served, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
