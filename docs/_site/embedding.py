"""A Sphinx extension: the directive `demo` embeds a page that `make docs` has made of the demo's model.

Nothing is loaded before the reader opens it, and a link beside it leads to the page alone. On GitHub the directive is
shown as its text.
"""

from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive

FOLDER = "demo"
"""The folder of these pages on the site."""


class Demo(Directive):
    """Embeds a page: its argument is the file's name, and its content says what can be done there."""

    required_arguments = 1
    has_content = True

    def run(self):
        environment = self.state.document.settings.env
        up = "../" * environment.docname.count("/")
        address = escape(f"{up}{FOLDER}/{self.arguments[0]}")
        text = escape(" ".join(self.content))
        return [
            nodes.raw(
                "",
                f'<details class="demo"><summary>{text}</summary>'
                f'<iframe src="{address}" loading="lazy" title="{text}"></iframe></details>'
                f'<p class="demo-link"><a href="{address}">Open it on a page of its own</a></p>',
                format="html",
            )
        ]


def setup(app):
    app.add_directive("demo", Demo)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
