"""The viewer's page inside a notebook."""

from dataclasses import dataclass
from html import escape

from ..record import Record
from .page import viewer_page
from .viewer_run import ViewerRun

WITHOUT_LIST = "nav { display: none; } #layout { grid-template-columns: minmax(0, 1fr); }"


@dataclass(frozen=True)
class InlinePage:
    """A page that a notebook shows in the output of a cell, in a frame that can reach neither the notebook nor a
    network.

    Args:
        html: the page.
        height: of the frame, in pixels.
    """

    html: str
    height: int

    @classmethod
    def of_record(cls, record: Record, name: str, height: int) -> "InlinePage":
        """Makes the page of one sentence, without the list of sentences."""
        return cls(viewer_page(name, [ViewerRun(name).add_all([record])], styles=[WITHOUT_LIST]), height)

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{self.height}" style="border: 0" sandbox="allow-scripts allow-downloads"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame} title="attention"></iframe>'
