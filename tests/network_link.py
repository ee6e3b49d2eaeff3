"""A TCP connection between two machines, as far as a test needs one: it can be cut, and put together again."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class NetworkLink:
    """Leads from `port` to a server. `is_cut` True: every connection is broken, and no new one comes about."""

    server: tuple[str, int]
    listener: socket.socket
    _connections: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    _is_cut: bool = False

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @is_cut.setter
    def is_cut(self, value: bool) -> None:
        self._is_cut = value
        if value:
            for pair in self._connections:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
            self._connections.clear()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self._is_cut:
                    client.close()
                    continue
                threading.Thread(target=self._lead, args=(client,), daemon=True).start()

    def _lead(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self.server) as server:
            self._connections.append((client, server))
            back = threading.Thread(target=_carry, args=(server, client), daemon=True)
            back.start()
            _carry(client, server)
            back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def network_link(host: str, port: int, *, local_host: str = "127.0.0.1") -> Iterator[NetworkLink]:
    with socket.create_server((local_host, 0)) as listener:
        link = NetworkLink((host, port), listener)
        threading.Thread(target=link.serve, daemon=True).start()
        yield link
        link.is_cut = True
        listener.shutdown(socket.SHUT_RDWR)
