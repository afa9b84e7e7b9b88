"""The access check of the live page: the host, the origin and the token of a request."""

import hmac
import re
import secrets
from collections.abc import Collection

from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Request

TOKEN_HEADER = "X-QKV-Token"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")


class AccessCheck:
    """Checks that a request comes from the live page.

    - The token is part of the page's address. Other programs and other users of the machine do not know it.
    - The header `Origin`, if the request has it, must name the page's host and port. Pages of other sites in the same
      browser send another origin.
    - The header `Host` must be a name of this machine. Otherwise another site could resolve its host name to this
      machine, and its pages would pass as the live page (DNS rebinding).

    Args:
        hosts: the names of the machine that serves the page, without port.
        proxies: the host names of proxies in front of the server, without port.
        token: the token; by default a random one.
    """

    def __init__(self, hosts: Collection[str], proxies: Collection[str] = (), token: str | None = None) -> None:
        self._proxies = {name.lower() for name in proxies}
        self._hosts = self._proxies | {name.lower() for name in hosts}
        self.token = token or secrets.token_urlsafe(24)

    def check(self, request: Request) -> None:
        """Checks a request.

        Raises:
            Forbidden: the request has a wrong host, origin or token.
        """
        self.check_sender(request)
        token = request.headers.get(TOKEN_HEADER) or request.args.get("token", "")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Forbidden("the token is missing or wrong: open the address that was printed, with its token")

    def check_sender(self, request: Request) -> None:
        """Checks the host and the origin of a request, but not its token.

        Raises:
            Forbidden: the request has a wrong host or origin.
        """
        if self._name(request.headers.get("Host", "")) not in self._hosts:
            raise Forbidden("unknown host name: open the address that was printed, or start with --allow_host NAME")
        origin = request.headers.get("Origin")
        if origin is not None and not self._is_same_site(origin.partition("://")[2], request.headers["Host"]):
            raise Forbidden("requests from other sites are refused")

    def _is_same_site(self, origin: str, host: str) -> bool:
        """Returns whether a request was sent by the live page.

        Args:
            origin: `HOST:PORT` of the page that sent the request, by the header `Origin`.
            host: `HOST:PORT` that the request was sent to, by the header `Host`.

        Returns:
            True if both are equal, or if the origin is a proxy at any port.
        """
        return origin.lower() == host.lower() or self._name(origin) in self._proxies

    @staticmethod
    def _name(host: str) -> str:
        """Returns the name in `HOST` or `HOST:PORT`, in lower case; "" if the text has another form."""
        match = _HOST.fullmatch(host)
        return match[1].lower() if match else ""
