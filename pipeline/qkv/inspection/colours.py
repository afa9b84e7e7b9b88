"""The colours of attention in pages, pictures, TensorBoard and notebooks."""

INK = {"light": "#0b3d91", "dark": "#ffd75e"}
"""The colour of weight 1 on a light and a dark page; lower weights are blended with the page. The scale runs between
light and dark for every kind of colour vision, and in print."""

HEAD_COLOURS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#c2558f", "#b07d00", "#56a0d9", "#6a3d9a", "#4d4d4d"),
    "dark": ("#4ea8de", "#ff8a4c", "#35c79b", "#f08cc0", "#f0c045", "#9ad0ff", "#b794f6", "#c8c8c8"),
}
"""The colours of the lines of heads 0 to 7, after Okabe and Ito (2008); head 8 has the first colour again."""


def css_variables() -> str:
    """Returns a style sheet that defines `--ink` and `--head-0` to `--head-7` for light and dark pages."""
    return f"""\
:root {{ {_definitions("light")} }}
@media (prefers-color-scheme: dark) {{ :root:not([data-palette="light"]) {{ {_definitions("dark")} }} }}
"""


def _definitions(scheme: str) -> str:
    heads = "".join(f" --head-{head}: {colour};" for head, colour in enumerate(HEAD_COLOURS[scheme]))
    return f"--ink: {INK[scheme]};{heads}"
