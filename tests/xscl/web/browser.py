"""A real browser for tests: Debian's Chromium without a window."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any, TypeVar

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.waiting import PATIENCE

T = TypeVar("T")

PROGRAMS = ("chromium", "chromedriver")
WIDE, PHONE = (1280, 900), (390, 844)

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the tests may run as root, and see pages of this machine only
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",  # a live page would be drawn all the time
)
_TAB = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
_FOCUSED = """
const outer = document.activeElement;
const focused = outer.shadowRoot?.activeElement ?? outer;
const isNowhere = focused === document.body;  // before the page is laid out
return [isNowhere || focused.matches(":focus-visible"), outer.matches(arguments[0])];
"""
_EDIT = """
const view = document.getElementById("query-editor")?.shadowRoot.querySelector(".cm-content");
view?.focus();
return Boolean(view);
"""
_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (!entry.hadRecentInput) window.shifts.push(entry.value);
  }
}).observe({type: "layout-shift", buffered: true});
"""


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser that is closed when the block ends."""
    options = ChromeOptions()
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    binary, driver = (shutil.which(name) for name in PROGRAMS)
    options.binary_location = binary or ""
    chrome = Chrome(options=options, service=Service(driver))
    try:
        chrome.set_script_timeout(300)  # axe on `/docs` takes more than 30 s on a loaded machine
        chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _SHIFTS})
        yield Browser(chrome)
    finally:
        chrome.quit()


class Browser:
    """Browser operations of tests."""

    def __init__(self, chrome: Chrome) -> None:
        self.chrome = chrome

    def open(self, address: str) -> None:
        self.chrome.get(address)

    def one(self, selector: str) -> WebElement:
        """Return the first element of a selector, as soon as there is one."""
        return self.until(lambda: self.all(selector))[0]

    def all(self, selector: str) -> list[WebElement]:
        return self.chrome.find_elements(By.CSS_SELECTOR, selector)

    def is_live(self) -> bool:
        """Return True if the service sends new matches to the page."""
        return bool(self.all("#live.live-on"))

    def text(self, selector: str = "main") -> str:
        return self.until(lambda: [self.one(selector).text])[0]

    def until(self, check: Callable[[], T]) -> T:
        """Wait for a condition and return its value."""
        return self.wait(check, PATIENCE)

    def wait(self, check: Callable[[], T], seconds: float) -> T:
        """Wait for a condition for so many seconds and return its value.

        What it looks at may leave with its page meanwhile.
        """
        waiting = WebDriverWait(
            self.chrome, seconds, 0.05, ignored_exceptions=[StaleElementReferenceException]
        )
        return waiting.until(lambda _: check())

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.chrome.switch_to.active_element.send_keys(*keys)

    def write(self, text: str) -> None:
        """Type into the query editor, at its cursor."""
        self.until(lambda: self.run(_EDIT))
        self.press(text)

    def tab_to(self, selector: str, most: int = 80) -> WebElement:
        """Go by the tabulator to an element; each stop on the way has to show that it is one."""
        for _ in range(most):
            for kind in ("rawKeyDown", "keyUp"):
                self.chrome.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, **_TAB})
            visible, reached = self.run(_FOCUSED, selector)
            assert visible
            if reached:
                return self.chrome.switch_to.active_element
        raise AssertionError(f"{selector} is not reached by the keyboard")

    def run(self, script: str, *arguments: object) -> Any:
        return self.chrome.execute_script(script, *arguments)

    def run_async(self, script: str, *arguments: object) -> Any:
        """Run a script that calls its last argument with its value."""
        return self.chrome.execute_async_script(script, *arguments)

    def look(self, scheme: str = "light", size: tuple[int, int] = WIDE) -> None:
        """Set the size of the window and the light or dark colour scheme."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        width, height = size
        self.chrome.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    @contextmanager
    def without_script(self) -> Iterator[None]:
        """Run no scripts of pages in the block."""
        disable = "Emulation.setScriptExecutionDisabled"
        self.chrome.execute_cdp_cmd(disable, {"value": True})
        try:
            yield
        finally:
            self.chrome.execute_cdp_cmd(disable, {"value": False})

    def complaints(self) -> list[str]:
        """Return the console errors of pages since the last call: policy, scripts, files."""
        log: Any = self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
        return [str(line["message"]) for line in log]

    def shifted(self) -> float:
        """Return the cumulative layout shift of the page."""
        return float(sum(self.run("return window.shifts")))

    def violations(self) -> list[str]:
        """Return the violations that axe finds on the page, WCAG 2.2 AA and good practice."""
        known = self.run("return typeof window.axe === 'object'")
        if not known:
            self.run(_AXE)
        found = self.chrome.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']})"
            ".then((r) => done(JSON.stringify(r.violations)),"
            " (e) => done(JSON.stringify([{id: String(e), nodes: []}])));"
        )
        return [
            f"{one['id']}: {', '.join(node['html'][:200] for node in one['nodes'])}"
            for one in json.loads(found)
        ]


_AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
