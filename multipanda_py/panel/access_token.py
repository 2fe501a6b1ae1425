# SPDX-License-Identifier: Apache-2.0
"""Secret in the address of a panel.

The origin of a connection identifies pages of other sites, but only browsers send it. Without a
secret, any program of any user of the machine could connect and move the arms. The secret is the
first part of the path. viser's page connects to the path of its own address, and so keeps it.
"""

from __future__ import annotations

import hmac
import http
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from websockets.asyncio import server

_BYTES = 16
_FORBIDDEN = "open the address that the panel has printed\n"


class AccessToken:
    """Access token of one panel.

    Attributes:
        path: Path of the page, with the secret.
    """

    def __init__(self) -> None:
        self._value = secrets.token_urlsafe(_BYTES)
        self.path = f"/{self._value}/"

    def without(self, path: str) -> str | None:
        """Return a requested path without the secret; None if the secret is wrong or missing."""
        given, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        is_right = hmac.compare_digest(given.encode(errors="replace"), self._value.encode())
        return f"/{rest}" if is_right else None

    def guard(self, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return a handler of requests for pages and websockets that demands the secret."""

        def guarded(connection: Any, request: Any) -> Any:
            path = self.without(request.path)
            if path is None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, _FORBIDDEN)
            return answer(connection, replace(request, path=path))

        return guarded


@contextmanager
def demanded(token: AccessToken) -> Iterator[None]:
    """Demand a secret from all connections to a server that is constructed within.

    viser listens from its construction on, and takes no handler of requests. Its own handler is
    therefore wrapped on its way to the library.
    """
    plain = server.serve

    def serve(*args: Any, process_request: Any, **options: Any) -> Any:
        return plain(*args, process_request=token.guard(process_request), **options)

    server.serve = serve
    try:
        yield
    finally:
        server.serve = plain
