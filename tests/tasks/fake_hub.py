"""A data set hub on this machine, from files in memory, and commands in a process of their own that ask it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow
import pyarrow.parquet

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """Its data sets by id, each with files by path; every one has the branch main, at one commit."""

    files: dict[str, dict[str, bytes]]
    gated: frozenset[str] = frozenset()
    url: str = ""
    requests: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of a request."""
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        api = parts[0] == "api"
        parts = parts[1:] if api else parts
        if parts[0] != "datasets" or len(parts) < 3:
            return 404, {}, b""
        name, rest = "/".join(parts[1:3]), parts[3:]
        if name not in self.files:
            return 401, {"X-Error-Code": "RepoNotFound"}, b""
        revision = rest[1] if len(rest) > 1 else "main"
        if revision not in ("main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if api:
            return self._api(name, rest)
        if name in self.gated:
            return 403, {"X-Error-Code": "GatedRepo"}, b""
        content = self.files[name].get("/".join(rest[2:]))
        if content is None:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
        sha = hashlib.sha256(content).hexdigest()
        return 200, {"ETag": f'"{sha}"', "X-Repo-Commit": COMMIT, "Content-Type": "application/octet-stream"}, content

    def _api(self, name: str, rest: list[str]) -> tuple[int, dict[str, str], bytes]:
        files = self.files[name]
        if not rest or rest[0] == "revision":
            body: Any = {"id": name, "sha": COMMIT, "private": False, "gated": False, "disabled": False,
                         "tags": [], "siblings": [{"rfilename": path} for path in files]}  # fmt: skip
        elif rest[0] in ("tree", "paths-info"):
            under = "/".join(rest[2:])
            body = _tree({path: content for path, content in files.items() if path.startswith(under)})
        else:
            return 404, {}, b""
        return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


def _tree(files: dict[str, bytes]) -> list[dict[str, Any]]:
    folders = sorted({path.rpartition("/")[0] for path in files} - {""})
    rows: list[dict[str, Any]] = [
        {"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(path.encode()).hexdigest()}
        for path in folders
    ]
    for path, content in files.items():
        rows.append({"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()})
    return rows


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """Serve the hub on a port of this machine while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            status, headers, body = hub.answer(self.command, self.path)
            hub.requests.append(f"{self.command} {self.path} {status}")
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer, row_group_size=7)
    return buffer.getvalue()


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@dataclass(frozen=True)
class Done:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    error: str


_COMMANDS = """
import contextlib, io, json, sys
from onelayer.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["onelayer", *command.split()]
    out, error, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    print(json.dumps([code, out.getvalue(), error.getvalue()]), flush=True)
"""


def run(*commands: str, hub: FakeHub | None = None, **environment: str) -> list[Done]:
    """Commands in one process of their own, for which the hub is ours, or nowhere."""
    found = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    found |= {"HF_HOME": str(Path("hf").absolute()), "HF_ENDPOINT": hub.url if hub else "http://127.0.0.1:9"}
    process = subprocess.run(
        [sys.executable, "-c", _COMMANDS, json.dumps(commands)],
        env=found | {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return [Done(*json.loads(line)) for line in process.stdout.splitlines()]
