"""`evopolicy doctor`: what works, what is missing, how to get it; and what a strange machine cannot
spoil."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evopolicy.cli.commands import doctor
from evopolicy.cli.doctor import installed, machine
from evopolicy.cli.doctor.finding import Answer, Finding, ask
from evopolicy.cli.main import main
from evopolicy.execution.isolation import Probed, probe_level
from tests.cli.place import gone

Says = Callable[[dict[str, list[Finding]]], None]


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Says:
    """`says({title: findings})`: what doctor finds, in place of this machine."""

    def fake(found: dict[str, list[Finding]]) -> None:
        sections = [
            (title, lambda findings=findings: findings) for title, findings in found.items()
        ]
        monkeypatch.setattr(doctor, "sections", lambda *_: sections)

    return fake


def by_name(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def program(folder: Path, name: str, script: str) -> Path:
    """An executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_everything_is_looked_at_here_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    found = {
        finding["name"]: finding for section in told["sections"] for finding in section["findings"]
    }
    expected = {
        *(
            "Python",
            "packages",
            "cores",
            "memory",
            "bubblewrap",
            "landlock",
            "auto",
            "user namespaces",
        ),
        *(
            "temporary",
            "/dev/shm",
            "output",
            "classic_control",
            "mujoco",
            "gymnasium",
            "cma_es",
            "random",
            "MLflow",
        ),
        *("codex", "claude_code", "gemini_cli", "opencode", "kimi_code", "qoder", "chat"),
    }
    assert expected - set(found) == set()
    assert "unknown" not in found, found.get("unknown")
    assert told["isolated"] is (code == 0) is (found["auto"]["verdict"] == "ok")
    assert "cartpole" in found["classic_control"]["detail"]
    assert [f["name"] for f in found.values() if f["verdict"] == "no" and not f["remedy"]] == []
    assert list(tmp_path.iterdir()) == [], "doctor looks and leaves nothing"


def test_a_line_has_its_verdict_and_what_is_missing_its_remedy(
    says: Says, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = Finding("auto", "ok", "takes landlock", "unused")
    says(
        {
            "one": [auto],
            "two": [
                Finding("x", "no", "is \x1b[2J away", "install x"),
                Finding("y", "info", "maybe"),
            ],
        }
    )
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    lines = said.splitlines()
    one, two = lines.index("one"), lines.index("two")
    assert lines[one + 1].split() == ["ok", "auto", "takes", "landlock"]
    assert lines[two + 1].split()[:2] == ["no", "x"]
    assert lines[two + 2].strip() == "to get it: install x"
    assert lines[two + 3].split() == ["-", "y", "maybe"]
    assert "Runs can be isolated here" in lines[-1] and "1 missing" in lines[-1]


@pytest.mark.parametrize("works", [True, False])
def test_the_exit_code_says_whether_a_run_can_be_isolated(
    works: bool, says: Says, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    probed = [
        Probed("bubblewrap", False, "is not installed", "install bubblewrap"),
        Probed("landlock", works, "found this"),
    ]
    monkeypatch.setattr(
        "evopolicy.execution.isolation.probe_all",
        lambda: [*probed, Probed("none", True, "nothing")],
    )
    says(
        {"isolation": list(machine.isolation()), "other": [Finding("z", "no", "is away", "get it")]}
    )
    assert main(["doctor"]) == (0 if works else 1)
    said = capsys.readouterr().out
    assert ("takes landlock" in said) is works
    assert ("landlock cannot" in said) is works, "its limits are said where it holds"
    assert ("allow_unisolated=true" in said) is not works


def test_one_look_that_fails_hides_no_other() -> None:
    def broken() -> Iterator[Finding]:
        yield Finding("first", "ok", "seen")
        raise RuntimeError("no such device")

    found = dict(
        doctor.examine([("bad", broken), ("good", lambda: [Finding("last", "ok", "seen")])])
    )
    assert [finding.name for finding in found["bad"]] == ["first", "unknown"]
    assert "no such device" in found["bad"][1].detail
    assert found["good"][0].name == "last"


def test_what_several_sections_import_is_loaded_before_they_run_side_by_side() -> None:
    """Else two of them could meet in the import of a package and one be told a deadlock, now and
    then."""
    code = """if True:
        import sys
        from evopolicy.cli.commands import doctor
        print(*doctor._SHARED)
        look = lambda: [doctor.Finding("loaded", "ok", " ".join(n for n in doctor._SHARED if n in sys.modules))]
        (_, (found,)), = doctor.examine([("one", look)])
        print(found.detail)
    """
    answer = ask([sys.executable, "-c", code], 600.0)
    needed, loaded = answer.out.splitlines()
    assert needed == loaded and "evopolicy.authoring" in loaded.split()


def test_a_section_is_told_as_soon_as_it_is_known_and_the_json_keeps_the_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = threading.Event()

    def slow() -> Iterator[Finding]:
        assert told.wait(300)
        yield Finding("auto", "ok", "takes landlock")

    looked_at = [("slow", slow), ("quick", lambda: [Finding("x", "ok", "seen")])]
    sections = doctor.examine(looked_at)
    assert next(sections)[0] == "quick"
    told.set()
    assert [title for title, _ in sections] == ["slow"]
    monkeypatch.setattr(doctor, "sections", lambda *_: looked_at)
    assert main(["doctor", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["sections"]
    assert [section["title"] for section in shown] == ["slow", "quick"]


# --- coding agents' programs ----------------------------------------------------------------------


def test_a_coding_agent_is_named_with_its_version_or_with_the_command_that_installs_it(
    tmp_path: Path,
) -> None:
    works = program(tmp_path, "works", "echo codex-cli 0.171.0")
    broken = program(tmp_path, "broken", "echo 'needs a newer system' >&2; exit 1")
    found = installed.probed("codex", cli=str(works))
    assert (found.verdict, found.detail) == ("ok", "codex codex-cli 0.171.0")
    found = installed.probed("codex", cli=str(broken))
    assert found.verdict == "no" and "needs a newer system" in found.detail
    found = installed.probed("codex", cli=str(tmp_path / "absent"))
    assert found.remedy not in found.detail and "install it with the command below" in found.detail
    found = installed.probed("codex", cli=str(tmp_path / "absent"))
    assert (found.verdict, found.remedy) == ("no", "npm install -g @openai/codex")


def test_a_program_that_ends_well_but_calls_itself_deprecated_is_none(tmp_path: Path) -> None:
    old = program(tmp_path, "kimi", "echo 'kimi-cli 1.52.0 is deprecated: use kimi-code instead'")
    found = installed.probed("kimi_code", cli=str(old))
    assert found.verdict == "no" and found.remedy.startswith("npm install")


def test_a_program_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    for seconds in (1.0, 8.0, 64.0):  # however long a shell takes to start on a busy machine
        answer = ask(
            [
                "/bin/sh",
                "-c",
                f"setsid sleep 3000 & echo $! > {mark}.new; mv {mark}.new {mark}; wait",
            ],
            seconds,
        )
        assert answer.code is None and "did not answer" in answer.error
        if mark.exists():
            break
    gone([int(mark.read_text())])


def test_what_cannot_be_started_is_an_answer_too() -> None:
    assert ask(["/no/such/program"], 5.0).error == "No such file or directory"
    assert (
        ask([sys.executable, "-c", "import sys; print(sys.stdin.read())"], 60.0, told="hello").out
        == "hello\n"
    )


# --- the machine ----------------------------------------------------------------------------------


def a_root(folder: Path, **files: str) -> Path:
    """A folder that looks like /; `__` in a name is a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_containers_are_told_from_machines(tmp_path: Path) -> None:
    assert machine.container(a_root(tmp_path / "bare", proc__1__cgroup="0::/init.scope\n")) == ""
    docker = a_root(tmp_path / "docker")
    docker.mkdir()
    (docker / ".dockerenv").touch()
    assert machine.container(docker) == "Docker"
    assert (
        machine.container(a_root(tmp_path / "nspawn", proc__1__environ="A=1\0container=lxc\0"))
        == "lxc"
    )
    pod = a_root(tmp_path / "pod", proc__1__cgroup="0::/kubepods/besteffort/pod1\n")
    assert machine.container(pod) == "kubepods"


def test_a_control_groups_limits_count_not_the_machines(tmp_path: Path) -> None:
    info = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nHugePages_Total: 0\n"
    free = a_root(tmp_path / "free", proc__meminfo=info)
    assert machine.memory(free) == (16 * 2**30, 8 * 2**30)
    held = a_root(
        tmp_path / "held",
        proc__meminfo=info,
        proc__self__cgroup="0::/a/b\n",
        sys__fs__cgroup__a__memory_max="",
    )
    group = held / "sys/fs/cgroup/a"
    (group / "memory.max").write_text(f"{3 * 2**30}\n")
    (group / "memory.current").write_text(f"{2 * 2**30}\n")
    (group / "cpu.max").write_text("50000 100000\n")
    assert machine.memory(held) == (3 * 2**30, 2**30)
    found = by_name(machine.capacity(held))
    assert found["cores"].verdict == "warn" and "0.5" in found["cores"].detail
    assert found["memory"].verdict == "warn" and "1.0 of 3.0 GiB" in found["memory"].detail


@pytest.mark.skipif(sys.platform != "linux", reason="user namespaces are a part of Linux")
def test_what_stands_in_the_way_of_user_namespaces_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ask", lambda *_: Answer(1, "", "Operation not permitted\n"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    def remedy(name: str, **files: str) -> str:
        found = by_name(machine.namespaces(a_root(tmp_path / name, x="", **files)))
        assert found["user namespaces"].verdict == "no"
        assert "Operation not permitted" in found["user namespaces"].detail
        return found["user namespaces"].remedy

    assert "user.max_user_namespaces" in remedy("none", proc__sys__user__max_user_namespaces="0\n")
    assert "unprivileged_userns_clone=1" in remedy(
        "debian", proc__sys__kernel__unprivileged_userns_clone="0\n"
    )
    assert "--security-opt" in remedy("unknown") and "security module" in remedy("unknown")


@pytest.mark.skipif(sys.platform != "linux", reason="user namespaces are a part of Linux")
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
        ("kernel/nothing", "0"),
    ],
)
def test_the_probe_of_bubblewrap_and_the_look_at_namespaces_give_one_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    monkeypatch.setattr(machine, "ask", lambda *_: Answer(1, "", "Operation not permitted\n"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("evopolicy.execution.sandbox.landlock.abi", lambda: 7)
    program(tmp_path, "bwrap", "echo 'bwrap: Operation not permitted' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    a_root(tmp_path, **{f"proc__sys__{setting.replace('/', '__')}": f"{value}\n"})
    monkeypatch.setattr("evopolicy.execution.isolation._SYSCTLS", tmp_path / "proc/sys")
    probed = probe_level.__wrapped__("bubblewrap")
    assert not probed.works
    assert by_name(machine.namespaces(tmp_path))["user namespaces"].remedy == probed.remedy


@pytest.mark.skipif(sys.platform != "linux", reason="AppArmor is a part of Linux")
def test_ubuntus_apparmor_limit_is_said_though_a_namespace_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ask", lambda *_: Answer(0, "", ""))
    limited = a_root(
        tmp_path / "ubuntu", proc__sys__kernel__apparmor_restrict_unprivileged_userns="1\n"
    )
    found = by_name(machine.namespaces(limited))
    assert (found["user namespaces"].verdict, found["AppArmor"].verdict) == ("ok", "warn")
    assert "apparmor_restrict_unprivileged_userns=0" in found["AppArmor"].remedy
    assert "AppArmor" not in by_name(machine.namespaces(a_root(tmp_path / "other", x="")))


def test_an_output_folder_that_cannot_be_written_is_said_and_none_is_made(tmp_path: Path) -> None:
    there = machine.writable(tmp_path / "new" / "outputs")
    assert there.verdict == "ok" and "can be made" in there.detail
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert machine.writable(tmp_path / "file").verdict == "no"


# --- drawing, Benchmarks, tracking ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("works", "verdicts"),
    [
        ((), ("no", "no")),
        (("egl",), ("ok", "info")),
        (("osmesa",), ("info", "ok")),
    ],
)
def test_one_way_to_draw_is_enough_and_the_packages_are_named(
    works: tuple[str, ...], verdicts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.authoring.graphics.draws", lambda name: name in works)
    found = by_name(installed.rendering())
    assert (found["EGL"].verdict, found["OSMesa"].verdict) == verdicts
    if not works:
        assert "libegl1" in found["EGL"].remedy and "libosmesa6" in found["OSMesa"].remedy


def test_a_benchmark_that_cannot_be_loaded_is_named_beside_those_that_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from importlib.metadata import EntryPoint

    points = [
        EntryPoint("classic_control", "evopolicy_classic_control:load", "evopolicy.benchmarks"),
        EntryPoint("strange", "no_such_package:load", "evopolicy.benchmarks"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: points)
    found = by_name(installed.benchmarks())
    assert (
        found["classic_control"].verdict == "ok" and "pendulum" in found["classic_control"].detail
    )
    assert found["strange"].verdict == "no" and "no_such_package" in found["strange"].detail


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_said_without_its_password(
    tmp_path: Path,
) -> None:
    (new,) = installed.tracking(tmp_path, "")
    assert new.verdict == "ok" and "will make" in new.detail
    assert not (tmp_path / "mlflow.db").exists()
    (tmp_path / "mlflow.db").write_text("this is no database, whatever its name says")
    (spoiled,) = installed.tracking(tmp_path, "")
    assert spoiled.verdict == "warn" and "evopolicy track" in spoiled.remedy
    (away,) = installed.tracking(tmp_path, "http://me:secret@127.0.0.1:9")
    assert away.verdict == "warn" and "tracking.uri=" in away.remedy
    assert "secret" not in away.detail + away.remedy
