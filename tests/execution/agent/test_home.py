"""An agent's home and environment: kept between attempts, without its logins; what of it is kept;
what it may know."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution import isolation
from evopolicy.execution.agent import bubblewrap as agent_bubblewrap
from evopolicy.execution.agent import home as agent_home
from evopolicy.execution.agent.launcher import LocalAgentLauncher
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentSite, AgentTask, Invocation, Isolation
from evopolicy.kernel.secrecy.secrets import MASK, NO_SECRETS, Masker
from evopolicy.session import client
from tests.execution.conftest import PATIENCE, alive, becomes

SECRET = "a-secret-value-17"
LEVELS = [
    pytest.param(
        found.level,
        marks=pytest.mark.skipif(not found.works, reason=f"{found.level}: {found.detail}"),
    )
    for found in isolation.probe_all()
]


@pytest.fixture
def site(tmp_path: Path) -> AgentSite:
    (tmp_path / "run" / "workspace").mkdir(parents=True)
    agent = tmp_path / "run" / "agent"
    return AgentSite(
        tmp_path / "run" / "workspace",
        tmp_path / "no.sock",
        agent / "attempt-1",
        "",
        0,
        home=agent / "home",
    )


def script(text: str, **fields: Any) -> Callable[[AgentTask], Invocation]:
    def invoke(task: AgentTask) -> Invocation:
        argv = (str(task.python), "-B", str(task.staging / "main.py"))
        source = "import os, pathlib, sys\nhome = pathlib.Path.home()\n" + textwrap.dedent(text)
        return Invocation(argv, files={"main.py": source}, **fields)

    return invoke


def run(
    level: Isolation, site: AgentSite, text: str, mask: Masker = NO_SECRETS, **fields: Any
) -> str:
    """What an agent prints that ends well."""
    launcher = LocalAgentLauncher(
        isolation=level, client=Path(client.__file__), policy_packages=(), mask=mask
    )
    process = launcher.start(site, script(text, **fields))
    try:
        code = process.wait(PATIENCE)
    finally:
        process.stop()
        process.stop()
    assert (code, (site.logs / "stderr.log").read_text()) == (0, "")
    return (site.logs / "stdout.log").read_text()


def home_of(site: AgentSite) -> Path:
    assert site.home is not None
    return site.home


def second(site: AgentSite) -> AgentSite:
    return replace(site, logs=site.logs.with_name("attempt-2"), resumed=True, session_id="s-1")


# --- between attempts -----------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_what_an_agent_keeps_in_its_home_is_there_in_its_next_attempt(
    level: Isolation, site: AgentSite
) -> None:
    run(level, site, "(home / '.tool').mkdir(); (home / '.tool/session').write_text('so far')")
    assert home_of(site).stat().st_mode & 0o777 == 0o700
    seen: list[AgentTask] = []

    def invoke(task: AgentTask) -> Invocation:
        seen.append(task)
        return script("print((home / '.tool/session').read_text())")(task)

    launcher = LocalAgentLauncher(isolation=level, client=Path(client.__file__), policy_packages=())
    process = launcher.start(second(site), invoke)
    assert process.wait(PATIENCE) == 0
    process.stop()
    assert (second(site).logs / "stdout.log").read_text() == "so far\n"
    assert (seen[0].resumed, seen[0].session_id) == (True, "s-1")


@pytest.mark.parametrize("level", LEVELS)
def test_a_home_left_with_odd_modes_and_depths_can_be_removed(
    level: Isolation, site: AgentSite
) -> None:
    run(
        level,
        site,
        """
        (home / "a/b").mkdir(parents=True)
        (home / "a/b/file").write_text("x")
        (home / "out").symlink_to("/usr/share")
        os.chdir(home)
        for _ in range(400):
            os.mkdir("deep"); os.chdir("deep")
        os.chdir(home)
        try:
            os.chmod("a/b", 0); os.chmod("a", 0o100)
        except OSError:
            pass  # at landlock modes cannot be changed
        """,
    )
    modes = [
        path.stat().st_mode & 0o700 for path in (home_of(site) / "a", home_of(site) / "a" / "b")
    ]
    assert modes == [0o700, 0o700]
    before = Path("/usr/share").stat().st_mode
    shutil.rmtree(home_of(site))
    assert Path("/usr/share").stat().st_mode == before


# --- logins ---------------------------------------------------------------------------------------


@pytest.fixture
def login(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "login" / "inner").mkdir(parents=True)
    for name in ("auth.json", "inner/token", "settings"):
        (tmp_path / "login" / name).write_text(f"login: {name}")
    (tmp_path / "login" / "gone").symlink_to("nowhere")
    os.mkfifo(tmp_path / "login" / "pipe")
    return {".tool": tmp_path / "login", ".auth": tmp_path / "login" / "auth.json"}


def logins_in(folder: Path) -> list[str]:
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and b"login:" in path.read_bytes()
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_a_login_is_in_the_home_of_every_attempt_and_stays_in_none(
    level: Isolation, site: AgentSite, login: dict[str, Path]
) -> None:
    look = """
        for name in (".tool/auth.json", ".tool/inner/token", ".tool/settings", ".auth"):
            print((home / name).read_text()[::-1])
            (home / name).write_text("login: changed")
        (home / ".tool/new").write_text("mine")
        """
    expected = "".join(
        f"login: {name}"[::-1] + "\n"
        for name in ("auth.json", "inner/token", "settings", "auth.json")
    )
    for at in (site, second(site)):
        assert run(level, at, look, home=login, collect=("**",)) == expected
        assert logins_in(site.workspace.parent) == []
        assert (home_of(site) / ".tool" / "new").read_text() == "mine"
        kept = [
            str(path.relative_to(at.logs / "home"))
            for path in (at.logs / "home").rglob("*")
            if path.is_file()
        ]
        assert kept == [".tool/new"]
    assert (login[".tool"] / "settings").read_text() == "login: settings", (
        "the person's own is not changed"
    )


@pytest.mark.parametrize("level", LEVELS)
def test_a_link_an_agent_leaves_is_not_followed_to_lay_a_login(
    level: Isolation, site: AgentSite, login: dict[str, Path], tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "auth.json").write_text("a person's own")
    home = home_of(site)
    home.mkdir(parents=True)
    (home / ".tool").symlink_to(outside)
    (home / ".auth").symlink_to(outside / "auth.json")
    assert "login: settings" in run(
        level, site, "print((home / '.tool/settings').read_text())", home=login
    )
    assert [path.name for path in outside.iterdir()] == ["auth.json"]
    assert (outside / "auth.json").read_text() == "a person's own"


@pytest.mark.parametrize("level", LEVELS)
def test_a_link_an_agent_puts_in_a_logins_way_is_not_followed_to_remove_it(
    level: Isolation, site: AgentSite, login: dict[str, Path], tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "auth.json").write_text("a person's own")
    text = f"""
        import shutil
        try:
            shutil.rmtree(home / ".tool")
            (home / ".tool").symlink_to({str(outside)!r})
        except OSError:
            pass  # a mount
        """
    run(level, site, text, home=login, collect=(".tool/*",))
    assert (outside / "auth.json").read_text() == "a person's own"
    assert not (site.logs / "home" / ".tool" / "auth.json").exists()


@pytest.mark.parametrize("level", LEVELS)
def test_a_killed_host_leaves_no_login_in_the_runs_folder(
    level: Isolation, site: AgentSite, login: dict[str, Path], tmp_path: Path
) -> None:
    marker = f"login-{os.getpid()}-{level}"
    text = (
        f"import time; print((home / '.auth').read_text(), flush=True); time.sleep(600)  # {marker}"
    )
    host = tmp_path / "host.py"
    host.write_text(
        textwrap.dedent(f"""
        import time
        from pathlib import Path
        from evopolicy.execution.agent.launcher import LocalAgentLauncher
        from evopolicy.kernel.ports.protocols import AgentSite, Invocation
        from evopolicy.session import client
        site = AgentSite(Path({str(site.workspace)!r}), Path("/nowhere"), Path({str(site.logs)!r}), "", 0,
                         home=Path({str(site.home)!r}))
        source = "import pathlib; home = pathlib.Path.home(); " + {text!r}
        invoke = lambda task: Invocation((str(task.python), "-B", "-c", source),
                                         home={{".auth": Path({str(login[".auth"])!r})}})
        LocalAgentLauncher(isolation={level!r}, client=Path(client.__file__), policy_packages=()).start(site, invoke)
        time.sleep(600)
        """)
    )
    killed = subprocess.Popen([sys.executable, str(host)])
    log = site.logs / "stdout.log"
    try:
        assert becomes(lambda: alive(marker) and log.exists() and "login:" in log.read_text())
    finally:
        killed.kill()
        killed.wait()
    assert becomes(lambda: not alive(marker))
    log.unlink()  # where the agent printed it
    assert becomes(lambda: not logins_in(site.workspace.parent))


def test_a_folder_of_too_many_files_is_refused(
    site: AgentSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_home, "MAX_LAID", 3)
    (tmp_path / "many").mkdir()
    for number in range(4):
        (tmp_path / "many" / str(number)).touch()
    with pytest.raises(AgentError, match="more than 3 files"):
        run("none", site, "", home={".tool": tmp_path / "many"})


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_what_matches_is_kept_masked_and_nothing_else(level: Isolation, site: AgentSite) -> None:
    (site.workspace / "beside").write_text("not in the home")
    run(
        level,
        site,
        f"""
        for name in ("s/2026/a.jsonl", "s/b.jsonl", "s/b.txt", "other/c.jsonl", ".log"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text("x" * 70 + {SECRET!r} + name)
        (home / "s/link.jsonl").symlink_to(os.environ["EVOPOLICY_WORKSPACE"] + "/beside")
        (home / "linked").symlink_to(home / "other")
        os.mkfifo(home / "s/pipe.jsonl")
        """,
        Masker((SECRET,)),
        collect=("s/**/*.jsonl", "linked/*", ".l?g"),
    )
    kept = site.logs / "home"
    assert sorted(str(path.relative_to(kept)) for path in kept.rglob("*") if not path.is_dir()) == [
        ".log", "s/2026/a.jsonl", "s/b.jsonl",
    ]  # fmt: skip
    assert (kept / "s" / "b.jsonl").read_text() == "x" * 70 + MASK + "s/b.jsonl"


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in "abcd":
        (home / name).write_bytes(b"x" * 100)
    for name, value in (("MAX_FILES", 3), ("MAX_FILE_BYTES", 60), ("MAX_BYTES", 130)):
        monkeypatch.setattr(agent_home, name, value)
    agent_home.collect(home, ["*"], (), tmp_path / "kept", NO_SECRETS)
    assert [(path.name, path.stat().st_size) for path in sorted((tmp_path / "kept").iterdir())] == [
        ("a", 60), ("b", 60), ("c", 10),
    ]  # fmt: skip


@pytest.mark.parametrize("glob", ["../x", "/etc/*", ""])
def test_a_glob_that_leads_out_of_the_home_is_refused(site: AgentSite, glob: str) -> None:
    with pytest.raises(AgentError, match="outside its home"):
        run("none", site, "", collect=(glob,))


# --- variables and secrets ------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_named_variables_reach_the_agent_and_no_file(
    level: Isolation, site: AgentSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIR_VALUE", SECRET)
    monkeypatch.setenv("NOT_NAMED", "x")
    monkeypatch.setenv("EVOPOLICY_SESSION", "elsewhere")
    out = run(
        level,
        site,
        """
        value = os.environ["THEIR_VALUE"]
        print(value[::-1], os.environ.get("NOT_NAMED"), os.environ["EVOPOLICY_SESSION"] == "elsewhere")
        print("leaked", value, flush=True)
        os.write(1, value[:5].encode()); sys.stdout.flush()
        import time; time.sleep(0.6)
        os.write(1, value[5:].encode())
        (home / "kept").write_text(value)
        """,
        variables=("THEIR_VALUE", "EVOPOLICY_SESSION"),
        collect=("kept",),
    )
    assert out == f"{SECRET[::-1]} None False\nleaked {MASK}\n{MASK}"
    noted = json.loads((site.logs / "invocation.json").read_text())
    assert noted["variables"] == ["EVOPOLICY_SESSION", "THEIR_VALUE"]
    for path in site.logs.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    assert (site.logs / "home" / "kept").read_text() == MASK


def test_a_variable_that_is_missing_is_named(
    site: AgentSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    with pytest.raises(AgentError, match="variable 'NO_SUCH_VARIABLE'"):
        run("none", site, "", variables=("NO_SUCH_VARIABLE",))


@pytest.mark.parametrize("level", LEVELS)
def test_both_streams_are_masked_and_its_lines_timed(level: Isolation, site: AgentSite) -> None:
    process = LocalAgentLauncher(
        isolation=level, client=Path(client.__file__), policy_packages=(), mask=Masker((SECRET,))
    ).start(
        site,
        script(f"""
        import time
        print({SECRET!r}, flush=True)
        print({SECRET!r}, file=sys.stderr, flush=True)
        while not pathlib.Path(os.environ["EVOPOLICY_WORKSPACE"], "go").exists():
            time.sleep(0.01)
        print("x" * 5_000_000 + {SECRET!r} + "y" * 5_000_000)
        """),
    )
    # Its next line comes in a later tenth of a second than the one its first is listed at, whenever
    # that was.
    assert becomes(lambda: (site.logs / "stdout.times").read_text().endswith("\n"))
    time.sleep(0.15)
    (site.workspace / "go").touch()
    assert process.wait(PATIENCE) == 0
    process.stop()
    out = (site.logs / "stdout.log").read_bytes()
    assert out == b"***\n" + b"x" * 5_000_000 + b"***" + b"y" * 5_000_000 + b"\n"
    assert (site.logs / "stderr.log").read_text() == "***\n"
    (first, began), (then, ended) = (
        line.split() for line in (site.logs / "stdout.times").read_text().splitlines()
    )
    assert (first, then) == ("0", "1") and 0 < float(began) < float(ended)


def test_processes_are_bounded_where_the_kernel_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for release, most in (("6.1.0-generic", 4096), ("5.14-x", 4096), ("5.10.0", 0), ("odd", 0)):
        monkeypatch.setattr("platform.release", lambda release=release: release)
        assert agent_bubblewrap.processes() == most
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("platform.release", lambda: "6.1.0")
    assert agent_bubblewrap.processes() == 0
