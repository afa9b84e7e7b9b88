"""Serves the live page of runs: loads them, lets each translate a first sentence, and listens."""

import socket
import threading
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Self

from werkzeug.serving import ThreadedWSGIServer

from ..evaluation.page_facts import page_facts
from ..inspection.intervention import CHANGES
from ..inspection.named_heads import describe_types, read_head_types
from ..run.trained_run import load_run
from .connections import check_address, make_live_server
from .examples import find_examples
from .gate import Gate
from .live_run import LiveRun
from .page import describe_changes, live_page
from .question import Question
from .server import LivePage

BEAMS = (1, 5, 10)
EVERY_ADDRESS = ("0.0.0.0", "::")  # of this machine
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


class ServedPage:
    """A page that is being served, until it is closed; in a notebook it shows itself.

    Args:
        server: bound to its address.
        address: what to open, token included.
        height: of the page in a notebook, in pixels.
    """

    def __init__(self, server: ThreadedWSGIServer, address: str, height: int) -> None:
        self.address = address
        self._server = server
        self._height = height
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait(self) -> None:
        """Returns when the server has ended, which it does not by itself."""
        self._thread.join()

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{escape(self.address)}" width="100%" height="{self._height}" style="border: 0" '
            'title="live page" allow="clipboard-write"></iframe>'
        )


def load_live_runs(chosen: Sequence[tuple[Path, str]]) -> list[LiveRun]:
    """Loads the runs of these folders and checkpoints, see `load_run`.

    Raises:
        InputError: one cannot be loaded.
    """
    names = _name_all(chosen)
    return [LiveRun(load_run(*one), name) for one, name in zip(chosen, names, strict=True)]


def serve(
    runs: Sequence[LiveRun],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_hosts: Sequence[str] = (),
    height: int = 900,
) -> ServedPage:
    """Serves a page.

    Args:
        runs: what answers, side by side.
        host: address to listen on.
        port: 0 for any that is free.
        allow_hosts: further names by which browsers may call it.
        height: see `ServedPage`.

    Raises:
        InputError: the address is taken.
    """
    check_address(host, port)  # before the runs prepare for seconds
    examples = find_examples(runs[0].run)
    facts = {
        "runs": [_describe(run, examples) for run in runs],
        "beams": list(BEAMS),
        "changes": describe_changes(CHANGES),
        "rows": True,
        "examples": examples,
    }
    shown = socket.gethostname() if host in EVERY_ADDRESS else f"[{host}]" if ":" in host else host
    gate = Gate([*LOCAL_NAMES, shown], allow_hosts)
    title = " and ".join(run.name for run in runs)
    server = make_live_server(LivePage(runs, lambda: live_page(title, facts), gate), host, port)
    return ServedPage(server, f"http://{shown}:{server.port}/?token={gate.token}", height)


def _describe(live: LiveRun, examples: Sequence[str]) -> dict[str, Any]:
    """Returns what the page must know of a run; its first answer prepares the graphs."""
    facts = live.answer(Question(text=examples[0] if examples else "a")).facts
    return {
        "name": live.name,
        "heads": live.changes.heads,
        "explained": live.explained,
        "types": describe_types(read_head_types(live.run.directory.evaluation("test").head_types)),
        "sites": facts["sites"],
        "units": facts["units"],
        "facts": page_facts(live.run.config, live.run.model.count_params(), {}),
    }


def _name_all(runs: Sequence[tuple[Path, str]]) -> list[str]:
    names = [root.absolute().name for root, _ in runs]
    if len(set(names)) < len({root.absolute() for root, _ in runs}):
        names = [str(root) for root, _ in runs]
    several = len({checkpoint for _, checkpoint in runs}) > 1
    names = [f"{name}, {checkpoint}" if several else name for name, (_, checkpoint) in zip(names, runs, strict=True)]
    return [f"{name} ({i + 1})" if names.count(name) > 1 else name for i, name in enumerate(names)]
