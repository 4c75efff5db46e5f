"""`qoder`: Qoder CLI, without a terminal. It works with its own login alone and is not tested
against a real one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicy.agents.coding.cli import CodingAgent, provider, version_of
from evopolicy.agents.coding.installed import configuration_files, named_files
from evopolicy.agents.coding.node import Program, node_program
from evopolicy.agents.qoder import parser
from evopolicy.agents.qoder.config import QoderConfig
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import Transcript

INSTALL = "npm install -g @qoder-ai/qodercli"
URL = "https://center.qoder.sh"
HOSTS = tuple(
    f"{name}.qoder.sh:443" for name in ("center", "openapi", "api1", "api2", "api3", "api2-v2")
)
TOKEN = "QODER_PERSONAL_ACCESS_TOKEN"
FOLDER, LOGIN, PROMPT, SERVERS = ".qoder", ".qoder/.auth", "prompt.md", "mcp.json"
LEFT_BEHIND = ("logs", "projects", "cache")
WEB_TOOLS = ("WebFetch", "WebSearch", "ImageSearch", "ImageGen")


@dataclass(frozen=True)
class Qoder(CodingAgent):
    """The prompt in a staged file that a short argument names; `stream-json` on standard output."""

    config: QoderConfig

    Config = QoderConfig
    call_seconds = 100.0

    @property
    def provider(self) -> Provider:
        return provider(self.config, URL, ("POST /",), agent_variable="", hosts=HOSTS)

    def probe(self) -> Mapping[str, str]:
        self.check()
        program = self._program()
        version = version_of((*program.argv, "--version"))
        missing = [path for path in self._home().values() if not path.is_dir()]
        if missing:
            raise AgentError(
                f"agent.login: there is no login in '{missing[0]}'; run `{self.config.cli} login` "
                f"first, or set {TOKEN} and name it in agent.variables"
            )
        return {"qoder": version, **({"node": program.node} if program.node else {})}

    def invoke(self, task: AgentTask) -> Invocation:
        config, program = self.config, self._program()
        argv = [*program.argv, "--print", "--output-format", "stream-json", "--model", config.model]
        argv += ["--permission-mode", "bypass_permissions", "--strict-mcp-config"]
        for tool in WEB_TOOLS:
            argv += ["--disallowed-tools", tool]
        argv += ["--reasoning-effort", config.effort] if config.effort else []
        argv += ["--resume", task.session_id] if task.session_id else []
        files = {PROMPT: task.prompt}
        if config.mcp_servers:
            servers = {
                name: {"command": it[0], "args": list(it[1:])}
                for name, it in config.mcp_servers.items()
            }
            files[SERVERS] = json.dumps({"mcpServers": servers}, indent=2)
            argv += ["--mcp-config", str(task.staging / SERVERS)]
        prompt = f"Read the file {task.staging / PROMPT} and do what it says."
        return Invocation(
            argv=(*argv, *config.arguments, "--", prompt),
            variables=config.variables,
            files=files,
            readable=(*program.readable, *named_files(config.mcp_servers)),
            home=self._home(),
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        return parser.read(lines, logs)

    def _program(self) -> Program:
        return node_program(self.config, self.config.node, (20, 18), INSTALL)

    def _home(self) -> dict[str, Path]:
        if self.config.configuration:
            return configuration_files(self.config.configuration, FOLDER, LEFT_BEHIND)
        return {} if TOKEN in self.config.variables else {LOGIN: Path(f"~/{LOGIN}").expanduser()}
