"""axe-core in a page: which parts of it some people cannot read or use, by all rules that axe has on."""

from importlib.resources import files

from playwright.sync_api import Page

SCRIPT = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
MOST_ELEMENTS = 3  # of a rule that are named


def find_violations(page: Page) -> list[str]:
    """Returns the rules that a page breaks as it is shown now: WCAG's levels A and AA, and best practices.

    The script runs as Playwright's own, so a content security policy does not keep it out.

    Returns:
        a line for each element that breaks a rule, at most three for each rule; an empty list if there are none.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"() => {{ {SCRIPT} }}")
    rules = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations)")
    return [_describe(rule, element) for rule in rules for element in rule["nodes"][:MOST_ELEMENTS]]


def _describe(rule, element) -> str:
    checks = [*element["any"], *element["all"], *element["none"]]
    why = "; ".join(check["message"] for check in checks)
    return f"{rule['id']} ({len(rule['nodes'])} elements): {' '.join(element['target'])}: {why}: {element['html']:.160}"
