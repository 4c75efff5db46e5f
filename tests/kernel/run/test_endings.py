"""How an attempt ended: what an agent could do is a score, what kept it from trying never is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.ports.protocols import Provider
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript, Usage
from evopolicy.kernel.run.endings import Ending, judged, remedy, words
from evopolicy.kernel.session.failures import MEANINGS

PROVIDER = Provider(
    "https://api.example.com/v1",
    ("POST /responses",),
    (),
    key_variable="EXAMPLE_KEY",
    models=("m",),
)
WORKED = (Step("agent", calls=(ToolCall("1", "shell"),)),)


def end(
    reason: str, transcript: Transcript | None = None, served: ProxyUsage | None = None, **more: Any
) -> Ending:
    given: dict[str, Any] = {
        "provider": None,
        "answered_before": False,
        "submitted": False,
        "wall_seconds": 100.0,
    }
    return Ending(
        reason, 1, transcript or Transcript(), served, **{**given, "logs": Path("none"), **more}
    )


def asked(answers: int = 5, requests: int = 9, **more: Any) -> ProxyUsage:
    return ProxyUsage(Usage(requests=requests, output_tokens=answers), answers=answers, **more)


def error(kind: Any, **more: Any) -> Transcript:
    return Transcript(error="x", error_kind=kind, **more)


@pytest.mark.parametrize(
    ("reason", "transcript", "proxy", "said"),
    [
        ("exited", Transcript(completed=True), None, "exited"),
        ("exited", Transcript(), None, "crashed"),  # an exit code that lies
        ("exited", error("other"), None, "crashed"),
        ("crashed", error("overload"), None, "provider"),
        ("exited", error("rate_limit"), None, "provider"),
        # a stream that says nothing of it
        ("crashed", Transcript(), asked(trouble="network"), "provider"),
        ("crashed", Transcript(completed=True), asked(trouble="network"), "crashed"),
        ("idle", Transcript(), asked(trouble="overload"), "provider"),
        ("idle", Transcript(), asked(), "idle"),
        ("crashed", error("authentication"), None, "authentication"),
        ("crashed", error("authentication"), asked(trouble="authentication"), "authentication"),
        # the provider has refused no login
        ("crashed", error("authentication"), asked(), "crashed"),
        ("crashed", error("context"), asked(trouble="rate_limit"), "context"),
        ("crashed", error("refusal"), None, "refusal"),
        ("crashed", error("other"), asked(trouble="other"), "unanswered"),  # a 400 to the very end
        # one its shell may have asked for
        ("crashed", Transcript(), asked(trouble="other"), "crashed"),
        ("wall_time", error("overload"), asked(trouble="overload", failing_seconds=9), "wall_time"),
        ("wall_time", error("overload"), asked(trouble="overload", failing_seconds=10), "provider"),
        ("wall_time", error("overload"), None, "provider"),
        ("wall_time", Transcript(), asked(), "wall_time"),
        ("finished", error("overload"), None, "finished"),
        ("tokens", Transcript(), asked(trouble="overload"), "tokens"),
        # A limit of the Host's own, whatever the agent's program takes it for.
        ("crashed", error("authentication"), asked(over="requests", refused="used up"), "requests"),
        ("exited", error("rate_limit"), asked(over="tokens"), "tokens"),
        ("crashed", error("overload"), asked(over="requests", trouble="overload"), "provider"),
    ],
)  # fmt: skip
def test_an_end_is_judged_by_exit_stream_and_proxy_together(
    reason: str, transcript: Transcript, proxy: ProxyUsage | None, said: str
) -> None:
    assert judged(end(reason, transcript, proxy)) == said
    assert said in MEANINGS
    if proxy is not None:
        assert judged(end(reason, transcript, proxy, provider=PROVIDER)) == said


@pytest.mark.parametrize(
    "reason", ["exited", "crashed", "idle", "wall_time", "tokens", "cost", "requests"]
)
@pytest.mark.parametrize(
    ("transcript", "proxy", "said"),
    [
        (Transcript(), asked(0, 0), "unanswered"),  # its program never came to ask
        (Transcript(completed=True), asked(0, 0), "unanswered"),
        (error("overload"), asked(0, 0), "unanswered"),
        # so its program says; no provider has
        (error("authentication"), asked(0, 0), "unanswered"),
        (Transcript(), asked(0, 3, trouble="other", words="404"), "unanswered"),
        # as Kimi Code takes it
        (error("network"), asked(0, 3, trouble="other", words="404"), "unanswered"),
        (error("overload"), asked(0, 3, trouble="rate_limit"), "provider"),
        (Transcript(completed=True), asked(0, 3, trouble="overload"), "provider"),
        (Transcript(), asked(0, 3), "provider"),  # not a word
        (Transcript(), asked(0, 3, trouble="authentication"), "authentication"),
        # as Qwen Code takes it
        (Transcript(completed=True), asked(0, 3, trouble="authentication"), "authentication"),
        (error("authentication"), asked(0, 0, refused="its model is another"), "unanswered"),
        (error("other"), None, "unanswered"),
        (error("network"), None, "provider"),
    ],
)  # fmt: skip
def test_an_agent_whose_model_never_answered_is_no_result_however_it_ended(
    reason: str, transcript: Transcript, proxy: ProxyUsage | None, said: str
) -> None:
    seen = end(reason, transcript, proxy, provider=PROVIDER)
    assert judged(seen) == said
    assert not MEANINGS[said].valid
    # What asks no model, what has submitted all the same, and what was seen to work was not kept
    # from trying.
    assert MEANINGS[judged(end(reason, replace(transcript, error_kind=""), None))].valid
    for worked in (
        replace(seen, submitted=True),
        replace(seen, transcript=replace(transcript, steps=WORKED)),
    ):
        assert not worked.unheard


def test_a_limit_that_an_earlier_attempt_has_spent_is_that_limit() -> None:
    over = asked(
        0, 0, over="cost", refused="this Run's 2 US dollars are used up (session.limits.cost_usd)."
    )
    seen = end("crashed", error("authentication"), over, provider=PROVIDER, answered_before=True)
    assert (judged(seen), words(seen, "cost")) == ("cost", over.refused)
    assert judged(replace(seen, answered_before=False)) == "unanswered"


def test_what_is_said_is_the_providers_own_words_else_the_proxys_else_the_last_of_its_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "stderr.log").write_text("warning: x\n\nerror: unexpected argument '--bogus'\n")
    refused = asked(0, 0, refused="this Run's model is 'm'")
    seen = end(
        "crashed",
        error("network"),
        asked(0, 1, words="https://a: 404 no"),
        provider=PROVIDER,
        logs=tmp_path,
    )
    assert words(seen, "unanswered") == "https://a: 404 no"
    assert words(replace(seen, proxied=refused), "unanswered") == "this Run's model is 'm'"
    silent = replace(seen, proxied=asked(0, 0), transcript=Transcript())
    said = words(silent, "unanswered")
    assert (
        said.startswith("its program ended with exit code 1 before it asked")
        and "'--bogus'" in said
    )
    assert "agent.arguments" in remedy("unanswered", said, PROVIDER)
    assert "EXAMPLE_KEY (agent.key_variable)" in remedy("authentication", "", PROVIDER)
    assert "https://api.example.com/v1: no answer to 3 of its requests" in words(
        replace(silent, proxied=asked(0, 3)), "provider"
    )
    assert words(seen, "crashed") == "x"
