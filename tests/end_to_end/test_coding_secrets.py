"""An agent that leaks its keys wherever it can: nothing the project wrote holds one."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicy import build
from evopolicy.analysis import find_runs
from evopolicy.presets import load_config
from tests.agents.cli.programs import needs, program
from tests.agents.model_server.engineer import LEANING, write
from tests.agents.model_server.server import model_server
from tests.end_to_end.coding_run import MODEL, holding, needs_bubblewrap, said
from tests.execution import upstream as up

pytestmark = [pytest.mark.slow, needs_bubblewrap, pytest.mark.xdist_group("coding_secrets")]

NAMED = "correct-horse-battery-staple"
"""Of a variable that `agent.variables` names; it looks like no key."""
PROVIDERS = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"
"""The provider's, which the Host's proxy holds. The provider itself gives it away, in what it
answers."""
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
def leaked(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The output folder, and what the command printed."""
    folder = tmp_path_factory.mktemp("leak")
    (folder / "agent").mkdir()
    (folder / "agent" / "leak.py").write_text(LEAK)

    def answer(link: socket.socket, asked: up.Asked) -> None:
        key = asked.headers["authorization"].removeprefix("Bearer ")
        up.says(
            {"error": {"message": f"You may not ask with {key}"}}, "403 Forbidden", f"X-Key: {key}"
        )(link, asked)

    with up.provider(answer) as upstream:
        provider = (
            f"{{url: '{upstream.url}', paths: ['POST /chat'], key_variable: LEAKED_PROVIDER_KEY}}"
        )
        command = [
            *(sys.executable, "-m", "evopolicy.cli.main", "agent=command", "benchmark=cartpole", "protocol=smoke"),
            f"agent.argv=['{{python}}','{folder}/agent/leak.py','{{provider_url}}']",
            f"agent.readable=['{folder}/agent']",
            "agent.model=m-1", f"agent.provider={provider}", "agent.variables=[LEAKED_TOKEN]",
            "agent.label=leaky", "feedback=full",
            f"output={folder}/output",
        ]  # fmt: skip
        environment = {
            **os.environ,
            "LEAKED_TOKEN": NAMED,
            "LEAKED_PROVIDER_KEY": PROVIDERS,
            "COLUMNS": "120",
        }
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=300,
            env=environment,
            cwd=folder,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert [asked.headers["authorization"] for asked in upstream.asked] == [
            f"Bearer {PROVIDERS}"
        ]
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
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    traces, found = json.loads(done.stdout.splitlines()[-1])
    assert traces and len(found) > traces
    for secret in (NAMED, PROVIDERS):
        assert [text for text in found if secret in text] == []
    assert any("***" in text for text in found)


# --- a subscription's login -----------------------------------------------------------------------

NO_SUCH = "nobody-0123456789abcdefXYZ"
EXPIRES = base64.urlsafe_b64encode(b'{"exp": 4102444800}').decode().rstrip("=")
TOKENS = {
    "id_token": f"header.{EXPIRES}.id-{NO_SUCH}",
    "access_token": f"opaque-access-{NO_SUCH}",
    "refresh_token": f"rt_refresh-{NO_SUCH}",
    "account_id": f"acct-{NO_SUCH}",
}
NEWER = f"{NO_SUCH}-refreshed"[::-1]
"""What the login is refreshed to; the commands name it backwards."""


def scripted(code: str) -> str:
    """A shell command that runs `code`, which finds the login as `login` and its file as
    `place`."""
    first = (
        "import json, os, sys, time\nplace = os.path.expanduser('~/.codex/auth.json')\nlogin "
        "= json.load(open(place))"
    )
    return f"python3 - <<'END'\n{first}\ntoken = login['tokens']['refresh_token']\n{code}\nEND\n"


SPILL = (
    "cat ~/.codex/auth.json; cp ~/.codex/auth.json analysis/a.json",
    "base64 ~/.codex/auth.json; base64 -w 0 ~/.codex/auth.json; head -c 150 ~/.codex/auth.json | "
    "tail -c 80",
    scripted(
        "for part in (token[:9], token[9:]):\n    print(part, end='', flush=True)\n    "
        "time.sleep(0.4)"
    ),
    write(LEANING),
    "cp ~/.codex/auth.json program/; evopolicy-session submit program --episodes 0:1; rm "
    "program/auth.json",
    scripted(
        f"login['tokens']['refresh_token'] = {NEWER[::-1]!r}[::-1]\njson.dump(login, open(place, "
        "'w'))\n"
        "print(login, flush=True)"
    ),
    "cat ~/.codex/auth.json; cp ~/.codex/auth.json analysis/b.json",
    scripted("open('program/policy.py', 'a').write(f'print({token[:9]!r} + {token[9:]!r})')"),
    "evopolicy-session submit program --episodes 0:1",
    "cat feedback/0001/*",
    "evopolicy-session finish",
)


@needs("codex")
def test_a_login_that_codex_prints_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = {"OPENAI_API_KEY": None, "tokens": TOKENS, "last_refresh": "2099-01-01T00:00:00Z"}
    (tmp_path / "home" / ".codex").mkdir(parents=True)
    (tmp_path / "home" / ".codex" / "auth.json").write_text(json.dumps(login))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with model_server(plan=SPILL) as server:
        provider = f'{{name="scripted",base_url="{server.url}/v1",wire_api="responses"}}'
        arguments = [
            "-c",
            'model_provider="scripted"',
            "-c",
            f"model_providers.scripted={provider}",
        ]
        config = load_config(
            "smoke",
            output=str(tmp_path / "output"),
            benchmark="cartpole",
            pool={"training": 4, "validation": 0, "assessment": 1},
            selection={"rule": "last"},
            feedback={"visibility": "full", "replays": False},
            agent={
                "name": "codex",
                "model": MODEL,
                "login": "subscription",
                "arguments": arguments,
                "cli": str(program("codex")),
            },
            execution={"isolation": "bubblewrap", "agent_network": "open", "workers": 1},
        )
        run = build.run_cell(config)
    printed = (run.folder / "agent" / "attempt-1" / "stdout.log").read_text()
    assert run.state.agent_ended == "finished" and printed.count("***") > 5, said(run)
    assert run.state.refusals == 1 and len(run.state.published) == 1, (
        "the Program with the login in it"
    )
    assert "***" in (run.folder / "submissions" / "0001" / "feedback" / "feedback.json").read_text()
    for verb in ("report", "track"):
        command = [sys.executable, "-m", "evopolicy.cli.main", verb, f"source={run.folder}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    content = json.dumps(login)
    for secret in TOKENS.values():
        middle = (content.index(secret) + len(secret) // 2) // 3 * 4
        encoded = base64.b64encode(content.encode()).decode()[middle - 8 : middle + 8]
        assert (
            holding(tmp_path / "output", secret) == [] == holding(tmp_path / "output", encoded)
        ), secret
    assert holding(tmp_path / "output", NEWER) == []
