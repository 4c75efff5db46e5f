"""The page of a Run and of several: what it holds, what it leaves out and says so, and that nothing
foreign runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis.records.load import find_runs
from evopolicy.analysis.report.gather import LIMITS, gather_run, gather_sweep, split_steps
from evopolicy.analysis.report.plots import draw_figures
from evopolicy.analysis.report.run import render_run
from evopolicy.analysis.report.shape import Figure
from evopolicy.analysis.report.shown import read_changes, read_feedback, read_transcripts
from evopolicy.analysis.report.sweep import render_sweep
from evopolicy.kernel.ports.transcript import Step, ToolCall
from evopolicy.present.markup import Html, block, cut, escape, harmless, join, line, tag
from evopolicy.present.numbers import typeset
from tests.analysis.report_runs import GIF, Sent, lay, png, said

HOSTILE = (
    "</script></style></pre><script>window.hit=1</script><img src=x "
    "onerror='window.hit=1'>\" onload=\"window.hit=1"
)
STEERING = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://192.0.2.1\x07link\x1b]8;;\x07 \u202eright to "
    "left\u202c \x00\x07\x9b2J"
)


class Page(HTMLParser):
    """A page taken apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.headings: list[int] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.extend((tag, key, value or "") for key, value in attrs)
        self.ids.extend(value or "" for key, value in attrs if key == "id")
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in ("img", "meta", "br", "link", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, key: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == key]

    def images(self, kind: str) -> int:
        """How many there are of 'figure' (drawn by the report) or 'picture' (of a Run's
        Feedback)."""
        drawn = [value.startswith("data:image/svg+xml") for value in self.values("src")]
        return drawn.count(kind == "figure")


def page_of(folder: Path, **limits: Any) -> str:
    found = find_runs(folder)
    bounds = replace(LIMITS, **limits)
    return render_run(gather_run(found[0], found, bounds), bounds)


@pytest.fixture
def story(tmp_path: Path) -> Path:
    call = ToolCall("1", "shell", {"command": "cat TASK.md"}, "the task", started=0.5, ended=0.75)
    broken = ToolCall("2", "edit", {"path": "policy.py"}, "no such file", failed=True)
    return lay(
        tmp_path,
        [
            Sent(
                {"policy.py": "gain = 1\n"},
                5.0,
                4.0,
                steps=[said("I read the task.", call), said("First.", broken)],
            ),
            Sent(
                {"policy.py": "gain = 2\n"},
                7.0,
                9.0,
                pictures={"replays/0000.gif": GIF, "replays/0000.png": png()},
            ),
            Sent({"policy.py": "gain = 3\n"}, None),
        ],
        selected=2,
        after=[said("It is good enough.", reasoning="What else could help?")],
    )


# --- a Run ----------------------------------------------------------------------------------------


def test_a_run_shows_its_result_submissions_changes_feedback_and_transcript(story: Path) -> None:
    page = Page(page_of(story))
    for words in (
        "ada on cartpole, seed 0", "valid", "2.00", "standard error 0.58 over 3 Episodes",
        "Submission 2, by validation mean", "first", "parametric",
        "new best", "selected", "-gain = 1", "+gain = 2", "the engine was lost", "I read the task.", "cat TASK.md",
        "no such file", "failed", "It is good enough.", "What else could help?", "led to Submission 1", "$0.42",
        "12,000", "family/Cartpole-v1", "landlock",
    ):  # fmt: skip
        assert words in page.text, words
    assert (page.images("picture"), page.images("figure")) == (2, 2)
    assert page.open == []


def test_a_page_has_landmarks_ordered_headings_captions_scopes_and_one_id_each(story: Path) -> None:
    page = Page(page_of(story))
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(
        later <= before + 1 for before, later in zip(page.headings, page.headings[1:], strict=False)
    )
    assert page.tags["nav"] == page.tags["main"] == 1
    assert page.tags["caption"] == page.tags["table"] > 2
    assert page.tags["th"] == len(page.values("scope"))
    assert len(page.ids) == len(set(page.ids))
    assert {value[1:] for value in page.values("href")} <= set(page.ids)
    assert all(name == "img" for name, key, _ in page.attributes if key == "alt")
    assert len(page.values("alt")) == page.tags["img"]


def test_a_page_asks_for_nothing_and_has_no_script(story: Path) -> None:
    text = page_of(story)
    page = Page(text)
    assert not page.tags.keys() & {"script", "iframe", "object", "embed", "link", "form", "base"}
    assert all(value.startswith("data:image/") for value in page.values("src"))
    assert all(value.startswith("#") for value in page.values("href"))
    assert "default-src 'none'" in text
    assert "unsafe" not in text
    assert "url(" not in text and "@import" not in text


def test_the_same_record_gives_the_same_page(story: Path) -> None:
    assert page_of(story) == page_of(story)


def test_an_unfinished_run_says_so(lay_run: Callable[..., Path]) -> None:
    text = Page(page_of(lay_run("ada", "cartpole", upto="session"))).text
    assert "unfinished" in text
    assert "has not been measured on held-out Episodes" in text
    opened = Page(page_of(lay_run("bob", "cartpole", upto="opened"))).text
    assert "Nothing was submitted." in opened


def test_an_invalid_run_says_why(tmp_path: Path) -> None:
    folder = lay(tmp_path, [Sent({"policy.py": "a = 1\n"})], valid=False, reasons=["provider"])
    text = Page(page_of(folder)).text
    assert "invalid provider" in text


def test_what_is_gone_or_spoiled_is_named_and_the_rest_is_shown(story: Path) -> None:
    (story / "submissions" / "0001" / "feedback" / "feedback.json").write_text("[not json")
    (story / "submissions" / "0002" / "feedback" / "replays" / "0000.gif").unlink()
    (story / "agent" / "attempt-1" / "transcript.json").write_text("{}}")
    for link in (story / "programs").iterdir():
        link.unlink()
    text = Page(page_of(story)).text
    assert "feedback.json cannot be read (" in text
    assert "1 picture no longer kept" in text
    assert "the transcript cannot be read" in text
    assert "are not there any more" in text


@pytest.mark.parametrize(
    "content", ["[]", '"x"', "5", '{"artifacts": 5}', '{"artifacts": [{}]}', '{"by_episode": [1]}']
)
def test_feedback_of_another_form_costs_only_itself(story: Path, content: str) -> None:
    (story / "submissions" / "0001" / "feedback" / "feedback.json").write_text(content)
    assert "Submission 2" in Page(page_of(story)).text


# --- hostile texts --------------------------------------------------------------------------------


def hostile(folder: Path) -> Path:
    call = ToolCall(
        HOSTILE,
        HOSTILE,
        {HOSTILE: HOSTILE + STEERING, "list": [HOSTILE]},
        HOSTILE + STEERING,
        failed=True,
    )
    failure = {"kind": HOSTILE, "message": HOSTILE, "traceback": f"Traceback\n{HOSTILE}{STEERING}"}
    row = {
        "index": HOSTILE,
        "score": HOSTILE,
        "length": {},
        "ending": HOSTILE,
        "measures": {HOSTILE: HOSTILE},
    }
    feedback = {
        "summary": {HOSTILE: {HOSTILE: HOSTILE}},
        "by_episode": [{**row, "failure": failure, "output": HOSTILE}],
    }
    step = Step("agent", HOSTILE + STEERING, HOSTILE, (call,), seconds=1.0)
    return lay(
        folder,
        [
            Sent(
                {"policy.py": f"text = '''{HOSTILE}{STEERING.replace(chr(0), '')}'''\n"},
                feedback=feedback,
                steps=[step],
            )
        ],
        after=[step, Step("user", HOSTILE)],
        label=HOSTILE[:80],
        versions={HOSTILE: HOSTILE},
        machine={HOSTILE: HOSTILE},
        axes={HOSTILE: HOSTILE},
        suite=HOSTILE,
        config={"agent": {HOSTILE: HOSTILE}},
        reasons=[HOSTILE],
    )


def test_no_text_of_an_agent_becomes_markup(tmp_path: Path) -> None:
    folder = hostile(tmp_path)
    found = find_runs(folder)
    for text in (page_of(folder), render_sweep(gather_sweep(found, HOSTILE))):
        page = Page(text)
        assert not page.tags.keys() & {"script", "iframe", "link", "form"}
        assert not page.images("picture")
        assert not [key for _, key, _ in page.attributes if key.startswith("on") or key == "style"]
        assert page.open == []
        assert "window.hit=1" in page.text
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_ten_megabytes_of_output_become_a_small_page_that_counts_what_it_left_out(
    tmp_path: Path,
) -> None:
    long = "x" * 10_000_000
    many = "line\n" * 2_000_000
    call = ToolCall("1", "shell", {"command": long}, many)
    feedback = {
        "by_episode": [
            {
                "index": i,
                "output": long[:1_000_000],
                "failure": {"kind": "exception", "traceback": f"{i}" + long[:100_000]},
            }
            for i in range(8)
        ]
    }
    folder = lay(
        tmp_path,
        [
            Sent(
                {"policy.py": f"a = '{long}'\n", "b.py": f"b = '{long[:200_000]}'\n"},
                feedback=feedback,
                steps=[said(long, call)],
            )
        ],
    )
    text = page_of(folder)
    assert len(text) < 400_000
    assert "9,994,000 characters left out" in text
    assert "198,0" in text and "characters of long lines left out" in text
    assert "policy.py" in text and "too large to compare" in text
    assert "3 other failures left out" in text
    assert "Output in 3 other Episodes left out" in text


def test_many_submissions_steps_episodes_and_diff_lines_are_bounded_and_counted(
    tmp_path: Path,
) -> None:
    rows = [{"index": i, "score": 1.0, "length": 2, "ending": "terminated"} for i in range(100)]
    steps = [said(f"thought {i}") for i in range(50)]
    sent = [
        Sent(
            {"policy.py": f"n = {n}\n" + "".join(f"x{i} = {n}\n" for i in range(100))},
            feedback={"by_episode": rows},
            steps=steps,
        )
        for n in range(5)
    ]
    text = Page(
        page_of(lay(tmp_path, sent), submissions=3, steps=9, episodes=10, diff_lines=20)
    ).text
    assert "2 Submissions left out: a report shows 3." in text
    assert "41 steps left out" in text
    assert "90 Episodes left out" in text
    assert "lines left out" in text
    assert "thought 0" in text and "thought 49" in text and "thought 20" not in text


def test_transcripts_share_the_room_of_the_report(tmp_path: Path) -> None:
    sent = [Sent({"policy.py": f"n = {n}\n"}, steps=[said("word " * 200)]) for n in range(3)]
    text = Page(page_of(lay(tmp_path, sent), transcript=1_500)).text
    assert "500 characters left out" in text
    assert "1,000 characters left out" in text


# --- pictures -------------------------------------------------------------------------------------


def test_the_selected_submissions_pictures_come_first_where_not_all_fit(tmp_path: Path) -> None:
    still = {"replays/0000.png": png()}
    sent = [Sent({"policy.py": f"n = {n}\n"}, score=10.0 - n, pictures=still) for n in range(3)]
    found = find_runs(lay(tmp_path, sent, selected=3))
    part = gather_run(found[0], found, replace(LIMITS, pictures_bytes=len(png()) + 5))
    assert [bool(one.feedback.artifacts[0].picture) for one in part.submissions] == [
        False,
        False,
        True,
    ]
    assert "1 picture (" in Page(render_run(part)).text


def test_only_files_that_are_pictures_inside_the_feedback_are_embedded(tmp_path: Path) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hit=1'/>"
    folder = lay(
        tmp_path,
        [
            Sent(
                {"policy.py": "n = 1\n"},
                pictures={"0000.gif": svg, "0001.svg": svg, "0002.png": png()},
            )
        ],
    )
    (tmp_path / "secret.png").write_bytes(png())
    feedback = folder / "submissions" / "0001" / "feedback"
    (feedback / "0003.png").symlink_to(tmp_path / "secret.png")
    content = json.loads((feedback / "feedback.json").read_text())
    row = content["artifacts"][2]
    outside = [
        {**row, "file": name, "episode": 3} for name in ("0003.png", "../../../../../../secret.png")
    ]
    (feedback / "feedback.json").write_text(
        json.dumps({**content, "artifacts": [*content["artifacts"], *outside]})
    )
    files = read_feedback(find_runs(folder)[0], 1, 10**6)
    assert [bool(one.picture) for one in files.artifacts] == [False, False, True, False, False]
    assert Page(page_of(folder)).images("picture") == 1


# --- what load reads ------------------------------------------------------------------------------


def test_changes_are_against_the_program_before(story: Path) -> None:
    run = find_runs(story)[0]
    one, two, _ = (s.program for s in run.state.submissions)
    assert "-gain = 1\n+gain = 2" in read_changes(run, one, two).text
    assert read_changes(run, one, one).text == ""
    assert "+gain = 1" in read_changes(run, None, one).text
    assert "not there any more" in read_changes(run, "0" * 64, one).problem


def test_steps_go_to_the_submission_they_led_to(story: Path) -> None:
    found, after = split_steps(read_transcripts(find_runs(story)[0]), [1, 2, 3])
    assert {number: len(steps) for number, steps in found.items()} == {1: 2}
    assert [step.text for step in after] == ["It is good enough."]


def test_new_numbers_in_a_file_are_an_edit_with_the_lines_of_its_card(tmp_path: Path) -> None:
    code = {"policy.py": "gain = 1\n"}
    numbers = [json.dumps({"gain": gain, "kept": 0}, indent=1) + "\n" for gain in (1, 2)]
    sent = [Sent({**code, "params.json": numbers[n]}, 5.0 + n) for n in (0, 1)]
    text = Page(page_of(lay(tmp_path, [*sent, sent[1]], selected=2))).text
    assert re.search(r"parametric[^+]*\+1 −1", text)
    assert re.search(r"retest[^+−]*none", text)
    assert "Changes against Submission 1: +1 −1" in text
    assert "Changes against Submission 2: none" in text
    assert "+0 −0" not in text


# --- several Runs ---------------------------------------------------------------------------------


def test_a_sweep_shows_ranks_and_every_number_links_to_its_run(
    lay_run: Callable[..., Path], lay_sweep: Callable[..., Path], plan: Callable[..., Any]
) -> None:
    for label, scores in (("ada", (1.0, 3.0)), ("bob", (5.0, 7.0))):
        for seed in (0, 1):
            lay_run(label, "cartpole", seed, scores)
    cells = [plan(label, "cartpole", seed) for label in ("ada", "bob") for seed in (0, 1)]
    folder = lay_sweep([*cells, plan("ada", "acrobot", 0, "failed", HOSTILE)])
    page = Page(render_sweep(gather_sweep(find_runs(folder), "Sweep trial")))
    assert "4 of 5 cells done: 2 entries on 2 Benchmarks." in page.text
    assert page.text.index("bob") < page.text.index("ada")
    assert [value for value in page.values("href") if value.startswith("#run-")] != []
    assert {value[1:] for value in page.values("href")} <= set(page.ids)
    assert {f"run-{n}" for n in range(1, 5)} <= set(page.ids)
    assert "ada on acrobot, seed 0: failed." in page.text
    assert page.open == []
    assert all(
        later <= before + 1 for before, later in zip(page.headings, page.headings[1:], strict=False)
    )


def test_a_sweep_says_what_it_was_measured_under_and_means_one_thing_by_an_error(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    for label, base in (("ada", -1149.0), ("bob", -1300.5)):
        for seed in range(3):
            numpy = "2.0" if seed else "2.1"
            lay_run(
                label,
                "cartpole",
                seed,
                [base + 14 * seed, base + 14 * seed + 30],
                versions={"numpy": numpy},
            )
    found = find_runs(tmp_path / "outputs")
    text = Page(render_sweep(gather_sweep(found, "Runs", allow=["versions"]))).text
    for words in (
        "Policies landlock, agent landlock", "not the paper's: pool", "4 Submissions, 8 units, " "allow_early",
        "derived, seed 0, 16/4/8 Episodes", "validation_mean", "1970-01-01 00:00 UTC", "numpy", "2.1; 2.0",
    ):  # fmt: skip
        assert words in text, words
    assert "−1120 ± 8" in text and "−1272 ± 8" in text
    assert text.count("±") == 3 and "± is one standard error over 3 seeds" in text


def test_runs_that_may_not_be_compared_are_listed_without_ranks(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    lay_run("ada", "cartpole")
    lay_run("bob", "cartpole", isolation="none")
    found = find_runs(tmp_path / "outputs")
    text = Page(render_sweep(gather_sweep(found, "Runs"))).text
    assert "No ranks: the comparison mixes isolation levels" in text
    assert (
        "No ranks" not in Page(render_sweep(gather_sweep(found, "Runs", allow=["isolation"]))).text
    )


def test_a_sweeps_estimated_cost_and_tokens_are_marked(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    lay_run(
        "ada", "cartpole", usage={"cost_usd": 2.0, "cost_is_estimate": True, "output_tokens": 70}
    )
    lay_run(
        "bob", "cartpole", usage={"cost_usd": 3.0, "output_tokens": 90, "tokens_are_estimate": True}
    )
    text = Page(render_sweep(gather_sweep(find_runs(tmp_path / "outputs"), "Runs"))).text
    assert "≈$2.00" in text
    assert "≈$3.00" not in text
    assert "≈90" in text
    assert "≈70" not in text
    assert "≈ marks a cost that is estimated" in text
    assert "≈ marks tokens that are estimated" in text


def test_a_large_sweep_has_sections_for_some_runs_and_says_for_how_many(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    for seed in range(4):
        lay_run("ada", "cartpole", seed)
    from evopolicy.analysis.report.gather import IN_SWEEP

    limits = replace(IN_SWEEP, runs=3)
    page = Page(
        render_sweep(gather_sweep(find_runs(tmp_path / "outputs"), "Runs", limits=limits), limits)
    )
    assert "1 Run without a section: a report shows 3." in page.text
    assert "run-4" not in page.ids
    assert {value[1:] for value in page.values("href")} <= set(page.ids)


def test_a_figure_is_an_image_so_that_nothing_in_it_runs(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    lay_run("ada", "cartpole")
    figure = Figure("Ranks <b>", "bars", b"<svg><script>window.hit=1</script></svg>")
    page = Page(
        render_sweep(gather_sweep(find_runs(tmp_path / "outputs"), "Runs", figures=[figure]))
    )
    assert page.tags["script"] == 0
    assert page.images("figure") == 3, "and two of the Run's own"
    assert "Ranks <b>" in page.text


def test_figures_are_drawn_for_light_and_dark_or_say_why_not(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    for label in ("ada", "bob"):
        for seed in (0, 1):
            lay_run(label, "cartpole", seed, (1.0, 2.0 + seed))
    figures = draw_figures(find_runs(tmp_path / "outputs"))
    assert figures[0].title == "Rank scores"
    assert figures[0].svg and figures[0].dark and figures[0].svg != figures[0].dark
    page = Page(
        render_sweep(gather_sweep(find_runs(tmp_path / "outputs"), "Runs", figures=figures))
    )
    drawn = sum(bool(figure.svg) for figure in figures)
    assert page.tags["picture"] == page.images("figure") == drawn + 2 * 4, (
        "and two of each Run's own"
    )
    lay_run("cy", "cartpole", isolation="none")
    refused = draw_figures(find_runs(tmp_path / "outputs"))[0]
    assert "isolation" in refused.problem
    page = Page(
        render_sweep(gather_sweep(find_runs(tmp_path / "outputs"), "Runs", figures=[refused]))
    )
    assert "Not drawn: the comparison mixes isolation levels" in page.text


# --- markup ---------------------------------------------------------------------------------------


def test_text_is_escaped_in_content_and_in_attributes() -> None:
    assert (
        tag("p", "<b>&\"'", title='"><i>')
        == '<p title="&quot;&gt;&lt;i&gt;">&lt;b&gt;&amp;&quot;&#x27;</p>'
    )
    assert join("<", Html("<br>"), None, 3, ["&"]) == "&lt;<br>3&amp;"


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("script", {}), ("iframe", {}), ("p", {"onclick": "x"}), ("p", {"style": "x"}), ("a", {"href": "http://x"}),
        ("a", {"href": "javascript:x"}), ("img", {"src": "x.png"}), ("img", {"src": "data:text/html;base64,x"}),
        ("P x=1", {}),
    ],
)  # fmt: skip
def test_what_no_report_has_is_refused(name: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="page"):
        tag(name, **attributes)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("a\r\nb\tc\x00", "a\nb\tc\ufffd"),
        ("\u202eabc\u2066", "\ufffdabc\ufffd"),
        ("\ud800", "\ufffd"),
        ("größer 漢字 🙂 −", "größer 漢字 🙂 −"),
    ],
)
def test_what_steers_is_taken_out_and_what_cannot_be_seen_is_shown(text: str, shown: str) -> None:
    assert harmless(text) == shown
    assert escape(text).encode()


def test_what_is_cut_is_counted() -> None:
    assert cut("abc", 5) == ("abc", "")
    assert cut("abcdef", 4) == ("abcd", "2 characters left out")
    assert cut(f"{'a' * 30}\nb", 100, 10) == (f"{'a' * 10}…\nb", "20 characters left out")
    assert "6 characters left out" in block("abcdefgh", 2)
    assert line("a\n b" * 100, 10) == "a ba ba b…"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (-1.5, "−1.5"),
        (1234567.0, "1,234,567"),
        (0.123456, "0.1235"),
    ],
)
def test_numbers_are_short(value: float | None, shown: str) -> None:
    assert typeset(value) == shown
