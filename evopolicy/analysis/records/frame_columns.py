"""The columns of the frames of Runs: names, types and meanings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Column(NamedTuple):
    """One column of a frame."""

    name: str
    dtype: str
    """pandas dtype; 'string', 'Int64' and 'boolean' hold pd.NA, 'float64' NaN, where there is no
    value."""
    meaning: str


WHOSE = (
    Column(
        "run",
        "string",
        "the Run's folder as found (and #result_key, if loaded twice); joins the frames",
    ),
    Column("entry", "string", "agent's label times every swept axis but seed and Benchmark"),
    Column("benchmark", "string", "slug"),
    Column("seed", "int64", "the agent's replicate"),
    Column("finished", "bool", "whether the Run has its held-out result or is known to have none"),
    Column("valid", "bool", "finished, and to be compared in tables"),
)
"""Whose a row is: every frame of Runs begins with these."""

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "runs": (
        *WHOSE,
        Column("status", "string", "done, running, unfinished, failed or invalid"),
        Column("reason", "string", "why it is not done, or what is to be known of it"),
        Column("agent", "string", "label"),
        Column("agent_name", "string", "integration"),
        Column("model", "string", ""),
        Column("benchmark_id", "string", "family/Name-vN"),
        Column("suite", "string", ""),
        Column("axes", "object", "dict of the swept settings in the entry's name"),
        Column("heldout_mean", "float64", "mean score on Assessment"),
        Column("heldout_se", "float64", "its standard error over the held-out Episodes"),
        Column("heldout_episodes", "int64", "held-out Episodes"),
        Column("heldout_failed", "int64", "held-out Episodes in which the Policy failed"),
        Column("selected_program", "string", "digest"),
        Column("selected_submission", "Int64", "NA for the initial Program"),
        Column("submissions", "int64", "charged"),
        Column("published", "int64", "Submissions with Feedback"),
        Column("units_used", "int64", "Episode units"),
        Column("units_budget", "int64", "Episode units"),
        Column("refusals", "int64", "requests the Host refused"),
        Column("agent_ended", "string", "terminal reason"),
        Column("closed_by", "string", "what closed the Session"),
        Column("isolation", "string", "of Policies"),
        Column("agent_isolation", "string", ""),
        Column(
            "agent_network", "string", "what the agent could reach: proxy, allowlist, open or none"
        ),
        Column("parameters", "string", "digest of the Benchmark's id and parameters"),
        Column("pool", "string", "in words, equal exactly when the pools are"),
        Column("budget", "string", "in words, equal exactly when the budgets are"),
        Column("selection", "string", "in words, equal exactly when the rules are"),
        Column("settings", "object", "dict of what defines the cell but its seed, by config key"),
        Column("visibility", "string", "of Feedback"),
        Column(
            "thinking_seconds",
            "float64",
            "wall seconds of the agent without Evaluations it waited for",
        ),
        Column("evaluating_seconds", "float64", "wall seconds the agent waited for Evaluations"),
        Column("validation_seconds", "float64", "wall seconds"),
        Column("assessment_seconds", "float64", "wall seconds"),
        Column("wall_seconds", "float64", "the four together"),
        Column(
            "error_kind",
            "string",
            "of the provider's fault that ended the newest attempt, '' for none",
        ),
        Column(
            "parent",
            "string",
            "result key of the Run that this one grades again; '' for a Run of its own",
        ),
        Column("created", "float64", "of the record, Unix seconds"),
        Column(
            "opened",
            "float64",
            "of the journal, Unix seconds: of a regrade, its parent's; NaN where not told",
        ),
        Column("key", "string", "digest of what defines the agent's part"),
        Column(
            "trajectory",
            "string",
            "digest of the Programs submitted, in their order; '' without any",
        ),
        Column("result_key", "string", "digest of what defines selection and Assessment"),
    ),
    "submissions": (
        *WHOSE,
        Column("submission", "int64", "from 1"),
        Column("program", "string", "digest"),
        Column("status", "string", "running, published or failed"),
        Column("selector", "string", "training indices it named"),
        Column("episodes", "int64", "Episode units it cost"),
        Column("units_used", "int64", "of the Run, up to and with this one"),
        Column("score", "float64", "as the agent saw it"),
        Column("best_so_far", "float64", "best score of the Run up to and with this one"),
        Column("failed", "int64", "Episodes in which the Policy failed"),
        Column("reason", "string", "why it failed"),
        Column("time", "float64", "Unix seconds"),
        Column("wall_seconds", "float64", ""),
        Column("policy_seconds", "float64", "CPU seconds of the Policy"),
        Column(
            "tokens",
            "float64",
            "of the Run up to its outcome, of all kinds, as the Host's proxy counted; else NaN",
        ),
        Column(
            "cost_usd",
            "float64",
            "of those, by the Run's own list of prices; NaN where a model has none",
        ),
    ),
    "episodes": (
        *WHOSE,
        Column("split", "string", "training, validation or assessment"),
        Column("submission", "Int64", "NA on the private splits"),
        Column("program", "string", "digest"),
        Column("index", "int64", "in the split"),
        Column("score", "float64", "graded"),
        Column("episode_return", "float64", "undiscounted, up to the end or the failure"),
        Column("length", "int64", "steps"),
        Column("ending", "string", "terminated, truncated or failed"),
        Column("failure_kind", "string", "'' where the Policy did not fail"),
        Column("failure_step", "Int64", "steps taken before it"),
        Column("clipped", "int64", "Actions clipped to their bounds"),
        Column("measures", "object", "dict of the Benchmark's measures"),
    ),
    "programs": (
        *WHOSE,
        Column("program", "string", "digest"),
        Column("initial", "bool", "whether the workspace began with it"),
        Column("selected", "bool", "whether it was measured on Assessment"),
        Column("first_submission", "Int64", "NA where it was never submitted"),
        Column("submissions", "int64", "how often it was submitted"),
        Column("archived", "bool", "whether its files are there"),
        Column("files", "int64", ""),
        Column("bytes", "int64", ""),
        Column("lines", "int64", "of Python"),
        Column("source", "object", "dict of the text of its Python modules by path"),
        Column(
            "data",
            "object",
            "dict of the text of its other files by path, of those that are text and small",
        ),
    ),
    "candidates": (
        *WHOSE,
        Column("submission", "int64", ""),
        Column("program", "string", "digest"),
        Column("training_score", "float64", "as the agent saw it"),
        Column("validation_mean", "float64", ""),
        Column("validation_se", "float64", "standard error over the Validation Episodes"),
        Column("validation_episodes", "Int64", ""),
        Column("validation_failed", "Int64", "Validation Episodes in which the Policy failed"),
        Column("named", "Int64", "place in the agent's finish, from 0"),
        Column("selected", "bool", ""),
    ),
    "usage": (
        *WHOSE,
        Column("input_tokens", "Int64", "not read from a cache"),
        Column("cached_tokens", "Int64", ""),
        Column("cache_write_tokens", "Int64", ""),
        Column("output_tokens", "Int64", "reasoning included"),
        Column("reasoning_tokens", "Int64", ""),
        Column("requests", "Int64", ""),
        Column("cost_usd", "float64", ""),
        Column("cost_is_estimate", "boolean", ""),
        Column(
            "tokens_are_estimate", "boolean", "whether some were estimated by the length of texts"
        ),
        Column("turns", "Int64", "messages of the agent's own"),
        Column("tool_calls", "Int64", ""),
        Column("attempts", "Int64", "times the agent was started"),
        Column(
            "thinking_seconds",
            "float64",
            "wall seconds of the agent without Evaluations it waited for",
        ),
        Column("evaluating_seconds", "float64", "wall seconds the agent waited for Evaluations"),
        Column(
            "unexplained_tokens",
            "Int64",
            "that its stream does not tell of; NA where it cannot be known",
        ),
        Column(
            "agent_error", "string", "the provider's own words, where the newest attempt failed"
        ),
    ),
    "gaps": (
        Column("entry", "string", "NA where only the folder is known"),
        Column("benchmark", "string", ""),
        Column("seed", "Int64", ""),
        Column("status", "string", "pending, running, failed or unreadable"),
        Column("reason", "string", "one sentence"),
        Column("run", "string", "the Run's folder, where there is one"),
        Column("finished", "bool", "of its Run, of which then only files cannot be read"),
        Column("valid", "bool", ""),
    ),
}
"""The columns of every frame, in order."""
