"""The access of the live page: every request names a host that is served, comes from this page, and knows the token."""

import hmac
import re
import secrets
from collections.abc import Collection

from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Request

TOKEN_HEADER = "X-QKV-Token"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")


class AccessCheck:
    """Refuses requests from elsewhere.

    The page's address holds a token that other programs and other users of the machine do not know. A page of another
    site that is open in the same browser cannot send the header with the token, and its `Origin` tells; the `Host` is
    checked, because such a page could otherwise point a name of its own to this machine (DNS rebinding).

    Args:
        hosts: the names of the machine that serves the page, without port.
        proxies: names of proxies that pass requests on.
        token: made at random if not given.
    """

    def __init__(self, hosts: Collection[str], proxies: Collection[str] = (), token: str | None = None) -> None:
        self._proxies = {name.lower() for name in proxies}
        self._hosts = self._proxies | {name.lower() for name in hosts}
        self.token = token or secrets.token_urlsafe(24)

    def check(self, request: Request) -> None:
        """Checks a request.

        Raises:
            Forbidden: its host, its origin or its token is another one.
        """
        if self._name(request.headers.get("Host", "")) not in self._hosts:
            raise Forbidden("this host name is not served: open the address that was printed, or use --allow_host NAME")
        origin = request.headers.get("Origin")
        if origin is not None and not self._is_own(origin.partition("://")[2], request.headers["Host"]):
            raise Forbidden("requests from other sites are refused")
        given = request.headers.get(TOKEN_HEADER) or request.args.get("token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Forbidden("the token is missing or wrong: open the address that was printed, with its token")

    def _is_own(self, origin: str, host: str) -> bool:
        """Returns whether a page of that origin is this one: a proxy has a name of its own, and often another port."""
        return origin.lower() == host.lower() or self._name(origin) in self._proxies

    @staticmethod
    def _name(host: str) -> str:
        match = _HOST.fullmatch(host)
        return match[1].lower() if match else ""
