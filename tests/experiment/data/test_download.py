"""Downloads from a real server on this machine: whole and right, or no file and an error that says why."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.download import download
from edgefl.experiment.data.published import Download

CONTENT = b"0123456789" * 50_000
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(BaseHTTPRequestHandler):
    """/whole.bin sends CONTENT, /short.bin closes after half of what it announces, anything else is absent."""

    def do_GET(self) -> None:
        if self.path not in ("/whole.bin", "/short.bin"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/whole.bin" else CONTENT[: len(CONTENT) // 2])

    def log_message(self, *arguments: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("digest", [MD5, SHA256])
def test_whole_file_arrives_under_its_name(url: str, tmp_path: Path, digest: str) -> None:
    path = download(Download(f"{url}/whole.bin", digest), tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "whole.bin" and path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["whole.bin"]


@pytest.mark.parametrize(
    ("file", "digest", "message"),
    [
        ("whole.bin", "md5:" + "0" * 32, f"{MD5} after the download; expected md5:0000"),
        ("short.bin", MD5, "250000 bytes arrived; expected 500000"),
        ("absent.bin", MD5, "HTTP status 404; expected the file"),
    ],
)
def test_failed_download_leaves_nothing(url: str, tmp_path: Path, file: str, digest: str, message: str) -> None:
    with pytest.raises(DataError, match=f"{url}/{file}: {message}"):
        download(Download(f"{url}/{file}", digest), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_failed_download_keeps_what_was_there(url: str, tmp_path: Path) -> None:
    (tmp_path / "short.bin").write_bytes(b"older")
    with pytest.raises(DataError):
        download(Download(f"{url}/short.bin", MD5), tmp_path)
    assert (tmp_path / "short.bin").read_bytes() == b"older"


def test_no_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:9/x\.bin: .*refused.*; expected the file"):
        download(Download("http://127.0.0.1:9/x.bin", MD5), tmp_path)


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="file/below: cannot be written"):
        download(Download("http://127.0.0.1:9/x.bin", MD5), tmp_path / "file" / "below")
