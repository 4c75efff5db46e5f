"""The server and its two links; with a browser, what a person sees first."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest

from evopolicy.analysis import entry_ranks
from evopolicy.kernel.errors import ConfigError, TrackingError
from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript
from evopolicy.kernel.run.sweep import Sweep
from evopolicy.kernel.session.record import Run
from evopolicy.tracking.follow import follow_sweep, track
from evopolicy.tracking.store import Store, Tracking, connect
from evopolicy.tracking.ui import _links, find_single, find_sweep, serve

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SECONDS = 300


def test_the_latest_sweep_is_shown_unless_one_is_named(
    tmp_path: Path, make_sweep: Callable[..., Sweep]
) -> None:
    make_sweep("older", seeds=1, created=1.0)
    make_sweep("newer", seeds=1, created=2.0)
    latest, named = find_sweep(tmp_path), find_sweep(tmp_path, "older")
    assert latest is not None and latest.name == "newer"
    assert named is not None and named.name == "older"


def test_after_a_single_run_that_is_what_is_opened(
    output: Path, make_sweep: Callable[..., Sweep], records: Any, rank: Any
) -> None:
    """It was the latest sweep, whatever had been run since."""
    sweep = make_sweep("before", seeds=1, created=1.0)
    assert find_single(output, sweep) is None
    folder = records.write_run(output, records.a_record(seed=77, created=5_000_000_000.0))
    single = find_single(output, sweep)
    assert single is not None and single.folder == folder
    track(folder, output, Tracking(), rank)
    shown = _links("http://here:1", Tracking(), output, sweep, named=False)
    (run,) = connect(Tracking(), output).client.search_runs(["1"], "tags.seed = '77'")
    assert (
        shown.run == f"http://here:1/#/experiments/1/runs/{run.info.run_id}"
        and shown.run in shown.text()
    )
    assert _links("http://here:1", Tracking(), output, sweep, named=True).run == ""


def test_an_unknown_sweep_is_named_with_a_near_one(
    tmp_path: Path, make_sweep: Callable[..., Sweep]
) -> None:
    make_sweep("quickstart", seeds=1)
    with pytest.raises(
        ConfigError, match=r"sweep: 'quikstart' is not in .*Did you mean 'quickstart'"
    ):
        find_sweep(tmp_path, "quikstart")


def test_where_there_is_no_sweep_there_is_none(tmp_path: Path) -> None:
    assert find_sweep(tmp_path) is None


def test_a_server_that_cannot_start_is_one_sentence(output: Path) -> None:
    (output / "mlflow.db").write_text("no database" * 200)
    with (
        pytest.raises(TrackingError, match="opening the store at sqlite:///"),
        serve(output, Tracking()),
    ):
        pass


@pytest.mark.slow
def test_the_server_opens_and_serves_a_store_whatever_its_folder_is_called(
    tmp_path: Path, migrated: Path, records: Any
) -> None:
    output = tmp_path / "a%20b?c#d é"
    output.mkdir()
    shutil.copyfile(migrated, output / "mlflow.db")
    records.write_cells(output, "50% off?", [records.cell_of(output, records.write_run(output))])
    assert follow_sweep(output, "50% off?", entry_ranks).missing == ()
    store = connect(Tracking(), output)
    (cell,) = store.client.search_runs([store.experiment_id], "tags.kind = 'cell'")
    with serve(output, Tracking()) as links:
        experiment = f"/#/experiments/{store.experiment_id}/runs?"
        assert links.agents.startswith(f"{links.base}{experiment}viewStateShareKey=50-off-agents&")
        port = urlsplit(links.base).port
        file = urlencode({"path": "programs/0001/notes.html.txt", "run_uuid": cell.info.run_id})
        with urlopen(f"http://127.0.0.1:{port}/get-artifact?{file}") as answer:
            assert answer.read() == b"<script>alert(1)</script>\n"
            assert "html" not in answer.headers["Content-Type"]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    if not CHROMIUM or not DRIVER:
        pytest.skip("chromium and chromedriver are not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1600,1000",
        f"--user-data-dir={tmp_path / 'chromium'}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def wait(browser: Any, what: str, found: Callable[[], bool]) -> None:
    from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    waiting = WebDriverWait(browser, SECONDS, ignored_exceptions=[StaleElementReferenceException])
    try:
        waiting.until(lambda _: found())
    except TimeoutException:
        pytest.fail(f"never shown: {what}. The page says: {text(browser)[:2000]}")


def wait_for_text(browser: Any, what: str, *parts: str) -> str:
    """The page's text, once all `parts` are in it at a time: it is drawn piece by piece, and
    anew."""
    seen = ""

    def all_there() -> bool:
        nonlocal seen
        seen = text(browser)
        return all(part in seen for part in parts)

    wait(browser, what, all_there)
    return seen


def text(browser: Any) -> str:
    from selenium.webdriver.common.by import By

    return str(browser.find_element(By.TAG_NAME, "body").text)


def bars(browser: Any) -> list[list[float]]:
    """The values of the bars, chart by chart as they are drawn."""
    script = """
        return Array.from(document.querySelectorAll('.js-plotly-plot'))
            .filter(plot => plot.querySelectorAll('.bars .point').length)
            .map(plot => plot.data.flatMap(trace => Array.from(trace.x)));
    """
    return [[float(value) for value in values] for values in browser.execute_script(script)]


def asked_hosts(browser: Any) -> set[str]:
    """Where the page asked anything over the network."""
    urls = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            urls.append(urlsplit(message["params"]["request"]["url"]))
    return {url.netloc for url in urls if url.scheme in ("http", "https", "ws", "wss")}


@pytest.mark.slow
@pytest.mark.browser
def test_both_links_open_on_the_answer(
    output: Path, make_sweep: Callable[..., Sweep], browser: Any
) -> None:
    agents = ("baseline", "cma_es", "random")
    benchmarks = ("cartpole", "half_cheetah", "pendulum")
    sweep = make_sweep("quickstart", agents, benchmarks, 2)
    assert follow_sweep(output, sweep.name, entry_ranks).missing == ()
    with serve(output, Tracking()) as links:
        browser.get(links.agents)
        titles = ["rank_score", *(f"{benchmark}/heldout" for benchmark in benchmarks)]
        seen = (*agents, *titles, "3 matching runs")
        drawn: list[list[float]] = []

        def bars_are_drawn() -> bool:
            drawn[:] = bars(browser)
            return [len(values) for values in drawn] == [3, 3, 3, 3]

        wait(browser, "bars", bars_are_drawn)
        assert sorted(drawn[0]) == [0.0, 0.5, 1.0]
        shown = wait_for_text(browser, "three agents and four charts", *seen)
        assert "Assistant" not in shown
        assert "No chart data" not in shown

        browser.get("about:blank")
        browser.get(links.cells)
        wait(browser, "bars", lambda: [len(values) for values in bars(browser)] == [6, 6, 6])
        titles = [f"{benchmark}/heldout" for benchmark in benchmarks]
        wait_for_text(browser, "every cell", "18 matching runs", "cma_es · cartpole · s0", *titles)
        assert asked_hosts(browser) == {urlsplit(links.base).netloc}


ELSEWHERE = "http://192.0.2.1/pixel.png"
"""An address of nobody's."""


def click(browser: Any, label: str) -> None:
    """Once it can be: what is drawn anew is another element, and may lie under something for a
    moment."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.by import By

    def clicked() -> bool:
        try:
            browser.find_element(By.XPATH, f"//*[text()='{label}']").click()
        except WebDriverException:
            return False
        return True

    wait(browser, f"{label}, to be clicked", clicked)


@pytest.mark.slow
@pytest.mark.browser
def test_a_run_shows_its_attempt_span_by_span_and_fetches_nothing_an_agent_names(
    output: Path,
    store: Store,
    make_run: Callable[..., Run],
    lay_attempt: Callable[..., Path],
    transcript: Transcript,
    browser: Any,
) -> None:
    image = {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": ELSEWHERE}}]}
        ]
    }
    call = ToolCall("c9", "look", image, f"seen ![it]({ELSEWHERE})", started=4.5, ended=4.6)
    last = Step(
        "agent", f"**Done** ![x]({ELSEWHERE}) <img src='{ELSEWHERE}'>", seconds=4.5, calls=(call,)
    )
    run = make_run(usage={"input_tokens": 1000, "output_tokens": 234, "cost_usd": 0.5})
    lay_attempt(run.folder, replace(transcript, steps=(*transcript.steps, last)))
    assert track(run.folder, output, Tracking(), entry_ranks).missing == ()
    (logged,) = store.client.search_runs([store.experiment_id], "tags.kind = 'cell'")
    with serve(output, Tracking()) as links:
        browser.get("about:blank")
        browser.get_log("performance")
        browser.get(
            f"{links.base}/#/experiments/{store.experiment_id}/runs/{logged.info.run_id}/traces"
        )
        request = "cma_es on cartpole, seed 0, attempt 1"
        said = "finished, 2 Submissions, best training score 200"
        wait_for_text(browser, "the attempt among the run's traces", request, said)
        click(browser, request)
        names = [
            "attempt 1",
            "turn 1",
            "turn 4",
            "shell",
            "edit",
            "look",
            "Submission 2",
            "Evaluation of Submission 1",
        ]
        wait_for_text(browser, "the spans", *names, "6000.00ms", "1,234 tokens", "$0.50")
        click(browser, "turn 4")
        wait_for_text(browser, "the message", "<img src=")
        click(browser, "look")
        wait_for_text(browser, "the tool's answer", "seen ! it")
        assert asked_hosts(browser) == {urlsplit(links.base).netloc}
