"""The API an agent's model is asked through, with what no request of any agent may bring."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.kernel.ports.protocols import Provider

HOSTED_TOOLS: tuple[str, ...] = (
    "web_search", "web_fetch", "google_search", "google_maps", "enterprise_web_search", "x_search", "live_search",
    "collections_search", "search_parameters", "enable_search", "builtin_function", "url_context", "code_interpreter",
    "code_execution", "file_search", "image_generation", "mcp", "plugins",
)  # fmt: skip
"""What providers offer to do on their own machines: with it an agent would leave its sandbox."""


@dataclass(frozen=True)
class ModelProvider(Provider):
    """A Provider that refuses the tools providers are known to run themselves, unless others are
    named."""

    refused_tools: tuple[str, ...] = HOSTED_TOOLS
