"""`command`: any program that can read TASK.md and call `evopolicy-session`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evopolicy.agents.coding.cli import check_variables
from evopolicy.agents.command.config import CommandConfig
from evopolicy.agents.command.parsers import PARSERS
from evopolicy.agents.command.program import started
from evopolicy.agents.config import identity
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentIdentity, AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import Transcript

VERSION_SECONDS = 90.0
"""Until a program is taken to hang: on a machine where many cells start at once, one takes tens of
seconds to begin."""


@dataclass(frozen=True)
class Command:
    """Starts `argv` in the workspace; its output is read by the parser the config names."""

    config: CommandConfig

    Config = CommandConfig

    @property
    def identity(self) -> AgentIdentity:
        return identity(self.config)

    @property
    def program(self) -> str:
        return self.config.program

    @property
    def resumes(self) -> bool:
        return self.config.resumes

    @property
    def call_seconds(self) -> float | None:
        return self.config.call_seconds

    @property
    def variables(self) -> tuple[str, ...]:
        return self.config.variables

    @property
    def provider(self) -> Provider | None:
        """The config's, kept to the config's model unless it names models itself."""
        provider = self.config.provider
        if provider is None or provider.models:
            return provider
        return replace(provider, models=(self.config.model,))

    def probe(self) -> Mapping[str, str]:
        check_variables(self.config.variables)
        executable = self._executable()
        if not self.config.ask_version or executable is None:
            return {}
        name = Path(self.config.argv[0]).name
        try:
            done = subprocess.run(
                [*started(executable)[0], "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=VERSION_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AgentError(
                f"agent.argv: '{self.config.argv[0]} --version' does not answer ({error}); set "
                "agent.ask_version=false"
            ) from None
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
        return {name: lines[0][:200] if lines else f"exit code {done.returncode}"}

    def invoke(self, task: AgentTask) -> Invocation:
        config, executable = self.config, self._executable()
        argv = [self._filled(part, task) for part in config.argv]
        readable = [Path(path).expanduser() for path in config.readable]
        if executable is not None:
            first, runs_from = started(executable)
            argv[:1] = first
            readable += runs_from
        return Invocation(
            argv=tuple(argv),
            environment={
                name: self._filled(value, task) for name, value in config.environment.items()
            },
            variables=config.variables,
            stdin=task.prompt,
            packages=config.packages,
            readable=tuple(readable),
            collect=config.collect,
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        return PARSERS[self.config.parser](lines, logs)

    def _filled(self, part: str, task: AgentTask) -> str:
        known = {
            "{workspace}": task.workspace,
            "{task}": task.workspace / "TASK.md",
            "{python}": task.python,
            "{provider_url}": task.provider_url,
            "{model}": self.config.model,
            "{prompt}": task.prompt,  # the last: nothing in it is replaced
        }
        for name, value in known.items():
            part = part.replace(name, str(value))
        return part

    def _executable(self) -> Path | None:
        """argv[0] as this machine has it; None where only the sandbox knows it. Raises AgentError
        for none."""
        if not self.config.argv or not self.config.argv[0]:
            raise AgentError(
                "agent.argv: is empty; say what to start, for instance "
                "'agent.argv=[my-agent,\"{task}\"]'"
            )
        name = self.config.argv[0]
        if name.startswith("{"):
            return None
        found = shutil.which(name)
        if found is None:
            raise AgentError(
                f"agent.argv: there is no executable '{name}' here; install it, or give the full "
                "path of one"
            )
        return Path(found).absolute()
