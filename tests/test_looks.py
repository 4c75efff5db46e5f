"""Any Gymnasium id in the Host: looked at in a process of its own, once for a command, and never
run here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore

from evopolicy import looks
from evopolicy.cells import load_benchmark
from evopolicy.cli.hydra import compose
from evopolicy.cli.hydra.groups import group_options
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.benchmark import Benchmark
from evopolicy.presets import option
from tests.execution.conftest import becomes

ENVIRONMENT = """
import os, pathlib, subprocess, sys, time
import gymnasium, numpy

with pathlib.Path(__file__).with_name("imported").open("a") as file:
    file.write("x")
{at_import}

class Local(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self):
        {at_make}
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(1, numpy.float32), {{}}
    def step(self, action):
        return numpy.zeros(1, numpy.float32), 1.0, False, False, {{}}
    def close(self):
        {at_close}

gymnasium.register("Local-v0", entry_point=Local, max_episode_steps=5)
"""

Look = Callable[..., Benchmark]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Writes a module whose Environment does what is asked, and loads its Benchmark."""

    def load(
        at_import: str = "",
        at_make: str = "pass",
        at_close: str = "pass",
        seconds: float = 600.0,
        **options: object,
    ) -> Benchmark:
        text = ENVIRONMENT.format(at_import=at_import, at_make=at_make, at_close=at_close)
        (tmp_path / "local_env.py").write_text(text)
        named = {"env_id": "local_env:Local-v0", "failure_score": 0, **options}
        return load_benchmark({**option("benchmark", "gymnasium"), **named}, seconds)

    monkeypatch.syspath_prepend(str(tmp_path))
    return load


def test_a_module_beside_the_user_is_found_by_python_m(tmp_path: Path) -> None:
    text = ENVIRONMENT.format(at_import="", at_make="pass", at_close="pass")
    (tmp_path / "beside.py").write_text(text.replace("Local-v0", "Beside-v0"))
    environment = [
        "benchmark=gymnasium",
        "benchmark.env_id=beside:Beside-v0",
        "benchmark.failure_score=0",
    ]
    command = [
        sys.executable,
        "-m",
        "evopolicy",
        "agent=random",
        *environment,
        "protocol=smoke",
        "--dry-run",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "random on gymnasium-Beside-v0" in done.stdout, done.stderr


def test_what_the_host_knows_of_it_came_from_another_process(look: Look) -> None:
    spec = look().spec
    assert (spec.slug, spec.max_steps, spec.seed_bits) == ("gymnasium-Local-v0", 5, 31)
    assert "local_env" not in sys.modules


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ({"at_import": "sys.exit(3)"}, "the module 'local_env' cannot be imported: SystemExit: 3"),
        (
            {"at_import": "os._exit(7)"},
            "cannot be looked at: its process ended with exit code 7 while it was imported",
        ),
        ({"at_make": "sys.exit('bye')"}, "cannot be made: SystemExit: bye"),
        ({"at_make": "os._exit(7)"}, "its process ended with exit code 7 while it was made"),
        ({"at_make": "os.abort()"}, "its process ended with SIGABRT while it was made"),
        (
            {"at_make": "os.kill(os.getpid(), 11)"},
            "its process ended with SIGSEGV while it was made",
        ),
        (
            {"at_make": "time.sleep(3600)", "seconds": 0.5},
            r"it did not return within 0.5 s while it was made",
        ),
        ({"at_close": "time.sleep(3600)", "seconds": 5.0}, "it did not return within 5 s"),
    ],
)
def test_an_environment_that_ends_or_holds_its_process_is_one_sentence(
    look: Look, trouble: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as error:
        look(**trouble)
    assert str(error.value).startswith("benchmark.env_id 'local_env:Local-v0'")


def test_what_an_episode_bears_does_not_keep_it_out_and_nothing_it_did_reaches_the_host(
    look: Look, tmp_path: Path
) -> None:
    here = Path.cwd()
    leave = (
        "open(__file__ + '.pid', 'w').write(str(subprocess.Popen(['sleep', '3600'], "
        "start_new_session=True).pid))"
    )
    look(at_make="os.chdir('/')", at_close=f"{leave}; raise RuntimeError('closed twice')")
    assert Path.cwd() == here
    pid = (tmp_path / "local_env.py.pid").read_text()
    assert becomes(lambda: not Path("/proc", pid).exists())


def test_a_command_looks_once_and_tells_its_cells(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with looks.sharing():
        first = look()
        assert look().spec.digest == first.spec.digest
        for name, value in looks.shared().items():
            monkeypatch.setenv(name, value)  # as in a cell's process
        look()
        assert (tmp_path / "imported").read_text() == "x"
    look()
    assert (tmp_path / "imported").read_text() == "xx"


def test_what_was_refused_is_refused_again_without_a_look(look: Look, tmp_path: Path) -> None:
    with looks.sharing():
        for _ in range(2):
            with pytest.raises(ConfigError, match="cannot be made: SystemExit: 1"):
                look(at_make="sys.exit(1)")
    assert (tmp_path / "imported").read_text() == "x"


DISTRIBUTION = """
from pathlib import Path
from evopolicy.authoring import Family, Profile, table

def task(slug):
    text = dict.fromkeys(("title", "goal", "scoring", "ending"), "Text.")
    return Profile(slug, f"icy/{slug}-v0", "Local-v0", failure_score=0, imports=("local_env",), **text)

load = Family("icy_tasks:load", table(task("icy"), task("icy_large")), Path("/nowhere"))
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs another author's two tasks without YAML; their Environment does what is asked when
    it is made."""

    def install(at_make: str = "pass") -> None:
        (tmp_path / "local_env.py").write_text(
            ENVIRONMENT.format(at_import="", at_make=at_make, at_close="pass")
        )

    (tmp_path / "icy_tasks.py").write_text(DISTRIBUTION)
    info = tmp_path / "icy_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: icy-tasks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evopolicy.benchmarks]\nicy = icy_tasks:load\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    ConfigStore.instance().repo.pop("benchmark", None)


def test_an_installed_family_of_another_author_needs_no_yaml_and_is_looked_at_in_a_process_of_its_own(
    distribution: Callable[..., None],
) -> None:
    distribution()
    config = compose.plain(
        compose.compose_one(["agent=random", "benchmark=icy_large", "benchmark.max_steps=3"])
    )
    assert {"icy", "icy_large"} <= set(group_options("benchmark"))
    assert {**option("benchmark", "icy_large"), "max_steps": 3} == config["benchmark"]
    spec = load_benchmark(config["benchmark"]).spec
    assert (spec.slug, spec.max_steps) == ("icy_large", 3)
    assert "local_env" not in sys.modules
    distribution("os._exit(7)")
    with pytest.raises(
        ConfigError,
        match=r"^benchmark 'icy' cannot be looked at: its process ended with exit code 7 w",
    ):
        load_benchmark(option("benchmark", "icy"))


def test_a_path_from_here_is_told_as_an_episode_needs_it(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    look()
    with pytest.raises(
        ConfigError,
        match=f"; benchmark.kwargs.level is a path from here.*'{tmp_path}/local_env.py'$",
    ):
        look(kwargs={"level": "local_env.py"})
