"""Takes the pictures of the live page that docs/use/live.md shows.

python -m tests.benchmarks.live_pictures runs/demo --folder data/demo
"""

import argparse
from pathlib import Path

from qkv.runtime.import_tensorflow import importing_tensorflow
from tests.support.pages import open_browser, open_page

with importing_tensorflow():
    from qkv.live.server import load_live_runs, serve

SENTENCE = "the european economic area was discussed in may 1992 ."
PICTURES = {
    "live.png": {"viewport": {"width": 1280, "height": 1150}},
    "live_phone.png": {"viewport": {"width": 390, "height": 1150}, "color_scheme": "dark"},
}


def main() -> None:
    """Asks, switches a head off, chooses a token, and takes the picture, for each kind of screen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("data/demo"), help="(default: data/demo)")
    options = parser.parse_args()
    with serve(load_live_runs([(options.run, "best")])) as served, open_browser() as browser:
        for name, screen in PICTURES.items():
            with open_page(browser, served.address, **screen) as page:
                page.wait_for_selector("#extension[data-ready=true]", state="attached")
                page.fill("[data-part=text]", SENTENCE)
                page.keyboard.press("Enter")
                page.wait_for_selector("#sentence-1[aria-selected=true]", state="attached")
                page.click("[aria-label='off: layer 0, head 2']")
                page.wait_for_selector(".comparison")
                if screen["viewport"]["width"] < 500:
                    page.locator(".token").nth(2).click()
                page.locator("main").evaluate("main => main.scrollTo(0, 0)")
                page.mouse.move(0, 0)
                page.screenshot(path=options.folder / name)


if __name__ == "__main__":
    main()
