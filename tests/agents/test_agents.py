"""Names, configs, probes and the contract of every agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from evopolicy.agents import AGENTS, agent_names, config_class, load_agent
from evopolicy.agents.baseline.config import BaselineConfig
from evopolicy.agents.baseline.integration import Baseline
from evopolicy.agents.contract import EXAMPLE_URL, AgentContract, check_agent, example_task
from evopolicy.agents.provider import ModelProvider
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.kernel.ports.protocols import AgentIntegration, Invocation
from evopolicy.kernel.ports.transcript import Transcript, turns

CONF = Path(__file__).parents[2] / "conf"
STREAM = (
    '{"step": "session", "argv": ["submit", "program", "--episodes", "0:8"], "result": {}, "submission": 1}\n',
    '{"step": "note", "text": "one done"}\n',
    '{"step": "done"}\n',
)  # fmt: skip


_ADDRESS = {"model": "m-1", "base_url": "http://127.0.0.1:1/v1"}
NEEDED: dict[str, dict[str, Any]] = {"chat": _ADDRESS, "opencode": _ADDRESS}
"""Options without which an agent cannot be made."""
PROVIDER = {"url": "https://api.example.com/v1", "paths": ["POST /responses"]}


def values(name: str, **options: Any) -> dict[str, Any]:
    return {**yaml.safe_load((CONF / "agent" / f"{name}.yaml").read_text()), **options}


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_the_yaml_has_exactly_the_keys_of_the_dataclass(name: str) -> None:
    config = values(name)
    assert set(config) == {field.name for field in fields(config_class(name))}
    assert (config["name"], config["label"]) == (name, "")
    assert load_agent(name, {**config, **NEEDED.get(name, {})})


@pytest.mark.parametrize(
    "path", sorted((CONF / "prompt").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_prompt_says_where_the_task_is(path: Path) -> None:
    prompt = yaml.safe_load(path.read_text())
    assert set(prompt) == {"name", "text", "skills"}
    assert prompt["name"] == path.stem
    assert "TASK.md" in prompt["text"]


def test_an_unknown_agent_names_the_near_one() -> None:
    with pytest.raises(AgentError, match=r"'cmaes' is unknown\. Did you mean 'cma_es'"):
        load_agent("cmaes", {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"populaton": 3}, "agent.populaton: .*Did you mean 'population'"),
        ({"population": "many"}, "agent.population: expected 'int | null', got 'str'"),
        ({"population": 1}, "agent.population: at least 2 is needed, found 1"),
        ({"sigma": 0.0}, "agent.sigma: a number above 0 is needed, found 0"),
        ({"sigma": float("nan")}, "agent.sigma"),
        ({"sigma": ...}, "agent.sigma: is missing"),
    ],
)
def test_a_wrong_option_is_named_by_its_key(change: dict[str, Any], said: str) -> None:
    config = {key: value for key, value in (values("cma_es") | change).items() if value is not ...}
    with pytest.raises(ConfigError, match=said):
        load_agent("cma_es", config)


def test_a_config_of_another_agent_is_refused() -> None:
    with pytest.raises(ConfigError, match="CmaEsConfig or a mapping"):
        load_agent("cma_es", BaselineConfig("baseline", "", "", 1, None))


def test_label_is_the_name_unless_given_and_options_are_all_the_rest() -> None:
    assert load_agent("baseline", values("baseline")).identity.label == "baseline"
    identity = load_agent("baseline", values("baseline", label="floor", repeats=3)).identity
    assert (identity.label, identity.name) == ("floor", "baseline")
    assert identity.options == {"repeats": 3, "episodes": None}


def test_agents_of_other_distributions_are_found_and_cannot_take_a_name_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = "evopolicy.agents.random.integration:Random"
    outside = [
        metadata.EntryPoint(name, ours, "evopolicy.agents") for name in ("visitor", "baseline")
    ]
    broken = metadata.EntryPoint("broken", "evopolicy.agents.nowhere:Agent", "evopolicy.agents")
    for module in ("evopolicy.agents", "evopolicy.kernel.named"):
        monkeypatch.setattr(
            f"{module}.entry_points", lambda group: [*outside, broken] if group else []
        )
    assert "visitor" in agent_names()
    assert load_agent("visitor", values("random")).program == "random"
    assert load_agent("baseline", values("baseline")).program == "initial"
    with pytest.raises(AgentError, match="'broken' cannot be imported"):
        load_agent("broken", {})


def test_random_and_cma_es_begin_with_their_own_program() -> None:
    assert load_agent("random", values("random")).program == "random"
    assert load_agent("cma_es", values("cma_es")).program == "parametric"


def test_cma_es_says_how_to_install_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = load_agent("cma_es", values("cma_es"))
    assert set(agent.probe()) == {"cma", "numpy"}

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("evopolicy.agents.scripted.invocation.metadata.version", missing)
    with pytest.raises(AgentError, match="pip install cma"):
        agent.probe()


# --- command --------------------------------------------------------------------------------------


def test_a_missing_executable_is_named_before_anything_is_spent() -> None:
    agent = load_agent("command", values("command", argv=["no-such-agent", "{task}"]))
    for call in (agent.probe, lambda: agent.invoke(example_task())):
        with pytest.raises(AgentError, match="no executable 'no-such-agent' here; install it"):
            call()
    with pytest.raises(AgentError, match=r"agent\.argv: is empty"):
        load_agent("command", values("command")).probe()


def test_an_executable_is_named_in_full_and_may_be_read(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "agent", tmp_path / "agent"
    real.parent.mkdir()
    real.write_text("#!/bin/sh\necho agent 1.2\n")
    real.chmod(0o755)
    link.symlink_to(real)
    agent = load_agent("command", values("command", argv=[str(link), "{task}"], ask_version=True))
    assert agent.probe() == {"agent": "agent 1.2"}
    invocation = agent.invoke(example_task())
    assert invocation.argv == (str(link), "/workspace/TASK.md")
    assert set(invocation.readable) == {link, real}
    assert invocation.provider is None


def test_a_command_with_a_provider_is_pointed_at_it_and_kept_to_its_model() -> None:
    provider = {
        "url": "https://api.example.com/v1",
        "paths": ["POST /responses"],
        "key_variable": "EXAMPLE_KEY",
    }
    options = {
        "argv": ["sh", "{provider_url}"],
        "environment": {"BASE": "{provider_url}/"},
        "provider": provider,
    }
    agent = load_agent("command", values("command", model="m-1", **options))
    invocation = agent.invoke(example_task(provider_url="http://127.0.0.1:1"))
    assert (invocation.argv[1], invocation.environment) == (
        "http://127.0.0.1:1",
        {"BASE": "http://127.0.0.1:1/"},
    )
    assert invocation.provider is not None and invocation.provider == agent.provider
    assert (invocation.provider.url, invocation.provider.models) == (
        "https://api.example.com/v1",
        ("m-1",),
    )
    assert "web_search" in invocation.provider.refused_tools
    assert agent.identity.options["provider"]["key_variable"] == "EXAMPLE_KEY"
    with pytest.raises(
        ConfigError, match=r"agent\.provider: object missing required field 'paths'"
    ):
        load_agent("command", values("command", provider={"url": "https://api.example.com"}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"argv": ["a\0b"]}, "agent.argv"),
        ({"argv": ["x" * 200_000]}, "128 KiB"),
        ({"program": "best"}, "agent.program"),
        ({"parser": "claude"}, "agent.parser: 'claude' is unknown. Did you mean 'claude_code'"),
        ({"provider": PROVIDER}, "agent.model: is empty; name the one model"),
        ({"provider": {**PROVIDER, "models": []}}, "agent.model: is empty; name the one model"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_agent("command", values("command") | change)


def test_a_provider_that_names_its_models_needs_no_other() -> None:
    options = {"argv": ["sh", "{provider_url}"], "provider": {**PROVIDER, "models": ["a", "b"]}}
    provider = load_agent("command", values("command", **options)).provider
    assert provider is not None and provider.models == ("a", "b")


def test_lines_with_a_text_are_read_as_that_text() -> None:
    transcript = load_agent("command", values("command")).read(
        ["plain\n", '{"text": "said"}', "\n", '{"n": 1}']
    )
    assert [step.text for step in transcript.steps] == ["plain", "said", '{"n": 1}']
    assert [step.source for step in transcript.steps] == ["tool", "agent", "tool"]
    lines = load_agent("command", values("command")).read(["one\n", "two\n", "\n", "three\n"])
    assert [step.text for step in lines.steps] == ["one\ntwo\nthree"] and turns(lines) == 0, (
        "lines are no turns"
    )
    assert lines.completed is None, "its exit code alone tells how it ended"


def test_qwen_codes_parts_of_an_answer_are_one_turn_and_its_input_is_without_the_cache() -> None:
    def says(**block: Any) -> str:
        return json.dumps(
            {
                "type": "assistant",
                "message": {"id": str(block), "role": "assistant", "content": [block]},
            }
        )

    result = {"type": "tool_result", "tool_use_id": "c1", "content": "written"}
    usage = {"input_tokens": 100, "cache_read_input_tokens": 30, "output_tokens": 7}
    lines = [
        json.dumps({"type": "system", "subtype": "init", "session_id": "s", "model": "m"}),
        says(type="thinking", thinking="hm"), says(type="text", text="I write."),
        says(type="tool_use", id="c1", name="run_shell_command", input={"command": "ls"}),
        json.dumps({"type": "user", "message": {"role": "user", "content": [result]}}),
        says(type="text", text="Done."),
        json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "", "usage": usage}),
    ]  # fmt: skip
    read = load_agent("command", values("command", parser="qwen_code")).read(lines)
    assert (turns(read), read.completed, read.response_ids, read.malformed_lines) == (
        2,
        True,
        (),
        0,
    )
    assert (read.steps[0].reasoning, read.steps[0].text, read.steps[0].calls[0].result) == (
        "hm",
        "I write.",
        "written",
    )
    assert (read.usage.input_tokens, read.usage.cached_tokens, read.usage.output_tokens) == (
        70,
        30,
        7,
    )


@pytest.mark.parametrize(
    ("status", "completed"), [("Submitted", True), ("RateLimitError", False), ("", None)]
)
def test_a_kept_file_of_messages_is_read_in_the_place_of_its_output(
    tmp_path: Path, status: str, completed: bool | None
) -> None:
    call = {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "policy.py"}, {"role": "exit", "content": "x"},
        {"role": 3}, 4,
    ]  # fmt: skip
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a.traj.json").write_text(
        json.dumps({"messages": messages, "info": {"exit_status": status}})
    )
    (tmp_path / "home" / "b.json").write_text("{")
    agent = load_agent("command", values("command", parser="messages"))
    read = agent.read(["noise\n"], tmp_path)
    assert (turns(read), read.completed, read.steps[2].calls[0].result) == (
        1,
        completed,
        "policy.py",
    )
    assert read.error_kind == ("rate_limit" if status == "RateLimitError" else "")
    assert [step.text for step in agent.read(["noise\n"], tmp_path / "none").steps] == ["noise"]


# --- transcripts of scripts -----------------------------------------------------------------------


def read(*lines: str) -> Transcript:
    return load_agent("baseline", values("baseline")).read(lines)


def test_a_stream_without_its_end_is_not_completed() -> None:
    assert read(*STREAM).completed
    assert not read(*STREAM[:-1]).completed
    assert not read().completed


def test_an_error_is_kept_in_its_own_words() -> None:
    transcript = read(STREAM[0], json.dumps({"step": "error", "text": "over the budget"}))
    assert (transcript.completed, transcript.error, transcript.error_kind) == (
        False,
        "over the budget",
        "other",
    )


def test_unknown_and_malformed_lines_are_counted() -> None:
    transcript = read('{"step": "dance"}', "{", '{"step": 3}', STREAM[1])
    assert (dict(transcript.unknown_events), transcript.malformed_lines, len(transcript.steps)) == (
        {"dance": 1},
        2,
        1,
    )


# --- the contract ---------------------------------------------------------------------------------


class TestBaselineContract(AgentContract):
    stream = STREAM

    def make(self) -> AgentIntegration:
        return load_agent("baseline", values("baseline"))


class TestCmaEsContract(AgentContract):
    stream = STREAM

    def make(self) -> AgentIntegration:
        return load_agent("cma_es", values("cma_es"))


class TestCommandWithProviderContract(AgentContract):
    stream = ("one\n", "two\n")

    def make(self) -> AgentIntegration:
        options = {"argv": ["sh", "-c", "{provider_url}"], "provider": PROVIDER}
        return load_agent("command", values("command", model="m-1", **options))


class TestCommandContract(AgentContract):
    stream = ("one\n", "two\n")

    def make(self) -> AgentIntegration:
        return load_agent("command", values("command", argv=["sh", "-c", "true"]))


ASKED = ModelProvider("https://api.example.com", ("POST /chat",), models=("m",))
BROKEN = {"provider": ASKED, "other": ASKED, "models": replace(ASKED, models=())}


@dataclass(frozen=True)
class Broken(Baseline):
    """Breaks one rule of the contract at a time."""

    rule: str = ""

    @property
    def provider(self) -> Any:  # type: ignore[override]
        return BROKEN.get(self.rule)

    @property
    def identity(self) -> Any:
        identity = super().identity
        if self.rule == "name":
            return replace(identity, name="Base Line")
        return replace(identity, options={"path": Path()}) if self.rule == "options" else identity

    def probe(self) -> Any:
        return {"version": 3} if self.rule == "probe" else {}

    def invoke(self, task: Any) -> Invocation:
        invocation = super().invoke(task)
        changes: dict[str, dict[str, Any]] = {
            "argv": {"argv": ()},
            "prompt": {"argv": ("agent", task.prompt)},
            "files": {"files": {"../outside": ""}},
            "secret": {"environment": {"KEY": "sk-0123456789abcdef"}},
            "home": {"home": {"/etc/login": Path("/etc/login")}},
            "models": {"argv": (EXAMPLE_URL,)},
            "other": {"argv": (EXAMPLE_URL,), "provider": replace(ASKED, paths=("POST /more",))},
            "hidden": {"argv": (EXAMPLE_URL,), "provider": ASKED},
        }
        return replace(invocation, **{"provider": self.provider, **changes.get(self.rule, {})})

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        if self.rule == "read":
            return Transcript(tuple(json.loads(line) for line in lines))
        return Transcript(completed=True) if self.rule == "silent" else super().read(lines, logs)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("name", "snake_case"), ("options", "options"), ("probe", "probe"), ("argv", "argv is empty"),
        ("prompt", "128 KiB"), ("files", "outside"), ("home", "/etc/login"),
        ("provider", "not pointed at task.provider_url"), ("models", "provider: it names no model"),
        ("other", "provider: the one of invoke is another"), ("hidden", "provider: the one of " "invoke is another"),
        ("secret", "SOME_API_KEY"), ("read", "read raised"),
        ("silent", "neither kept nor counted"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(rule: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    config = BaselineConfig("baseline", "", "", 1, None)
    check_agent(Broken(config), STREAM)
    with pytest.raises(AgentError, match=f"agent contract: .*{said}"):
        check_agent(Broken(config, rule), STREAM)


@pytest.mark.parametrize(
    ("name", "model", "served"),
    [
        ("claude_code", "sonnet", None), ("claude_code", "opus[1m]", None), ("gemini_cli", "auto", None),
        ("gemini_cli", "flash", None), ("claude_code", "claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("gemini_cli", "gemini-2.5-pro", "gemini-2.5-pro"),
    ],
)  # fmt: skip
def test_a_name_that_its_program_turns_into_another_model_is_refused_before_anything_is_spent(
    name: str, model: str, served: str | None
) -> None:
    if served is None:
        with pytest.raises(
            ConfigError,
            match=rf"agent\.model: '{re.escape(model)}' is an alias.*name the model's id",
        ):
            load_agent(name, values(name, model=model))
    else:
        provider = load_agent(name, values(name, model=model)).provider
        assert provider is not None and provider.models == (served,)
