"""What network an agent has: by the Host's proxy, to named hosts, the machine's own, or none; and
who holds the key."""

from __future__ import annotations

import json
import os
import socket
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.provider import ModelProvider
from evopolicy.execution import isolation
from evopolicy.execution.agent import network as agent_network
from evopolicy.execution.agent.launcher import LocalAgentLauncher
from evopolicy.execution.agent.network import DUMMY_KEY
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import (
    AgentLimits,
    AgentNetwork,
    AgentSite,
    AgentTask,
    Invocation,
    Isolation,
    Provider,
)
from evopolicy.session import client
from tests.execution import upstream as up
from tests.execution.conftest import PATIENCE

needs_bubblewrap = pytest.mark.skipif(
    not isolation.probe_level("bubblewrap").works,
    reason="bubblewrap: the probe says it does not work on this machine",
)
KEY = "sk-the-real-key-0123456789"
TOOLS = """
import http.client, json, os, pathlib, socket, subprocess, sys, threading, time, urllib.error, urllib.request
def ask(url, value=None, method=None, **headers):
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=200) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, type(error).__name__
def reach(host, port):
    try:
        socket.create_connection((host, port), 200).close()
        return True
    except OSError:
        return False
"""


@pytest.fixture
def site(tmp_path: Path) -> AgentSite:
    (tmp_path / "run" / "workspace").mkdir(parents=True)
    logs = tmp_path / "run" / "agent" / "attempt-1"
    return AgentSite(tmp_path / "run" / "workspace", tmp_path / "gateway.sock", logs, "do it", 0)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[up.Upstream]:
    monkeypatch.setenv("EXAMPLE_KEY", KEY)
    answer = {"text": "hello", "usage": {"input_tokens": 3, "output_tokens": 2}}
    with up.provider(up.says(answer)) as server:
        yield server


def provider(upstream: up.Upstream, **changes: Any) -> Provider:
    example = ModelProvider(
        f"{upstream.url}/v1", ("POST /chat",), key_variable="EXAMPLE_KEY", models=("m",)
    )
    return replace(example, **changes)


def run(
    site: AgentSite,
    text: str,
    needs: Provider | None,
    network: AgentNetwork = "proxy",
    level: Isolation = "bubblewrap",
    **limits: int,
) -> list[str]:
    """The lines an agent prints that ends well. It finds what stands for its provider's URL in
    `url`."""

    def invoke(task: AgentTask) -> Invocation:
        source = f"{TOOLS}\nurl = {task.provider_url!r}\n{textwrap.dedent(text)}"
        argv = (str(task.python), "-u", "-B", str(task.staging / "main.py"))
        return Invocation(argv, files={"main.py": source}, provider=needs)

    launcher = LocalAgentLauncher(
        isolation=level,
        client=Path(client.__file__),
        policy_packages=(),
        network=network,
        limits=AgentLimits(None, None, 0, **limits),
    )
    process = launcher.start(site, invoke)
    try:
        code = process.wait(PATIENCE)
    finally:
        process.stop()
    assert (code, (site.logs / "stderr.log").read_text()) == (0, "")
    return (site.logs / "stdout.log").read_text().splitlines()


def logged(site: AgentSite) -> list[dict[str, Any]]:
    """In the order of the requests: a line is written when its answer has gone, and the next may be
    written first."""
    lines = (json.loads(line) for line in (site.logs / "proxy.jsonl").read_text().splitlines())
    return sorted(lines, key=lambda line: float(line["time"]))


# --- proxy ----------------------------------------------------------------------------------------


@needs_bubblewrap
def test_an_agent_asks_its_model_by_the_proxy_without_its_key(
    site: AgentSite, upstream: up.Upstream
) -> None:
    out = run(
        site,
        """
        print(*ask(url + "/chat", {"model": "m"}, authorization="Bearer " + os.environ["EXAMPLE_KEY"]))
        print(*ask(url + "/chat", {"model": "other"}))
        print(*ask(url + "/files", {"model": "m"}))
        """,
        provider(upstream),
    )
    assert json.loads(out[0].removeprefix("200 "))["text"] == "hello"
    assert out[1].startswith("403 ") and "this Run's model is 'm'" in out[1]
    assert out[2].startswith("403 ") and "is not among what this Run may ask" in out[2]
    (asked,) = upstream.asked
    assert (asked.target, asked.headers["authorization"]) == ("/v1/chat", f"Bearer {KEY}")
    lines = logged(site)
    assert [line.get("refused", "") for line in lines] == ["", "model_refused", "path_refused"]
    assert (lines[0]["input_tokens"], lines[0]["output_tokens"]) == (3, 2)
    assert json.loads((site.logs / "invocation.json").read_text())["network"] == "proxy"


@needs_bubblewrap
def test_the_key_is_nowhere_in_the_sandbox_and_in_no_log(
    site: AgentSite, upstream: up.Upstream
) -> None:
    out = run(
        site,
        f"""
        ask(url + "/chat", {{"model": "m"}})
        secret, found = {KEY[:8]!r} + {KEY[8:]!r}, []
        for folder, folders, names in os.walk("/"):
            folders[:] = [] if folder.startswith(("/usr", "/opt/evopolicy/lib", "/proc/sys")) else folders
            if folder.startswith("/proc/") and folder.count("/") > 2:
                folders[:] = []
            for name in names:
                path = os.path.join(folder, name)
                try:
                    if os.path.getsize(path) < 1 << 22 and os.path.isfile(path) and "kmsg" not in name:
                        with open(path, "rb") as file:
                            if secret.encode() in file.read(1 << 22):
                                found.append(path)
                except OSError:
                    continue
        print(found, secret in str(os.environ), os.environ["EXAMPLE_KEY"])
        print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()) == [1, os.getpid()])
        """,
        provider(upstream),
    )
    # Where the search itself writes what it looks for, it finds it: the script holds it in two
    # halves.
    assert out == [f"[] False {DUMMY_KEY}", "True"]
    assert all(KEY.encode() not in path.read_bytes() for path in site.logs.iterdir())
    assert upstream.asked[0].headers["authorization"] == f"Bearer {KEY}"


@needs_bubblewrap
def test_a_key_may_have_another_name_in_the_sandbox(site: AgentSite, upstream: up.Upstream) -> None:
    words = "print(os.environ['AGENTS_KEY'], 'EXAMPLE_KEY' in os.environ)"
    assert run(site, words, provider(upstream, agent_variable="AGENTS_KEY")) == [
        f"{DUMMY_KEY} False"
    ]


@needs_bubblewrap
def test_events_stream_through_the_sandbox_one_by_one(
    site: AgentSite, upstream: up.Upstream
) -> None:
    go = site.workspace / "go"

    def answer(link: socket.socket, _: up.Asked) -> None:
        link.sendall(up.EVENTS + up.chunk("data: one\n\n"))
        while not go.exists():
            time.sleep(0.01)
        link.sendall(up.chunk("data: two\n\n") + b"0\r\n\r\n")

    with up.provider(answer) as events:
        out = run(
            site,
            """
            request = urllib.request.Request(url + "/chat", b'{"model": "m"}')
            with urllib.request.urlopen(request, timeout=200) as answer:
                print(answer.readline().decode(), end="")
                pathlib.Path("go").touch()
                print(answer.read().decode().strip())
            """,
            provider(upstream, url=f"{events.url}/v1"),
        )
    assert out == ["data: one", "data: two"]


@needs_bubblewrap
def test_many_connections_at_once_are_all_served(site: AgentSite, upstream: up.Upstream) -> None:
    out = run(
        site,
        """
        found = []
        def one(n):
            while (status := ask(url + "/chat", {"model": "m", "n": n, "x": "y" * 100000})[0]) == 429:
                time.sleep(0.05)
            found.append(status)
        threads = [threading.Thread(target=one, args=(n,)) for n in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(found == [200] * 40)
        """,
        provider(upstream),
    )
    assert out == ["True"]
    assert sorted(asked.json["n"] for asked in upstream.asked) == list(range(40))


@needs_bubblewrap
def test_the_cap_on_requests_holds_in_the_sandbox(site: AgentSite, upstream: up.Upstream) -> None:
    out = run(
        site,
        "print([ask(url + '/chat', {'model': 'm'})[0] for _ in range(3)])",
        provider(upstream),
        requests=2,
    )
    assert out == ["[200, 200, 403]"]


@needs_bubblewrap
@pytest.mark.parametrize("network", ["proxy", "none"])
def test_nothing_else_of_the_network_is_reached(
    site: AgentSite, upstream: up.Upstream, network: AgentNetwork
) -> None:
    needs = provider(upstream) if network == "proxy" else None
    abstract = f"\0evopolicy-test-{os.getpid()}"
    with socket.create_server(("0.0.0.0", 0)) as other, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(abstract)
        unix.listen()
        here = _addresses()
        out = run(
            site,
            f"""
            print([host for host in {["127.0.0.1", "localhost", *here]!r} for port in
                   ({upstream.port}, {other.getsockname()[1]}) if reach(host, port)])
            print(reach("1.1.1.1", 53), reach("::1", {upstream.port}), reach("example.org", 80))
            try:
                socket.socket(socket.AF_UNIX).connect({abstract!r})
                print("abstract")
            except OSError:
                print("refused")
            print(reach("127.0.0.1", 8100))
            """,
            needs,
            network,
        )
    assert out == ["[]", "False False False", "refused", str(network == "proxy")]


def _addresses() -> list[str]:
    """This machine's own, beside loopback."""
    try:
        return [
            address
            for address in socket.gethostbyname_ex(socket.gethostname())[2]
            if address[:4] != "127."
        ]
    except OSError:
        return []


# --- allowlist, open ------------------------------------------------------------------------------


@needs_bubblewrap
def test_an_allowlist_lets_named_hosts_only(site: AgentSite, upstream: up.Upstream) -> None:
    with up.provider(up.says({"text": "other"})) as other:
        out = run(
            site,
            f"""
            def tunnel(target):
                proxy = os.environ["HTTPS_PROXY"].removeprefix("http://")
                link = http.client.HTTPConnection(proxy, timeout=200)
                link.set_tunnel(target)
                try:
                    link.request("GET", "/x")
                    return link.getresponse().read().decode()
                except OSError as error:
                    return str(error)
            print(tunnel("localhost:{upstream.port}"))
            print(tunnel("localhost:{other.port}"))
            print(reach("127.0.0.1", {upstream.port}), url, os.environ["EXAMPLE_KEY"][::-1])
            print(*ask("http://localhost:{other.port}/"))
            os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
            print(*ask("http://localhost:{other.port}/"))
            """,
            provider(upstream, hosts=(f"localhost:{upstream.port}",)),
            "allowlist",
        )
    assert json.loads(out[0])["text"] == "hello"
    assert "403" in out[1]
    assert out[2] == f"False {upstream.url}/v1 {KEY[::-1]}"
    assert out[3].startswith("0 ") and out[4].startswith("403 ")
    assert other.asked == []
    assert [line["path"] for line in logged(site) if "refused" not in line] == [
        f"localhost:{upstream.port}"
    ]


@needs_bubblewrap
@pytest.mark.parametrize("with_provider", [True, False])
def test_open_is_the_machines_own_network(
    site: AgentSite, upstream: up.Upstream, with_provider: bool
) -> None:
    needs = provider(upstream) if with_provider else None
    out = run(
        site,
        f"print(reach('localhost', {upstream.port}), os.environ.get('EXAMPLE_KEY', '')[::-1])",
        needs,
        "open",
    )
    assert out == [f"True {KEY[::-1] if with_provider else ''}"]


def test_without_isolation_an_agent_asks_its_provider_itself(
    site: AgentSite, upstream: up.Upstream
) -> None:
    out = run(
        site, "print(*ask(url + '/chat', {'model': 'any'}))", provider(upstream), "open", "none"
    )
    assert "hello" in out[0] and upstream.asked[0].target == "/v1/chat"


# --- what goes together ---------------------------------------------------------------------------

NEEDS = ModelProvider("https://api.example.com/v1", ("POST /chat",))
LOGIN = replace(NEEDS, subscription=True)


@pytest.mark.parametrize(
    ("level", "asked", "needs", "found"),
    [
        ("bubblewrap", "proxy", NEEDS, "proxy"), ("bubblewrap", "allowlist", NEEDS, "allowlist"),
        ("bubblewrap", "open", NEEDS, "open"), ("bubblewrap", "none", NEEDS, "has to reach its " "provider"),
        ("bubblewrap", "proxy", LOGIN, "subscription's login.*set " "execution.agent_network=allowlist"),
        ("bubblewrap", "allowlist", LOGIN, "allowlist"), ("bubblewrap", "open", LOGIN, "open"),
        ("landlock", "proxy", NEEDS, "needs isolation bubblewrap, found landlock: install the " "package 'bubblewrap'"),
        ("landlock", "open", NEEDS, "needs isolation bubblewrap"), ("landlock", "open", None, "needs isolation"),
        ("none", "proxy", NEEDS, "install the package 'bubblewrap'.*or set " "execution.agent_network=open"),
        ("none", "open", NEEDS, "open"), ("bubblewrap", "open", None, "open"), ("bubblewrap", "proxy", None, "none"),
        ("landlock", "proxy", None, "none"), ("landlock", "none", None, "none"), ("none", "allowlist", None, "none"),
    ],
)  # fmt: skip
def test_a_network_needs_bubblewrap(
    level: Isolation, asked: AgentNetwork, needs: Provider | None, found: str
) -> None:
    if " " not in found:
        assert agent_network.check(level, asked, needs) == found
        return
    with pytest.raises(AgentError, match=found):
        agent_network.check(level, asked, needs)


@pytest.mark.parametrize("value", [None, "", "  ", "two\nlines"])
def test_a_missing_key_is_named_by_its_variable(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("NO_SUCH_KEY", value)
    with pytest.raises(AgentError, match="variable 'NO_SUCH_KEY'"):
        agent_network.check("bubblewrap", "proxy", replace(NEEDS, key_variable="NO_SUCH_KEY"))
