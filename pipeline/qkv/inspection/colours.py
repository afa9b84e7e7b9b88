"""The colours of attention, alike in the page, in pictures, in TensorBoard and in notebooks."""

INK = {"light": "#0b3d91", "dark": "#ffd75e"}
"""Full weight, on light and on dark paper; less weight is mixed with the paper. Light to dark for every kind of colour
vision, and in print."""

HEADS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#c2558f", "#b07d00", "#56a0d9", "#6a3d9a", "#4d4d4d"),
    "dark": ("#4ea8de", "#ff8a4c", "#35c79b", "#f08cc0", "#f0c045", "#9ad0ff", "#b794f6", "#c8c8c8"),
}
"""The lines of each head, after Okabe and Ito (2008); from the ninth head on they begin anew."""


def css_variables() -> str:
    """Returns a style sheet that defines `--ink`, and `--head-0` to `--head-7`, on light and on dark paper."""
    light, dark = (
        f"--ink: {INK[scheme]};" + "".join(f" --head-{head}: {colour};" for head, colour in enumerate(HEADS[scheme]))
        for scheme in ("light", "dark")
    )
    return f"""\
:root {{ {light} }}
@media (prefers-color-scheme: dark) {{ :root:not([data-palette="light"]) {{ {dark} }} }}
"""
