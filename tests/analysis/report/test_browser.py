"""A report as a browser opens it from disk: quiet, at any width, in the light and in the dark, by
keyboard."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis.records.load import find_runs
from evopolicy.analysis.report.gather import gather_run, gather_sweep
from evopolicy.analysis.report.run import render_run
from evopolicy.analysis.report.sweep import render_sweep
from evopolicy.kernel.ports.transcript import Step, ToolCall
from tests.analysis.report.test_report import hostile
from tests.analysis.report_runs import GIF, Sent, lay, png, said

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [pytest.mark.slow, pytest.mark.browser]
SECONDS = 300
"""Until what was waited for is taken to never happen."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not CHROMIUM or not DRIVER:
        pytest.skip("chromium and chromedriver are not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("chromium")
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
        "--disable-component-update", "--window-size=1400,1000", f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(SECONDS)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`show(html, width, dark)` opens the page from disk and returns the browser."""

    def open_page(html: str, width: int = 1400, *, dark: bool = False) -> Any:
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        browser.get("about:blank")
        for kind in ("performance", "browser"):
            browser.get_log(kind)
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get(path.as_uri())
        return browser

    yield open_page
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def run_page(tmp_path: Path) -> str:
    call = ToolCall(
        "1",
        "shell",
        {"command": "cat TASK.md " + "x" * 500},
        "the task\n" * 80,
        started=0.5,
        ended=0.75,
    )
    failure = {
        "kind": "exception",
        "traceback": "Traceback:\n  File policy.py, line 1\n" + "y" * 300,
    }
    rows = [
        {"index": i, "score": 1.0, "length": 2, "ending": "failed", "failure": failure}
        for i in range(4)
    ]
    folder = lay(
        tmp_path / "records",
        [
            Sent({"policy.py": "gain = 1\n"}, 5.0, 4.0, steps=[said("I read the task.", call, reasoning="Hm.")]),
            Sent(
                {"policy.py": "gain = 2\nlong = '" + "z" * 900 + "'\n"}, 7.0, 9.0, failed=4,
                feedback={"by_episode": rows}, pictures={"replays/0000.gif": GIF, "replays/0000.png": png()},
            ),
            Sent({"policy.py": "def f():\n    return 2\n"}, 8.0, 6.0),
            Sent({"policy.py": "def f():\n    return 3\n"}, None),
        ],
        selected=2,
        after=[said("w" * 400), Step("user", "go on")],
        label="a_rather_long_label_of_an_agent_without_a_space",
        config={"agent": {"name": "ada"}},
    )  # fmt: skip
    found = find_runs(folder)
    return render_run(gather_run(found[0], found))


@pytest.fixture
def sweep_page(
    lay_run: Callable[..., Path], lay_sweep: Callable[..., Path], plan: Callable[..., Any]
) -> str:
    cells = []
    for label in ("ada", "bob", "cy", "dee", "eve"):
        for slug in ("cartpole", "mountain_car_continuous"):
            lay_run(label, slug, 0, (1.0, 3.0, float(len(label))))
            cells.append(plan(label, slug))
    cells.append(plan("ada", "cartpole", 1, "failed", "lost"))
    return render_sweep(gather_sweep(find_runs(lay_sweep(cells)), "Sweep trial"))


def asked(browser: Any) -> list[str]:
    """Everything the page fetched but itself and what is embedded in it."""
    found = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [
        url for url in found if not url.startswith("data:") and not url.endswith("/report.html")
    ]


def wait(browser: Any, script: str) -> None:
    """Until `script` returns true: a click and a key lead to a place of the page by the browser's
    own time."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, SECONDS).until(
        lambda _: browser.execute_script(script), f"never true: {script}"
    )


def open_all(browser: Any) -> None:
    browser.execute_script(
        "for (const one of document.querySelectorAll('details')) one.open = true"
    )


CONTRASTS = """
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const ground = one => { for (; one; one = one.parentElement) {
  const found = rgb(getComputedStyle(one).backgroundColor); if (found[3] !== 0) return found; }
  return [255, 255, 255]; };
const low = [];
for (const one of document.querySelectorAll('body *')) {
  const own = [...one.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || !one.getClientRects().length) continue;
  const style = getComputedStyle(one);
  const a = light(rgb(one.closest('svg') ? style.fill : style.color)), b = light(ground(one));
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const name = String(one.className.baseVal ?? one.className);
  if (ratio < 4.5) low.push([ratio, one.tagName, name, one.textContent.slice(0, 30)]);
}
return low;
"""


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_a_page_is_quiet_and_asks_for_nothing(
    kind: str, request: pytest.FixtureRequest, show: Callable[..., Any]
) -> None:
    browser = show(request.getfixturevalue(f"{kind}_page"))
    open_all(browser)
    assert browser.get_log("browser") == []
    assert asked(browser) == []
    # Its style is in force: the policy has let it in.
    assert (
        browser.execute_script("return getComputedStyle(document.querySelector('nav')).position")
        == "sticky"
    )


def test_pictures_are_shown(run_page: str, show: Callable[..., Any]) -> None:
    browser = show(run_page)
    open_all(browser)
    script = "return [...document.images].map(one => one.decode().then(() => one.naturalWidth))"
    assert browser.execute_async_script(
        f"const done = arguments[0]; Promise.all((() => {{ {script} }})()).then(done, e => "
        "done(String(e)))"
    ) == [691, 1, 1, 691], "the two of the Feedback between what the report drew"


def test_nothing_an_agent_wrote_runs(tmp_path: Path, show: Callable[..., Any]) -> None:
    found = find_runs(hostile(tmp_path / "records"))
    for html in (
        render_run(gather_run(found[0], found)),
        render_sweep(gather_sweep(found, "Sweep")),
    ):
        browser = show(html)
        open_all(browser)
        assert browser.execute_script("return window.hit") is None
        assert browser.execute_script("return document.scripts.length") == 0
        assert browser.get_log("browser") == []
        assert asked(browser) == []


def test_even_markup_that_got_through_would_do_nothing(
    run_page: str, show: Callable[..., Any]
) -> None:
    bad = "<script>window.hit=1</script><img src='http://192.0.2.1/x.png' onerror='window.hit=1'>"
    browser = show(run_page.replace("<main", f"{bad}<main", 1))
    assert browser.execute_script("return window.hit") is None
    assert {url for url in asked(browser) if "192.0.2.1" in url} <= {"http://192.0.2.1/x.png"}
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert any("img-src" in message for message in refused)
    assert any("script" in message for message in refused)


@pytest.mark.parametrize("kind", ["run", "sweep"])
@pytest.mark.parametrize("width", [320, 390, 800, 1400])
def test_a_page_never_scrolls_sideways(
    kind: str, width: int, request: pytest.FixtureRequest, show: Callable[..., Any]
) -> None:
    browser = show(request.getfixturevalue(f"{kind}_page"), width)
    open_all(browser)
    seen = (
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth, "
        "window.innerWidth]"
    )
    content, room, window = browser.execute_script(seen)
    assert content == room <= window == width


@pytest.mark.parametrize("kind", ["run", "sweep"])
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out_from_its_ground(
    kind: str, dark: bool, request: pytest.FixtureRequest, show: Callable[..., Any]
) -> None:
    browser = show(request.getfixturevalue(f"{kind}_page"), dark=dark)
    open_all(browser)
    assert browser.execute_script(CONTRASTS) == []
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(21, 23, 26)") is dark


def test_the_keyboard_reaches_everything_in_order_and_is_seen(
    run_page: str, show: Callable[..., Any]
) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = show(run_page)
    where = """const one = document.activeElement;
        return [one.tagName, one.textContent.trim().slice(0, 40), getComputedStyle(one).outlineStyle,
                one.getBoundingClientRect().top + scrollY, one.closest('nav') ? 'nav' : 'main'];"""
    reached = []
    for _ in range(60):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(browser.execute_script(where))
        if reached[-1][0] == "BODY":
            break
    assert reached[0][1] == "Skip to the report"
    parts = [part for *_, part in reached[1:] if part]
    assert parts == sorted(parts, key=["nav", "main"].index)
    assert {tag for tag, *_ in reached} >= {"A", "SUMMARY", "PRE", "DIV"}
    assert all(outline == "solid" for tag, _, outline, *_ in reached if tag != "BODY")

    browser = show(run_page)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait(browser, "return document.activeElement.id === 'main'")


def test_a_number_leads_to_its_run_and_opens_it(sweep_page: str, show: Callable[..., Any]) -> None:
    browser = show(sweep_page)
    browser.execute_script("document.querySelector('td a[href=\"#run-3\"]').click()")
    wait(
        browser,
        "return location.hash === '#run-3' && "
        "document.querySelector('#run-3').closest('details').open",
    )
    assert browser.execute_script("return location.hash") == "#run-3"
    assert browser.find_element("id", "run-3").is_displayed()
