"""Pictures of a sweep's two MLflow views, as a person sees them first.

    python scripts/picture_mlflow.py outputs [--sweep quickstart] [--to docs/pictures]

Needs chromium, chromedriver and the selenium package. Writes mlflow.png (agents compared) and
mlflow_cells.png."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.tracking.store import Tracking
from evopolicy.tracking.ui import find_sweep, serve

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

SECONDS = 300
DRAWN = """
    const plots = Array.from(document.querySelectorAll('.js-plotly-plot'));
    return plots.filter(plot => plot.querySelector('.bars .point')).length;
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the output folder of the sweep")
    parser.add_argument("--sweep", default="", help="its name; the latest by default")
    parser.add_argument(
        "--uri", default="", help="tracking.uri of the sweep, where it is not the default"
    )
    parser.add_argument("--to", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    try:
        return take_pictures(options.output, options.sweep, Tracking(options.uri), options.to)
    except EvoPolicyError as error:
        print(error, file=sys.stderr)
        return 1


def take_pictures(output: Path, name: str, tracking: Tracking, to: Path) -> int:
    sweep = find_sweep(output, name)
    if sweep is None:
        print(f"{output}: holds no sweep; run one first", file=sys.stderr)
        return 1
    benchmarks = len({cell.benchmark for cell in sweep.cells})
    to.mkdir(parents=True, exist_ok=True)
    with serve(output, tracking, sweep.name) as links, tempfile.TemporaryDirectory() as profile:
        browser = open_browser(Path(profile))
        try:
            take(browser, links.agents, benchmarks + 1, to / "mlflow.png")
            take(browser, links.cells, benchmarks, to / "mlflow_cells.png")
        finally:
            browser.quit()
    return 0


def take(browser: WebDriver, link: str, charts: int, path: Path) -> None:
    """Open `link`, wait until its charts are drawn, and write what is seen to `path`."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get("about:blank")
    browser.get(link)
    WebDriverWait(browser, SECONDS).until(
        lambda driver: driver.execute_script(DRAWN) >= min(charts, 4)
    )
    browser.save_screenshot(str(path))
    print(path)


def open_browser(profile: Path) -> WebDriver:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        raise SystemExit(
            "chromium and chromedriver are needed; on Debian: apt-get install chromium "
            "chromium-driver"
        )
    options = Options()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        # A pointer that can hover, so that charts hide their toolbars.
        "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",
        "--window-size=1600,900",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(driver))


if __name__ == "__main__":
    raise SystemExit(main())
