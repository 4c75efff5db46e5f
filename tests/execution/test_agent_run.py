"""Whole Runs with an agent that looks for what it must not see: pool, secret, simulators, record,
other processes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from evopolicy import build, cells
from evopolicy.execution import isolation
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.session.record import Run
from evopolicy.presets import load_config
from tests.execution import upstream as up

POOL_SEED, SECRET = 731906482, "the-secret-of-this-pool"
FORBIDDEN = (
    "gymnasium",
    "mujoco",
    "evopolicy_classic_control",
    "evopolicy_mujoco",
    "mlflow",
    "evopolicy",
)
SEARCH = """
import importlib, json, os, subprocess, sys
words = [word[::-1] for word in json.loads(sys.argv[1])]  # backwards, or the search would find itself
roots, system = json.loads(sys.argv[2]), ("/usr", "/sys", "/proc")
found = {"words": [], "names": [], "imports": [], "processes": [], "environment": []}
names = {"record.json", "journal.jsonl", "mlflow.db", "gymnasium", "mujoco", "evopolicy_classic_control", "graded"}
def holds(path):
    try:
        if os.path.isfile(path) and os.path.getsize(path) < 1 << 24:
            with open(path, "rb") as file:
                content = file.read(1 << 24)
            return [word for word in words if word.encode() in content]
    except OSError:
        pass
    return []
for root in roots:
    for folder, folders, files in os.walk(root):
        if folder in ("/proc", "/sys"):
            folders[:] = []
            continue
        found["names"] += [os.path.join(folder, name) for name in folders + files if name in names]
        if not folder.startswith(system) and not folder.endswith("/search"):
            for name in files:
                found["words"] += [os.path.join(folder, name) for _ in holds(os.path.join(folder, name))]
for name in ("gymnasium", "mujoco", "evopolicy_classic_control", "evopolicy_mujoco", "mlflow", "evopolicy"):
    try:
        importlib.import_module(name)
        found["imports"].append(name)
    except ImportError:
        pass
def text(path):
    try:
        with open(path, "rb") as file:
            return file.read().replace(b"\\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
try:
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
except OSError:
    processes = []
for process in processes:
    said = text(f"/proc/{process}/cmdline"), text(f"/proc/{process}/environ")
    if "evopolicy." in said[0] or any(word in said[1] for word in words):
        found["processes"].append(said[0])
found["environment"] = [name for name, value in os.environ.items() if any(word in value for word in words)]
print(json.dumps({"text": json.dumps(found)}), flush=True)
"""
SUBMIT = """
set -e
mkdir -p program/inner/deep && cd program/inner/deep
evopolicy-session status > /dev/null
evopolicy-session submit ../.. --episodes 0:2
cat "$EVOPOLICY_WORKSPACE/feedback/0001/feedback.json" | tr '\\n' ' '
evopolicy-session finish
"""


def config(tmp_path: Path, level: str, roots: list[str], **agent: Any) -> Mapping[str, Any]:
    (tmp_path / "search").mkdir(exist_ok=True)
    (tmp_path / "search" / "search.py").write_text(SEARCH)
    words = json.dumps([str(POOL_SEED)[::-1], SECRET[::-1]])
    search = ["{python}", "-B", str(tmp_path / "search" / "search.py"), words, json.dumps(roots)]
    script = " ".join(f"'{word}'" for word in search) + SUBMIT
    return {
        "output": str(tmp_path / "output"),
        "benchmark": "cartpole",
        "pool": {"training": 4, "validation": 2, "assessment": 2, "seed": POOL_SEED},
        "secret": {"file": None, "variable": "POOL_SECRET"},
        "execution": {"isolation": level, "allow_unisolated": level == "none", "workers": 1},
        "tracking": "off",
        "session": {"block_seconds": 600},  # the agent asks once, however busy the machine is
        "agent": {
            "name": "command",
            "argv": ["sh", "-c", script],
            "readable": [str(tmp_path / "search")],
            **agent,
        },
    }


def ran(tmp_path: Path, level: str, roots: list[str]) -> tuple[Run, dict[str, Any], str]:
    """The Run, what its agent found, and all that it printed."""
    os.environ["POOL_SECRET"] = SECRET
    try:
        run = build.run_cell(load_config("smoke", **config(tmp_path, level, roots)))
    finally:
        del os.environ["POOL_SECRET"]
    logs = run.folder / "agent" / "attempt-1"
    printed = (logs / "stdout.log").read_text()
    assert printed, (logs / "stderr.log").read_text()
    return run, json.loads(json.loads(printed.splitlines()[0])["text"]), printed


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_an_agent_that_searches_all_it_sees_finds_nothing_and_its_run_is_whole(
    tmp_path: Path, level: str
) -> None:
    if not isolation.probe_level(level).works:
        pytest.skip(f"{level}: the probe says it does not work on this machine")
    run, found, printed = ran(tmp_path, level, ["/"])
    assert found == {"words": [], "names": [], "imports": [], "processes": [], "environment": []}
    assert run.valid and run.state.agent_ended == "finished"
    assert (run.record.agent_isolation, run.record.agent_network) == (level, "none")
    assert [(s.status, s.score) for s in run.state.submissions] == [
        ("published", run.state.submissions[0].score)
    ]
    assert '"status": "published"' in printed and "0001" in printed
    if level == "bubblewrap":
        assert str(tmp_path) not in printed.split("\n", 1)[1]
        assert str(tmp_path) not in (run.folder / "workspace" / "TASK.md").read_text()
        session = json.loads((run.folder / "workspace" / ".evopolicy" / "session.json").read_text())
        assert session["socket"] == "/run/evopolicy/session.sock"
        shutil.rmtree(run.folder)
        assert not run.folder.exists()


def test_the_same_search_without_isolation_finds_what_there_is(tmp_path: Path) -> None:
    _, found, _ = ran(tmp_path, "none", [str(tmp_path)])
    kinds = {Path(path).name for path in found["words"] + found["names"]}
    assert {"record.json", "journal.jsonl"} <= kinds
    assert found["processes"]


def test_an_agent_that_cannot_reach_its_provider_is_refused_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    provider = {
        "url": "https://api.example.com/v1",
        "paths": ["POST /chat"],
        "key_variable": "NO_SUCH_KEY",
    }
    settings = dict(config(tmp_path, "landlock", []), secret={"file": None, "variable": None})
    settings["agent"] = {**settings["agent"], "model": "m-1", "provider": provider}
    for level, said in (
        ("landlock", "needs isolation bubblewrap"),
        ("bubblewrap", "variable 'NO_SUCH_KEY'"),
    ):
        if isolation.probe_level(level).works:
            settings["execution"] = {"isolation": level}
            for start in (cells.cell_plan, build.run_cell):
                with pytest.raises(AgentError, match=said):
                    start(load_config("smoke", **settings))
    assert not list((tmp_path / "output" / "runs").rglob("journal.jsonl"))


def test_a_plan_knows_the_provider_without_an_invocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = {"url": "https://api.example.com/v1", "paths": ["POST /chat"]}
    settings = dict(config(tmp_path, "none", []), secret={"file": None, "variable": None})
    settings["agent"] = {**settings["agent"], "model": "m-1", "provider": provider}
    settings["execution"] = {
        "isolation": "none",
        "allow_unisolated": True,
        "agent_network": "proxy",
    }

    def invoke(*_: object) -> NoReturn:
        raise AssertionError("asked how to start before there is anything to start")

    monkeypatch.setattr("evopolicy.agents.command.integration.Command.invoke", invoke)
    with pytest.raises(AgentError, match="agent_network=proxy needs isolation bubblewrap"):
        cells.cell_plan(load_config("smoke", **settings))


@pytest.mark.skipif(
    not isolation.probe_level("bubblewrap").works,
    reason="bubblewrap: the probe says it does not work on this machine",
)
def test_a_model_asked_by_the_proxy_is_in_the_runs_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_KEY", "sk-0123456789abcdef")
    with up.provider(up.says({"usage": {"input_tokens": 5, "output_tokens": 2}})) as upstream:
        provider = {"url": upstream.url, "paths": ["POST /chat"], "key_variable": "EXAMPLE_KEY"}
        ask = (
            "import os, urllib.request as r; print(r.urlopen(r.Request(os.environ['URL'] + '/chat',"
            ' b\'{"model": "m-1"}\')).status)'
        )
        agent = {"model": "m-1", "provider": provider, "environment": {"URL": "{provider_url}"}}
        settings = dict(
            config(tmp_path, "bubblewrap", [], **agent), secret={"file": None, "variable": None}
        )
        settings["agent"]["argv"] = ["{python}", "-c", ask]
        run = build.run_cell(load_config("smoke", **settings))
    assert run.record.agent_network == "proxy"
    (line,) = (run.folder / "agent" / "attempt-1" / "proxy.jsonl").read_text().splitlines()
    assert json.loads(line)["model"] == "m-1" and json.loads(line)["input_tokens"] == 5
    assert upstream.asked[0].headers["authorization"] == "Bearer sk-0123456789abcdef"
    kept = [
        path
        for path in run.folder.rglob("*")
        if path.is_file() and b"sk-0123456789" in path.read_bytes()
    ]
    assert kept == []
