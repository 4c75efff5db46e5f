"""An agent that leaks its keys wherever it can: nothing the project wrote holds one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicy.analysis import find_runs
from tests.end_to_end.coding_run import holding, needs_bubblewrap
from tests.execution import upstream as up

pytestmark = [pytest.mark.slow, needs_bubblewrap, pytest.mark.xdist_group("coding_secrets")]

NAMED = "correct-horse-battery-staple"
"""Of a variable that `agent.variables` names; it looks like no key."""
PROVIDERS = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"
"""The provider's, which the Host's proxy holds. The provider itself gives it away, in what it answers."""
LEAK = """
import json, os, pathlib, subprocess, sys, urllib.error, urllib.request
named = os.environ["LEAKED_TOKEN"]
request = urllib.request.Request(sys.argv[1] + "/chat", b'{"model": "m-1"}')
try:
    answer = urllib.request.urlopen(request).read().decode()
except urllib.error.HTTPError as error:
    answer = error.read().decode()
provided = json.loads(answer)["error"]["message"].split()[-1]
secrets = {"named": named, "provided": provided, "both": named + provided}

# Its stream, as text and as JSON, in one piece and in two, and with the environment.
print("my keys are", named, provided, flush=True)
print(json.dumps({"text": f"{named} {provided}", "inner": json.dumps(secrets)}), flush=True)
sys.stdout.write(provided[:9]); sys.stdout.flush()
sys.stdout.write(provided[9:] + "\\n"); sys.stdout.flush()
subprocess.run(["env"])
print(named, provided, answer, file=sys.stderr, flush=True)
print("x" * 70000 + named + "y" * 70000 + provided, flush=True)

# Its files, in the workspace, a skill of its own, and at home.
home = pathlib.Path.home()
for folder in (pathlib.Path("analysis"), pathlib.Path("a/b"), home / ".config"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.md").write_text(f"{named}\\n{provided}\\n{answer}")
(pathlib.Path("analysis") / "raw.bin").write_bytes(bytes(range(256)) + named.encode() + bytes(range(256)))

# Its environment, for what it starts; its calls; its Program, by content and by name.
def session(*words):
    return subprocess.run(["evopolicy-session", *words], env={**os.environ, "MORE": provided})
policy = pathlib.Path("program/policy.py")
clean = policy.read_text()
policy.write_text(clean + f"# {named}\\n")
session("submit", "program", "--episodes", "0:1")
policy.write_text(clean + f"# {provided}\\n")
session("submit", "program", "--episodes", "0:1")
policy.write_text(clean)
session("submit", "program", "--episodes", named)
session("feedback", provided)
# A Program that holds it in halves, and prints it whole.
halves = [(secret[:7], secret[7:]) for secret in (named, provided)]
whole = f"[a + b for a, b in {halves!r}]"
policy.write_text(clean + f"\\nprint({whole})\\nraise RuntimeError(*{whole})\\n")
session("check", "program")
session("submit", "program", "--episodes", "0:1")
session("feedback")
policy.write_text(clean)
session("submit", "program", "--episodes", "0:1")
session("finish")
"""


@pytest.fixture(scope="module")
def leaked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The output folder, and what the command printed."""
    folder = tmp_path_factory.mktemp("leak")
    (folder / "agent").mkdir()
    (folder / "agent" / "leak.py").write_text(LEAK)

    def answer(link: socket.socket, asked: up.Asked) -> None:
        key = asked.headers["authorization"].removeprefix("Bearer ")
        up.says({"error": {"message": f"You may not ask with {key}"}}, "403 Forbidden", f"X-Key: {key}")(link, asked)

    with up.provider(answer) as upstream:
        provider = f"{{url: '{upstream.url}', paths: ['POST /chat'], key_variable: LEAKED_PROVIDER_KEY}}"
        command = [
            *(sys.executable, "-m", "evopolicy.cli.main", "agent=command", "benchmark=cartpole", "protocol=smoke"),
            f"agent.argv=['{{python}}','{folder}/agent/leak.py','{{provider_url}}']",
            f"agent.readable=['{folder}/agent']",
            "agent.model=m-1", f"agent.provider={provider}", "agent.variables=[LEAKED_TOKEN]",
            "agent.label=leaky", "feedback=full",
            f"output={folder}/output",
        ]  # fmt: skip
        environment = {**os.environ, "LEAKED_TOKEN": NAMED, "LEAKED_PROVIDER_KEY": PROVIDERS, "COLUMNS": "120"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env=environment, cwd=folder, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert [asked.headers["authorization"] for asked in upstream.asked] == [f"Bearer {PROVIDERS}"]
    return folder / "output", done


Leaked = tuple[Path, subprocess.CompletedProcess[str]]


def test_the_agent_did_leak_them(leaked: Leaked) -> None:
    """Or the rest would show nothing."""
    (run,) = find_runs(leaked[0])
    printed = (run.folder / "agent" / "attempt-1" / "stdout.log").read_text()
    assert "my keys are ***" in printed and "LEAKED_TOKEN=***" in printed
    assert "***" in (run.folder / "agent" / "attempt-1" / "stderr.log").read_text()
    assert "***" in (run.folder / "workspace" / "analysis" / "notes.md").read_text()
    assert run.state.agent_ended == "finished"
    # Both Programs with a key in them were refused, and nothing was charged for them.
    assert [list(s.failures) for s in run.state.submissions] == [["exception"], []]
    assert run.state.refusals == 3


@pytest.mark.parametrize("secret", [NAMED, PROVIDERS], ids=["named", "providers"])
def test_no_file_below_the_output_folder_holds_a_key(leaked: Leaked, secret: str) -> None:
    output, done = leaked
    assert holding(output, secret) == []
    assert secret not in done.stdout + done.stderr


def test_mlflow_holds_no_key(leaked: Leaked) -> None:
    output, _ = leaked
    script = f"""
import json
from mlflow.tracking import MlflowClient
client = MlflowClient("sqlite:///{output}/mlflow.db")
ids = [one.experiment_id for one in client.search_experiments()]
found = []
for run in client.search_runs(ids, max_results=100):
    found.append(repr(run.to_dictionary()))
traces = client.search_traces(locations=ids, max_results=100)
found += [trace.to_json() for trace in traces]
print(json.dumps([len(traces), found]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    traces, found = json.loads(done.stdout.splitlines()[-1])
    assert traces and len(found) > traces
    for secret in (NAMED, PROVIDERS):
        assert [text for text in found if secret in text] == []
    assert any("***" in text for text in found)
