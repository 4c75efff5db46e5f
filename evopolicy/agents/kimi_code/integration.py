"""`kimi_code`: Moonshot's Kimi Code, without a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicy.agents.coding.cli import CodingAgent, provider, version_of
from evopolicy.agents.coding.home import with_home_files
from evopolicy.agents.coding.installed import configuration_files, named_files
from evopolicy.agents.coding.node import Program, node_program
from evopolicy.agents.kimi_code import parser
from evopolicy.agents.kimi_code.config import KimiConfig
from evopolicy.agents.kimi_code.wire_log import COLLECTED, FOLDER
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import Transcript

INSTALL = "npm install -g @moonshot-ai/kimi-code"
URL = "https://api.moonshot.ai/v1"
LOGIN_URL = "https://api.kimi.com/coding/v1"
LOGIN_HOSTS = ("api.kimi.com:443", "auth.kimi.com:443", "api.kimi.ai:443", "auth.kimi.ai:443")
KEY = "KIMI_MODEL_API_KEY"
LEFT_BEHIND = ("sessions", "session_index.jsonl", "workspaces.json", "logs", "cache", "updates")
LOGIN_FILES = ("credentials", "oauth")
PROMPT = "prompt.md"
QUIET = {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_CRON": "1"}
SETTINGS = '[tools]\ndisabled = ["WebSearch", "FetchURL"]\n'


@dataclass(frozen=True)
class KimiCode(CodingAgent):
    """The prompt in a staged file, since it takes one as an argument alone; `stream-json` on
    standard output."""

    config: KimiConfig

    Config = KimiConfig
    call_seconds = 50.0  # after 60 s its shell puts a command into the background

    @property
    def provider(self) -> Provider:
        url = LOGIN_URL if self.config.login == "subscription" else URL
        return provider(
            self.config, url, ("POST /chat/completions",), agent_variable=KEY, hosts=LOGIN_HOSTS
        )

    def probe(self) -> Mapping[str, str]:
        self.check()
        program = self._program()
        version = version_of((*program.argv, "--version"), QUIET)
        number = re.search(r"\b(\d+)\.\d+", version)
        if number is None or int(number[1]) < 2 or "deprecat" in version.lower():
            raise AgentError(
                f"agent.cli: '{self.config.cli}' is the old kimi-cli, which does nothing but say "
                f"so ('{version}'); install Kimi Code with `{INSTALL}`, or give its path"
            )
        if self.config.login == "subscription":
            for path in self._home().values():
                if not path.exists():
                    raise AgentError(
                        f"agent.login: there is no login ('{path}'); run `{self.config.cli} "
                        "login` first"
                    )
        return {"kimi_code": version, **({"node": program.node} if program.node else {})}

    def invoke(self, task: AgentTask) -> Invocation:
        config, program = self.config, self._program()
        prompt = f"Read the file {task.staging / PROMPT} and do what it says."
        argv = [*program.argv, "--output-format", "stream-json"]
        argv += ["-S", task.session_id] if task.session_id else []
        argv += ["-m", config.model] if config.login == "subscription" else []
        texts = {f"{FOLDER}/config.toml": SETTINGS}
        if config.mcp_servers:
            servers = {
                name: {"command": it[0], "args": list(it[1:])}
                for name, it in config.mcp_servers.items()
            }
            texts[f"{FOLDER}/mcp.json"] = json.dumps({"mcpServers": servers}, indent=2)
        first, files = with_home_files(task, [*argv, *config.arguments, "-p", prompt], texts)
        return Invocation(
            argv=first,
            environment={**QUIET, **self._model(task)},
            variables=config.variables,
            files={**files, PROMPT: task.prompt},
            readable=(*program.readable, *named_files(config.mcp_servers)),
            home=self._home(),
            collect=(COLLECTED,),
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        return parser.read(lines, logs)

    def _program(self) -> Program:
        return node_program(self.config, self.config.node, (24, 15), INSTALL)

    def _model(self, task: AgentTask) -> dict[str, str]:
        config = self.config
        effort = {"KIMI_MODEL_THINKING_EFFORT": config.effort} if config.effort else {}
        if config.login == "subscription":
            return effort  # of a model in its own configuration
        named = {
            "KIMI_MODEL_NAME": config.model,
            "KIMI_MODEL_PROVIDER_TYPE": config.protocol,
            "KIMI_MODEL_BASE_URL": task.provider_url,
            "KIMI_MODEL_MAX_CONTEXT_SIZE": str(config.context_tokens),
        }
        return {**named, **effort, **({} if config.key_variable else {KEY: "none-is-needed"})}

    def _home(self) -> dict[str, Path]:
        subscribed = self.config.login == "subscription"
        folder = Path(f"~/{FOLDER}").expanduser()
        if self.config.configuration:
            without = LEFT_BEHIND if subscribed else (*LEFT_BEHIND, *LOGIN_FILES)
            return configuration_files(self.config.configuration, FOLDER, without)
        if not subscribed:
            return {}
        return {f"{FOLDER}/{name}": folder / name for name in ("config.toml", "credentials")}
