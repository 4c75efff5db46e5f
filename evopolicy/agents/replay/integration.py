"""`replay`: resubmits the Programs and selectors of an earlier record, so that a Run is measured
again without its provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from evopolicy.agents.config import identity
from evopolicy.agents.replay.config import ReplayConfig
from evopolicy.agents.scripted.invocation import read_script, script_invocation
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.files.program import archived
from evopolicy.kernel.ports.pool import format_selector
from evopolicy.kernel.ports.protocols import AgentIdentity, AgentTask, Invocation
from evopolicy.kernel.ports.transcript import Transcript
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.values import digest


@dataclass(frozen=True)
class Replay:
    """Reads the record when it is first asked for anything; raises RecordError where it cannot."""

    config: ReplayConfig

    Config = ReplayConfig
    program = "initial"
    resumes = True
    call_seconds = None
    variables = ()
    provider = None

    @property
    def identity(self) -> AgentIdentity:
        """The source counts by what was submitted there, not by where it lies on this machine."""
        submitted = [[s.program, format_selector(s.indices)] for s in self._source.state.published]
        content = digest("evopolicy/replay/1", [submitted, list(self._source.state.named)])
        return replace(identity(self.config), options={"source": content})

    def probe(self) -> Mapping[str, str]:
        record = self._source.record
        return {"source_key": record.key, "source_agent": record.agent.label}

    def invoke(self, task: AgentTask) -> Invocation:
        run = self._source
        folders = {
            f"programs/{s.program}": run.program(s.program).resolve() for s in run.state.published
        }
        submissions = [
            {
                "number": s.id,
                "folder": f"programs/{s.program}",
                "selector": format_selector(s.indices),
            }
            for s in run.state.published
        ]
        options = {"submissions": submissions, "named": list(run.state.named)}
        return script_invocation(task, "replay", options, folders=folders)

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:  # noqa: ARG002 (the port's)
        return read_script(lines)

    @cached_property
    def _source(self) -> Run:
        if not self.config.source:
            raise AgentError(
                "agent.source: is empty; name the folder of the Run to replay, "
                "agent.source=outputs/runs/..."
            )
        run = load_run(Path(self.config.source))
        if not run.state.published:
            raise AgentError(
                f"agent.source: {self.config.source} has no published Submission to replay"
            )
        for submission in run.state.published:
            program = archived(run.folder, submission.program)
            if program is None or program.digest != submission.program:
                raise AgentError(
                    f"agent.source: {self.config.source} lacks the Program "
                    f"{submission.program[:12]}; restore programs/"
                )
        return run
