"""An agent at `bubblewrap`: its own small machine, what of it can be written, and that nothing of
it is left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution import isolation
from evopolicy.execution.agent import bubblewrap as agent_bubblewrap
from evopolicy.execution.agent.launcher import LocalAgentLauncher
from evopolicy.execution.sandbox import bubblewrap
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.feedback import copy_feedback
from evopolicy.kernel.ports.protocols import AgentProcess, AgentSite, AgentTask, Invocation
from evopolicy.session import client
from tests.execution.conftest import PATIENCE, alive, becomes

pytestmark = pytest.mark.skipif(
    not isolation.probe_level("bubblewrap").works,
    reason="bubblewrap: the probe says it does not work on this machine",
)
POSSIBLE = """
import ctypes, importlib, json, os, pathlib, shutil, signal, socket, subprocess, sys, time
def possible(what):
    try:
        what()
    except (OSError, ImportError):
        return False
    return True
def write(path):
    return possible(lambda: pathlib.Path(path).write_text("mine"))
"""


@pytest.fixture
def site(tmp_path: Path) -> AgentSite:
    workspace = tmp_path / "run" / "workspace"
    for folder in ("feedback/0001", "program", "analysis", ".evopolicy", "skills/tuning"):
        (workspace / folder).mkdir(parents=True)
    for name in (
        "TASK.md",
        "feedback/0001/feedback.json",
        ".evopolicy/session.json",
        "skills/tuning/SKILL.md",
    ):
        (workspace / name).write_text("the Host's")
    return AgentSite(
        workspace, tmp_path / "gateway.sock", tmp_path / "run" / "agent" / "attempt-1", "do it", 0
    )


def launcher(**options: Any) -> LocalAgentLauncher:
    return LocalAgentLauncher(
        isolation="bubblewrap", client=Path(client.__file__), policy_packages=("numpy",), **options
    )


def script(text: str, **fields: Any) -> Callable[[AgentTask], Invocation]:
    def invoke(task: AgentTask) -> Invocation:
        argv = (str(task.python), "-B", str(task.staging / "main.py"))
        return Invocation(argv, files={"main.py": POSSIBLE + textwrap.dedent(text)}, **fields)

    return invoke


@contextlib.contextmanager
def started(site: AgentSite, text: str, **fields: Any) -> Iterator[AgentProcess]:
    process = launcher().start(site, script(text, **fields))
    try:
        yield process
    finally:
        process.stop()


def run(site: AgentSite, text: str, **fields: Any) -> str:
    """What an agent that ends well prints."""
    with started(site, text, **fields) as process:
        code = process.wait(PATIENCE)
    assert (code, (site.logs / "stderr.log").read_text()) == (0, "")
    return (site.logs / "stdout.log").read_text()


# --- what it sees ---------------------------------------------------------------------------------


def test_paths_are_the_sandboxs_own_and_name_no_folder_of_this_machine(
    site: AgentSite, tmp_path: Path
) -> None:
    seen: list[AgentTask] = []

    def invoke(task: AgentTask) -> Invocation:
        seen.append(task)
        return script(
            "print(os.getcwd(), pathlib.Path.home(), sys.executable); print(dict(os.environ), "
            "sys.path)"
        )(task)

    with contextlib.closing(_Stopping(launcher().start(site, invoke))) as ended:
        assert ended.process.wait(PATIENCE) == 0
    out = (site.logs / "stdout.log").read_text()
    assert out.startswith("/workspace /home/agent /opt/evopolicy/bin/python3\n")
    (task,) = seen
    assert (task.workspace, task.python) == (Path("/workspace"), Path("/opt/evopolicy/bin/python3"))
    assert launcher().seen_socket(site.socket) == Path("/run/evopolicy/session.sock")
    for text in (out, str(task)):
        assert str(tmp_path) not in text and "evopolicy-agent-" not in text


class _Stopping:
    def __init__(self, process: AgentProcess) -> None:
        self.process = process

    def close(self) -> None:
        self.process.stop()


def test_it_is_no_one_special_and_cannot_become_it(site: AgentSite) -> None:
    out = run(
        site,
        """
        print(os.getuid(), os.getgid(), socket.gethostname(), os.uname().nodename)
        caps = [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")]
        print(set(caps) == {"0" * 16})
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.unshare(0x10000000), libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
        print(subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode != 0)
        """,
    )
    assert out.split("\n")[:4] == ["1000 1000 sandbox sandbox", "True", "-1 -1", "True"]


def test_the_kernels_settings_cannot_be_changed_and_its_own_cannot_be_read(site: AgentSite) -> None:
    out = run(
        site,
        """
        for name in ("sys/kernel/core_pattern", "sys/kernel/hostname", "sys/vm/drop_caches", "sysrq-trigger", "mtrr"):
            print(possible(lambda: open("/proc/" + name, "r+b")))
        for name in ("kmsg", "kcore", "kallsyms", "kpageflags", "1/environ", "1/mem", "1/fd/3"):
            print(possible(lambda: open("/proc/" + name, "rb").read(1)))
        """,
    )
    assert "True" not in out


def test_other_families_of_sockets_are_refused_and_its_own_loopback_works(site: AgentSite) -> None:
    out = run(
        site,
        """
        for family in (17, 38, 40, 44):  # packet, crypto, virtual machine, XDP
            print(possible(lambda: socket.socket(family, socket.SOCK_DGRAM)))
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
            print("loopback works")
        print([name for _, name in socket.if_nameindex()])
        """,
    )
    assert "True" not in out
    assert "loopback works\n['lo']\n" in out


# --- what it can write ----------------------------------------------------------------------------


def test_its_place_can_be_written_and_nothing_else(site: AgentSite) -> None:
    out = run(
        site,
        """
        mine = ("program/policy.py", "analysis/notes", "other", "~/x", "/tmp/x", "/dev/shm/x", "/var/tmp/x")
        print([path for path in mine if not write(os.path.expanduser(path))])
        theirs = ("/x", "/etc/passwd", "/usr/bin/x", "/opt/evopolicy/bin/evopolicy-session", "/opt/evopolicy/x",
                  "/run/x", "/opt/evopolicy/staging/main.py", "/run/evopolicy/agent.json", "/home/x", "/dev/x",
                  sys.executable, "/opt/evopolicy/packages/numpy/__init__.py", json.__file__)
        print([path for path in theirs if write(path)])
        """,
    )
    assert out == "[]\n[]\n"
    assert (site.workspace / "program" / "policy.py").read_text() == "mine"
    assert (site.workspace / "other").stat().st_uid == os.getuid()


def test_the_hosts_own_part_of_the_workspace_can_be_read_only(site: AgentSite) -> None:
    out = run(
        site,
        """
        names = ("TASK.md", "feedback/0001/feedback.json", ".evopolicy/session.json", "skills/tuning/SKILL.md")
        print([pathlib.Path(name).read_text() for name in names])
        tried = [write(name) for name in names] + [write("feedback/new"), write("skills/new")]
        for name in ("TASK.md", "feedback", "skills", ".evopolicy"):
            tried += [possible(lambda: os.rename(name, "moved")), possible(lambda: os.chmod(name, 0o777)),
                      possible(lambda: os.unlink(name)), possible(lambda: os.rename("program", name)),
                      possible(lambda: shutil.rmtree(name))]
        tried.append(possible(lambda: os.link("TASK.md", "linked")))
        print(any(tried))
        """,
    )
    assert (
        out
        == "['the Host\\'s', 'the Host\\'s', 'the Host\\'s', 'the Host\\'s']\nFalse\n".replace(
            "'the Host\\'s'", '"the Host\'s"'
        )
    )


def test_feedback_the_host_publishes_is_seen_at_once_and_whole(
    site: AgentSite, tmp_path: Path
) -> None:
    source = tmp_path / "run" / "submissions" / "0002" / "feedback"
    source.mkdir(parents=True)
    (source / "feedback.json").write_text("a new score")
    text = """
        print("ready", flush=True)
        new = pathlib.Path("feedback/0002/feedback.json")
        while not new.exists():
            time.sleep(0.01)
        print(new.read_text(), write(new), write("feedback/0002/more"))
        """
    with started(site, text) as process:
        log = site.logs / "stdout.log"
        assert becomes(lambda: log.exists() and "ready" in log.read_text())
        copy_feedback(source, site.workspace / "feedback", "0002")
        assert process.wait(PATIENCE) == 0
    assert log.read_text() == "ready\na new score False False\n"


def test_a_link_in_place_of_the_hosts_part_is_not_followed(site: AgentSite, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x").write_text("secret")
    (site.workspace / "skills" / "tuning" / "SKILL.md").unlink()
    (site.workspace / "skills" / "tuning").rmdir()
    (site.workspace / "skills").rmdir()
    (site.workspace / "skills").symlink_to(tmp_path / "secret")
    assert run(site, "print(possible(lambda: os.listdir('skills')))") == "False\n"


def test_temporary_folders_are_bounded(site: AgentSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_bubblewrap, "TEMPORARY_BYTES", 1 << 20)
    out = run(
        site,
        """
        for folder in ("/tmp", "/dev/shm"):
            print(possible(lambda: pathlib.Path(folder, "big").write_bytes(bytes(2 << 20))))
        """,
    )
    assert out == "False\nFalse\n"


@pytest.mark.not_as_root
def test_its_processes_are_bounded(site: AgentSite, monkeypatch: pytest.MonkeyPatch) -> None:
    if not agent_bubblewrap.processes():
        pytest.skip("the kernel is older than 5.14")
    monkeypatch.setattr(agent_bubblewrap, "PROCESSES", 50)
    out = run(
        site,
        """
        started = 0
        while started < 200 and possible(lambda: os.fork() or (time.sleep(600), os._exit(0))):
            started += 1
        print(started)
        """,
    )
    assert 40 < int(out) < 50


# --- what is let in -------------------------------------------------------------------------------


def test_named_files_are_copied_into_a_clean_home(site: AgentSite, tmp_path: Path) -> None:
    login = tmp_path / "login.json"
    login.write_text("logged in")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("a")
    out = run(
        site,
        """
        home = pathlib.Path.home()
        print(sorted(str(path.relative_to(home)) for path in home.rglob("*")))
        print((home / ".tool/auth.json").read_text(), write(home / ".tool/auth.json"))
        """,
        home={".tool/auth.json": login, ".config": tmp_path / "folder"},
    )
    assert out == "['.config', '.config/a', '.tool', '.tool/auth.json']\nlogged in True\n"
    assert login.read_text() == "logged in"


@pytest.mark.parametrize(
    ("name", "said"), [("missing", "log in with the agent's own command"), ("../x", "outside")]
)
def test_a_home_that_cannot_be_laid_is_refused(
    site: AgentSite, tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises(AgentError, match=said):
        launcher().start(site, script("", home={name: tmp_path / "no-such-file"}))


def test_a_named_installation_is_seen_where_it_is_with_its_links(
    site: AgentSite, tmp_path: Path
) -> None:
    real = tmp_path / "lib" / "tool" / "cli.py"
    real.parent.mkdir(parents=True)
    real.write_text(
        "import os; here = os.path.realpath(__file__); print(here, open(here[:-6] + 'data').read())"
    )
    (real.parent / "data").write_text("its data")
    link = tmp_path / "bin" / "tool"
    link.parent.mkdir()
    link.symlink_to(real)
    (tmp_path / "lib" / "beside").write_text("not asked for")
    out = run(
        site,
        f"""
        print(subprocess.run([sys.executable, {str(link)!r}], capture_output=True, text=True).stdout)
        print(possible(lambda: open({str(tmp_path / "lib" / "beside")!r})), write({str(real)!r}))
        """,
        readable=(link, real.parent),
    )  # fmt: skip
    assert out == f"{real} its data\n\nFalse False\n"


def test_what_would_show_the_record_or_is_not_there_is_refused(
    site: AgentSite, tmp_path: Path
) -> None:
    for path, said in ((tmp_path, "holds the Run's own record"), (tmp_path / "no", "is not there")):
        with pytest.raises(AgentError, match=said):
            launcher().start(site, script("", readable=(path,)))


# --- its end --------------------------------------------------------------------------------------


def test_a_daemon_forked_twice_ends_with_its_agent(site: AgentSite) -> None:
    marker = f"daemon-{os.getpid()}-{time.monotonic_ns()}"
    text = f"""
        program = "import os, signal, sys, time; signal.signal(15, 1); print('up', flush=True); time.sleep(600)"
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", program, {marker!r}])
            os._exit(0)
        time.sleep(600)
        """
    with started(site, text):
        assert becomes(lambda: alive(marker))
    assert not alive(marker)


@pytest.mark.parametrize("victim", ["host", "supervisor"])
def test_a_killed_host_or_supervisor_leaves_nothing(
    site: AgentSite, tmp_path: Path, victim: str
) -> None:
    marker = f"orphan-{os.getpid()}-{time.monotonic_ns()}"
    text = f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {marker!r}], start_new_session=True)
        time.sleep(600)
        """
    (tmp_path / "host.py").write_text(
        textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from evopolicy.execution.agent.launcher import LocalAgentLauncher
        from evopolicy.kernel.ports.protocols import AgentSite, Invocation
        from evopolicy.session import client
        site = AgentSite(Path({str(site.workspace)!r}), Path("/nowhere"), Path({str(site.logs)!r}), "", 0)
        invoke = lambda task: Invocation((str(task.python), "-B", str(task.staging / "main.py")),
                                         files={{"main.py": {textwrap.dedent(text)!r}}})
        agent = LocalAgentLauncher(isolation="bubblewrap", client=Path(client.__file__), policy_packages=())
        started = agent.start(site, invoke)
        print(started._supervisor.pid, flush=True)
        time.sleep(600)
        """)
    )
    host = subprocess.Popen(
        [sys.executable, str(tmp_path / "host.py")], stdout=subprocess.PIPE, text=True
    )
    assert host.stdout is not None
    try:
        supervisor = int(host.stdout.readline())
        assert becomes(lambda: alive(marker))
        os.kill(host.pid if victim == "host" else supervisor, 9)
        assert becomes(lambda: not alive(marker))
    finally:
        host.kill()
        host.wait()
        host.stdout.close()


def test_a_sandbox_that_cannot_be_made_starts_nothing_and_says_why(
    site: AgentSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> list[str]:
        return [*command(*arguments)[:1], "--ro-bind", "/no/such/folder", "/x", "--", "true"]

    command = agent_bubblewrap.command
    monkeypatch.setattr(agent_bubblewrap, "command", broken)
    with pytest.raises(
        AgentError, match=r"sandbox cannot be made: bwrap: .*/no/such/folder.*evopolicy doctor"
    ):
        launcher().start(site, script(""))
    monkeypatch.setattr(bubblewrap, "find", lambda: None)
    with pytest.raises(AgentError, match="install 'bubblewrap'"):
        launcher().start(site, script(""))
