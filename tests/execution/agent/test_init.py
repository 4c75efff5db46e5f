"""The forwarder of an agent's sandbox: whoever reads nothing, or never hangs up, keeps nobody else
from the Host."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from evopolicy.execution.agent import init as agent_init

LARGE = b"x" * (16 << 20)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Path]:
    """A Host that answers the first byte `l` with more than any socket holds, any other with
    itself, and hangs up."""
    path = tmp_path / "proxy"

    def serve(link: socket.socket) -> None:
        with link:
            try:
                asked = link.recv(1)
                link.sendall(LARGE if asked == b"l" else asked)
            except OSError:
                pass

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(100)

        def accept() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(link,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "asked", [b"l", b"s"], ids=["reads nothing of an answer", "never hangs up"]
)
def test_an_agent_that_keeps_every_connection_keeps_none_for_ever(
    proxy: Path, monkeypatch: pytest.MonkeyPatch, asked: bytes
) -> None:
    monkeypatch.setattr(agent_init, "SEND_SECONDS", 1)
    monkeypatch.setattr(agent_init, "LAST_SECONDS", 0.5)
    with socket.socket(socket.AF_INET) as listener, ExitStack() as kept:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        threading.Thread(
            target=agent_init._forward, args=(listener, str(proxy)), daemon=True
        ).start()
        for _ in range(agent_init.CONNECTIONS):
            held = kept.enter_context(socket.create_connection(listener.getsockname()))
            held.sendall(asked)
        with socket.create_connection(listener.getsockname(), timeout=150) as link:
            link.sendall(b"s")
            assert link.recv(10) == b"s"


def test_an_answer_that_no_socket_holds_arrives_whole(proxy: Path) -> None:
    with socket.socket(socket.AF_INET) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        threading.Thread(
            target=agent_init._forward, args=(listener, str(proxy)), daemon=True
        ).start()
        with socket.create_connection(listener.getsockname(), timeout=150) as link:
            link.sendall(b"l")
            total = 0
            while part := link.recv(1 << 20):
                total += len(part)
        assert total == len(LARGE)
