"""`TASK.md`: everything an agent is told of its Run, from the Benchmark's own text and the Run's
terms."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from evopolicy.kernel.files.program import MAX_FILE_BYTES, MAX_FILES, MAX_TREE_BYTES
from evopolicy.kernel.ports.benchmark import BenchmarkSpec, Field
from evopolicy.kernel.ports.feedback import Visibility
from evopolicy.kernel.ports.protocols import Limits
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.spaces import Space
from evopolicy.session.space_text import (
    action_comment,
    action_expression,
    describe,
    field_table,
    has_ranges,
    members,
    number,
    observation_line,
    table,
)

WIDTH = 110
"""Columns of prose in TASK.md."""


@dataclass(frozen=True)
class TaskTerms:
    """What an agent is told of its Run beside the Benchmark itself.

    Nothing of selection and Assessment: they may be set anew when the agent is gone, and it must
    not have met others."""

    budget: Budget
    pool_size: int
    """Training Episodes: selectors name 0 to `pool_size - 1`."""
    visibility: Visibility
    limits: Limits
    packages: tuple[str, ...]
    """What a Policy may import beside the standard library."""
    block_seconds: float
    """How long `submit` and `wait` block at most."""
    wall_seconds: float | None = None
    """The agent's own time, waiting not counted; None: no limit."""


def task_text(spec: BenchmarkSpec, terms: TaskTerms, skills: Sequence[str] = ()) -> str:
    """The whole of TASK.md. Holds no seed, no path of the Host and nothing of the private
    Episodes."""
    sections = [
        _opening(spec, terms),
        _task(spec),
        _observation(spec),
        _action(spec),
        _program(spec),
        _limits(spec, terms),
        _budget(terms),
        _commands(terms),
        _feedback(spec, terms),
        _workspace(skills),
        _rules(terms),
    ]
    return _reflow("\n\n".join(section.strip() for section in sections)) + "\n"


_KEPT = re.compile(r"[|#>]|```|[-*+] |\d+\. | {4}")
"""How a line begins that is no plain prose."""


def _reflow(text: str) -> str:
    """Break prose at WIDTH columns, whatever the numbers and names in it; tables, code and lists
    stay as they are."""
    parts = text.split("```")
    for i in range(0, len(parts), 2):  # odd parts are inside a code fence
        blocks = parts[i].split("\n\n")
        parts[i] = "\n\n".join(
            _fill(b) if not any(_KEPT.match(x) for x in b.split("\n")) else b for b in blocks
        )
    return "```".join(parts)


def _fill(text: str, indent: str = "") -> str:
    filled = textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return (
        "\n" * (len(text) - len(text.lstrip("\n")))
        + filled.strip()
        + "\n" * (len(text) - len(text.rstrip("\n")))
    )


def _opening(spec: BenchmarkSpec, terms: TaskTerms) -> str:
    budget = terms.budget
    return f"""# {spec.title}

You are the engineer of a Policy. Write a Program, the folder `program/`, that controls **{spec.title}** (`{spec.id}`)
well. You may try it on real Episodes {budget.submissions} times, with {budget.episodes} Episodes in all, and improve it
from the Feedback. In the end the Host takes your best Program and measures it on Episodes nobody has seen: that score
counts.

The Program plays alone. It is given observations and returns Actions; you are not there while it runs, and it learns
nothing from one Episode to the next. What it should know, you write into it."""


def _task(spec: BenchmarkSpec) -> str:
    parts = [
        f"## Goal\n\n{spec.goal.strip()}",
        f"## Score\n\n{spec.scoring.strip()}\n\n"
        "The score of a Submission is the mean over its Episodes. Higher is better.\n\n"
        "An Episode in which the Policy fails (an exception, an invalid Action, a limit) scores "
        f"the lower of {number(spec.failure_score)} and its score so far.",
        f"## How an Episode ends\n\n{spec.ending.strip()}\n\nIt is cut off after {spec.max_steps} "
        "steps at the latest.",
    ]
    if spec.parameters:
        rows = [
            [f"`{key}`", f"`{json.dumps(value)}`"] for key, value in sorted(spec.parameters.items())
        ]
        parts.append(f"The parameters of this task:\n\n{table(['parameter', 'value'], rows)}")
    return "\n\n".join(parts)


def _observation(spec: BenchmarkSpec) -> str:
    space = spec.observation_space
    heading = f"## What the Policy sees\n\nAn observation is {describe(space)}."
    parts = [heading, *_inside(space, spec.observation_fields), spec.observation_text.strip()]
    return "\n\n".join(filter(None, parts))


def _inside(space: Space, fields: Sequence[Field]) -> list[str]:
    """What a line cannot say of `space`: bounds once, in the table of its fields where that has
    them."""
    listed = "" if has_ranges(fields, space) else "\n".join(members(space))
    return [listed, field_table(fields, space) if fields else ""]


def _action(spec: BenchmarkSpec) -> str:
    space = spec.action_space
    outside = (
        "Values outside the bounds are clipped to them, and Feedback counts how often."
        if spec.clips
        else "Anything else is an invalid Action: it is never repaired, and the Episode has failed."
    )
    parts = [
        f"## What the Policy answers\n\nAn Action is {describe(space)}.",
        *_inside(space, spec.action_fields),
    ]
    spelling = (
        "Any natural Python or NumPy spelling will do (a list for an array, `np.int64(1)` "
        "for `1`); numbers are finite."
    )
    return "\n\n".join(
        part for part in [*parts, spec.action_text.strip(), f"{spelling} {outside}"] if part
    )


def _program(spec: BenchmarkSpec) -> str:
    expression = action_expression(spec.action_space)
    imports = "import numpy as np\n\n\n" if "np." in expression else ""
    rows = [
        [
            "`observation_space`, `action_space`",
            "descriptions with Gymnasium's attribute names (`shape`, `low`, `n`, ...)",
        ],
        ["`parameters`", "the parameters of this task, a dict"],
        [
            "`seed`",
            "a number of this Episode; `random` and `numpy.random` are already seeded from it",
        ],
        ["`max_steps`", f"{spec.max_steps}"],
    ]
    return f"""## The Program

A folder with `policy.py` at its root; more modules and data files may lie beside it. `policy.py` defines `make_policy`:

```python
{imports}class Policy:
    def reset(self):  # optional: called once, before the first act
        self.steps = 0

    def act(self, observation):
        {observation_line(spec.observation_space, spec.observation_fields)}
        self.steps += 1
        return {expression}  # {action_comment(spec.action_space)}


def make_policy(context):
    return Policy()
```

{table(["`context` has", "which is"], rows)}

Instead of `make_policy`, a class `Policy(obs_space, action_space, env_meta)` with `reset(episode_index)` and `act(obs)`
is accepted too; `episode_index` is always 0.

Every Episode has a new process and a new Policy: attributes last for that Episode, nothing lasts longer. What the
Program prints is kept for Feedback and does no harm."""


def _limits(spec: BenchmarkSpec, terms: TaskTerms) -> str:
    limits = terms.limits
    rows = [
        [
            "one call of `act` (import, `make_policy` and `reset` are one call each)",
            _seconds(limits.act_seconds),
        ],
        [
            f"one Episode, all its calls (up to {spec.max_steps} steps)",
            _seconds(limits.episode_seconds),
        ],
        ["memory", _bytes(limits.memory_bytes)],
        [
            "files written in the current folder, gone after the Episode",
            _bytes(limits.scratch_bytes),
        ],
        ["printed text that is kept (head and tail)", _bytes(limits.output_bytes)],
        [
            "files in the Program",
            f"{MAX_FILES}, {_bytes(MAX_FILE_BYTES)} each, {_bytes(MAX_TREE_BYTES)} in all",
        ],
    ]
    packages = ", ".join(f"`{name}`" for name in terms.packages)
    also = f" and {packages}" if packages else ""
    return f"""## Limits on a Policy

{table(["what", "at most"], rows)}

Times are the Policy's own CPU seconds: a busy machine costs it nothing. It may import the standard library{also}.
It has no network and starts no processes; it sees its own Program and nothing else of yours. Regular files only: a
Program with symlinks is refused. `.git`, `__pycache__` and `*.pyc` are left out."""


def _seconds(seconds: float) -> str:
    return f"{number(seconds)} s"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{number(count / size)} {unit}"
    return f"{count} bytes"


def _budget(terms: TaskTerms) -> str:
    budget = terms.budget
    rows = [
        ["Submissions", str(budget.submissions)],
        ["Episodes, over all Submissions", str(budget.episodes)],
        ["Episodes in one Submission", str(min(budget.cap(terms.pool_size), budget.episodes))],
        ["pool of Episodes to choose from", f"indices 0 to {terms.pool_size - 1}"],
    ]
    if terms.wall_seconds is not None:
        rows.append(
            ["your own time (waiting for results does not count)", _duration(terms.wall_seconds)]
        )
    ends = {
        "allow_early": "You may end the Session with `finish` whenever you like.",
        "exhaust": (
            "The whole budget has to be spent: `finish` before that is refused, and so is a "
            "selector after which the rest could no longer be spent. The Session ends by itself "
            "with the last Episode."
        ),
    }
    candidates = {
        "all": "Every Submission with a score is a candidate, so a bad last one takes nothing "
        "away.",
        "named": "The candidates are those that `finish` names, or the last Submission where it "
        "names none.",
    }
    return f"""## Your budget

{table(["what", "how much"], rows)}

Each use of an Episode costs one unit, also of one you have used before, and also when the Policy fails in it. A call
the Host refuses costs nothing, and neither does `check`.

{ends[budget.finish]}

{candidates[budget.candidates]} From the candidates the Host chooses one, as a rule by private Episodes. That one is
then measured on held-out Episodes. Scores on the pool's Episodes are
for you to learn from; a Program that only suits those gains nothing."""


def _duration(seconds: float) -> str:
    return f"{number(seconds / 60)} minutes" if seconds >= 120 else f"{number(seconds)} seconds"


def _commands(terms: TaskTerms) -> str:
    few = min(8, terms.budget.cap(terms.pool_size), terms.budget.episodes)
    example = f"0:{few}" if few > 1 else "0"
    rows = [
        ["`evopolicy-session status`", "budget left, what runs, the best Submission so far"],
        [
            "`evopolicy-session check program`",
            "does it load and answer? A traceback where not; costs nothing",
        ],
        [
            f"`evopolicy-session submit program --episodes {example}`",
            "measure it on those Episodes",
        ],
        ["`evopolicy-session wait`", "wait for the Submission that is running"],
        [
            "`evopolicy-session feedback 1`",
            "the Feedback of Submission 1 (without a number: the latest)",
        ],
        [
            "`evopolicy-session finish`",
            "end the Session; `finish 3 1` names Submissions you stand by, best first",
        ],
    ]
    return f"""## Session commands

They work from any folder of this workspace; a folder you name is taken from where you are (inside `program/`, it is
`submit .`). Each prints one JSON object (`--human`: plain text) and exits with 0 for done, 1 for refused, 2 for a wrong
call; a reason and a remedy are on standard error.

{table(["command", "what it does"], rows)}

`submit` and `wait` return after {number(terms.block_seconds)} seconds at the latest. Where the answer then says
`"status": "running"`, call `evopolicy-session wait` until it says `published` or `failed`. With `--detach`, `submit`
returns at once. One Submission runs at a time. `failed` means that the engine failed, not your Program (its Episodes
stay spent).

A selector lists indices and half-open ranges and names no Episode twice:

{table(["selector", "Episodes"], _selectors(terms))}

An index means the same Episode each time: the same start, the same chance. Two Programs on the same selector are
compared fairly; new indices tell how well one generalizes."""


def _selectors(terms: TaskTerms) -> list[list[str]]:
    size = terms.pool_size
    rows = [["`0`", "the first one"]]
    if size >= 4:
        rows.append(["`0:4`", "0, 1, 2 and 3"])
    if size >= 6:
        rows.append([f"`0:4,{size - 1}`", f"the same and {size - 1}, the last of the pool"])
    return rows


def _feedback(spec: BenchmarkSpec, terms: TaskTerms) -> str:
    levels: dict[Visibility, list[list[str]]] = {
        "score": [
            ["`score`", "mean score over the Episodes"],
            ["`episodes`", "how many there were"],
            ["`failed_episodes`", "in how many of them the Policy failed, by kind of failure"],
        ],
        "summary": [["`summary`", "aggregates over the Episodes"]],
        "episodes": [
            [
                "`by_episode`",
                "per index: score, return, length, ending, measures, and the failure's traceback "
                "and the printed text",
            ]
        ],
        "full": [
            [
                "`artifacts`",
                "files beside it: traces of the steps, pictures; the oldest may go to save space",
            ]
        ],
    }
    shown = list(levels)[: list(levels).index(terms.visibility) + 1]
    rows = [row for level in shown for row in levels[level]]
    text = f"""## Feedback

Feedback of Submission 3 lies in `feedback/0003/`; begin with its `feedback.json` (level `{terms.visibility}`):

{table(["key", "what it holds"], rows)}"""
    if spec.measures and "episodes" in shown:
        text += f"\n\nThe measures of an Episode:\n\n{field_table(spec.measures)}"
    return text


def _workspace(skills: Sequence[str]) -> str:
    rows = [
        ["`TASK.md`", "this text"],
        ["`program/`", "your Program; it begins with one that runs"],
        ["`feedback/`", "what the Host tells you; read it, do not write there"],
        ["`analysis/`", "yours: notes, scripts, anything you want to keep"],
    ]
    rows += [[f"`skills/{name}`", "given to you to read"] for name in skills]
    return f"""## This folder

{table(["path", "what it is"], rows)}

Any folder of the workspace with a `policy.py` can be submitted, so you may keep several Programs side by side.
`python3` here is the interpreter Policies run in, with the same packages: try your code on Feedback you have saved."""


def _rules(terms: TaskTerms) -> str:
    rules = [
        "Improve the Program from its Feedback and from what you know. The Episodes' seeds, the "
        "simulator and the Host's records are no part of this; do not look for them.",
        "A Policy acts on its observations only. It does not try to recognize an Episode, to "
        "reach the Host or to keep anything beyond its Episode.",
        "Leave `.evopolicy/`, `feedback/` and this file as they are.",
    ]
    if terms.budget.finish == "allow_early":
        rules.append(
            "Call `evopolicy-session finish` when you are done. What you submitted counts even if "
            "you never do."
        )
    else:
        rules.append("Spend the whole budget. What you submitted counts even if you cannot.")
    return "## Rules\n\n" + "\n".join(
        _fill(f"{i}. {rule}", "   ") for i, rule in enumerate(rules, 1)
    )
